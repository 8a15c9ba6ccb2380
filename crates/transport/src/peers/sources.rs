//! Number of peers of each source, so that one host cannot use up the limit of peers. A source is
//! an IPv4 address, or the /56 network of an IPv6 address: as much as one customer has.

use std::collections::BTreeMap;

/// Counts of peers by source. Each peer is counted once, so the map has at most as many entries as
/// there are peers. Peers without a source (`None`) do not count.
#[derive(Debug, Default)]
pub(super) struct SourceCounts(BTreeMap<u64, usize>);

impl SourceCounts {
    pub(super) fn add(&mut self, source: Option<u64>) {
        if let Some(source) = source {
            *self.0.entry(source).or_default() += 1;
        }
    }

    /// Subtracts one that was added.
    pub(super) fn remove(&mut self, source: Option<u64>) {
        if let Some(source) = source
            && let Some(count) = self.0.get_mut(&source)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&source);
            }
        }
    }

    /// Returns the number of peers of a source.
    pub(super) fn of(&self, source: Option<u64>) -> usize {
        source.and_then(|source| self.0.get(&source)).copied().unwrap_or(0)
    }

    /// Returns the largest count; 0 if there are none.
    pub(super) fn largest(&self) -> usize {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// Returns all counts, none of which is 0.
    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = usize> {
        self.0.values().copied()
    }
}
