//! Number of peers of each source, so that one host cannot take all places. The caller defines what
//! a source is: the programs count an IPv4 address, or the /64 network of an IPv6 address.

use std::collections::BTreeMap;

/// Counts of peers by source. Each peer is counted once, so the map has at most as many entries as
/// there are peers.
#[derive(Debug)]
pub(super) struct Sources<P> {
    /// Returns the source of an address; `None` if sources have no limits.
    source_of: Option<fn(&P) -> u64>,
    counts: BTreeMap<u64, u32>,
}

impl<P> Sources<P> {
    pub(super) fn new() -> Self {
        Self { source_of: None, counts: BTreeMap::new() }
    }

    /// Counts by `source_of` from now on. Call it before the first peer is added.
    pub(super) fn count_by(&mut self, source_of: fn(&P) -> u64) {
        self.source_of = Some(source_of);
    }

    /// True if the source of `peer` has fewer than `limit` peers.
    pub(super) fn has_room_for(&self, peer: &P, limit: u32) -> bool {
        let count = self.source_of.and_then(|source_of| self.counts.get(&source_of(peer)));
        count.is_none_or(|count| *count < limit)
    }

    /// True if both peers have the same source.
    pub(super) fn are_same(&self, a: &P, b: &P) -> bool {
        self.source_of.is_some_and(|source_of| source_of(a) == source_of(b))
    }

    pub(super) fn add(&mut self, peer: &P) {
        if let Some(source_of) = self.source_of {
            *self.counts.entry(source_of(peer)).or_default() += 1;
        }
    }

    /// Subtracts a peer that was added.
    pub(super) fn remove(&mut self, peer: &P) {
        let Some(source) = self.source_of.map(|source_of| source_of(peer)) else { return };
        if let Some(count) = self.counts.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&source);
            }
        }
    }

    /// Returns the number of sources with a peer.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }
}
