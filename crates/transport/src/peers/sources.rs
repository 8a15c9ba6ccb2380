//! Number of peers of each source, so that one host cannot use up the limit of peers. A source is
//! an IPv4 address, or the /56 network of an IPv6 address: as much as one customer has.

use std::collections::BTreeMap;
use std::net::IpAddr;

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

/// Returns the number of the source of an address: an IPv4 address, or the first 56 bits of an IPv6
/// address, whose customer chooses the other ones (RFC 6177).
pub(super) fn source_number(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 72) as u64,
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
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), 0x0020_010d_b800_0100);
        assert_eq!(source("2001:db8:1:ff::1"), source("2001:db8:1::2"));
        assert_ne!(source("2001:db8:1:100::1"), source("2001:db8:1::1"));
    }
}
