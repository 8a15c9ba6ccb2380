//! Number of peers of each source, so that one host cannot use up the limit of peers. The caller
//! defines what a source is: the programs count an IPv4 address, or the /64 network of an IPv6
//! address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by source that a [`Listener`](crate::Listener) and a
/// [`ConnectionSet`](crate::ConnectionSet) on one socket share: each adds those of the other to its
/// own. Clones are the same counts.
#[derive(Debug, Clone, Default)]
pub struct SourceCounts(Arc<Mutex<BTreeMap<u64, u32>>>);

impl SourceCounts {
    pub(crate) fn add(&self, source: u64) {
        *self.lock().entry(source).or_default() += 1;
    }

    /// Subtracts one that was added.
    pub(crate) fn remove(&self, source: u64) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&source);
            }
        }
    }

    pub(crate) fn of(&self, source: u64) -> u32 {
        self.lock().get(&source).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of the source of an address: an IPv4 address, or the first 64 bits of an IPv6
/// address, whose host chooses the other ones.
pub fn source_number(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

/// Counts of peers by source. Each peer is counted once, so the map has at most as many entries as
/// there are peers.
#[derive(Debug)]
pub(super) struct Sources<P> {
    /// Returns the source of an address; `None` if sources have no limits.
    source_of: Option<fn(&P) -> u64>,
    counts: BTreeMap<u64, u32>,
    /// Counts of the other protocol on this socket, which the limit includes.
    other_counts: SourceCounts,
}

impl<P> Sources<P> {
    pub(super) fn new() -> Self {
        Self { source_of: None, counts: BTreeMap::new(), other_counts: SourceCounts::default() }
    }

    /// Counts by `source_of` from now on. Call it before the first peer is added.
    pub(super) fn count_by(&mut self, source_of: fn(&P) -> u64) {
        self.source_of = Some(source_of);
    }

    /// True if the source of `peer` has fewer than `limit` peers.
    pub(super) fn has_room_for(&self, peer: &P, limit: u32) -> bool {
        self.source(peer).is_none_or(|source| {
            let own = self.counts.get(&source).copied().unwrap_or(0);
            own.saturating_add(self.other_counts.of(source)) < limit
        })
    }

    /// Counts the peers of the other protocol on this socket towards the limit.
    pub(super) fn set_other_counts(&mut self, counts: SourceCounts) {
        self.other_counts = counts;
    }

    /// Returns the source of `peer`; `None` if sources have no limits.
    pub(super) fn source(&self, peer: &P) -> Option<u64> {
        self.source_of.map(|source_of| source_of(peer))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports and interfaces do not count.
    #[test]
    fn source_is_ipv4_address_or_ipv6_network() {
        let source = |text: &str| source_number(text.parse().unwrap());
        assert_eq!(source("192.0.2.1"), 0xc000_0201);
        assert_eq!(source("::ffff:192.0.2.1"), 0xc000_0201);
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), 0x2001_0db8_0001_0002);
    }
}
