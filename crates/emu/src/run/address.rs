//! Addresses of the two ends of a path.
//!
//! Each run has a block of addresses. Its own link uses the first four (a /30). A run nested inside
//! it gets one sixteenth of the block, so that prefix routes suffice at any depth of nesting.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Bits of an address that number the runs nested in a run; number 0 is the run's own link.
const CHILD_BITS: u8 = 4;
/// Limit on the runs nested directly in one run.
pub(crate) const MAX_CHILDREN: u32 = (1 << CHILD_BITS) - 1;
/// Prefix length of the smallest block.
const MAX_BLOCK_PREFIX: u8 = 28;
/// Prefix length of a link, bits.
pub(crate) const LINK_PREFIX: u8 = 30;
/// Prefix of unique local addresses (RFC 4193); the IPv4 address is the last 32 bits.
const V6_PREFIX: u128 = 0xfd72_6474 << 96;

/// Addresses of one run and of the runs nested in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    base: u32,
    prefix: u8,
}

impl Block {
    /// Block of a run that is not nested. Without `--internet` its namespaces are connected to no
    /// other network. With it, hosts outside may have addresses of the block: they are reached,
    /// except those of this run's own link and of the blocks of nested runs that now exist
    /// (`network.rs`).
    pub(crate) const OUTERMOST: Self = Self { base: 10 << 24, prefix: 8 };

    /// Returns the block of the run whose near end has the address `near`; `None` if there is none.
    pub(crate) fn with_near_end(near: Ipv4Addr) -> Option<Self> {
        let mut block = Self::OUTERMOST;
        // Descend into the nested run whose block contains `near`. Number 0 is the run's own link.
        while let Some(child) = block.child(block.number_in(near)).filter(|child| child.base != block.base) {
            block = child;
        }
        (block.near() == near).then_some(block)
    }

    /// Returns the number of the nested run to whose block `address` would belong.
    const fn number_in(self, address: Ipv4Addr) -> u32 {
        (address.to_bits() >> (32 - self.prefix - CHILD_BITS)) & MAX_CHILDREN
    }

    /// Returns the block of the nested run `number` (1 to [`MAX_CHILDREN`]); `None` at the deepest
    /// level.
    pub(crate) const fn child(self, number: u32) -> Option<Self> {
        let prefix = self.prefix + CHILD_BITS;
        if prefix > MAX_BLOCK_PREFIX {
            return None;
        }
        Some(Self { base: self.base | (number << (32 - prefix)), prefix })
    }

    /// Returns the address of the end at which the command runs.
    pub(crate) const fn near(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + 2)
    }

    pub(crate) const fn far(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + 1)
    }

    /// Returns the first address and the prefix length of the block.
    pub(crate) const fn network(self) -> (Ipv4Addr, u8) {
        (Ipv4Addr::from_bits(self.base), self.prefix)
    }
}

/// Returns the IPv6 address that corresponds to an IPv4 address.
pub(crate) fn v6(v4: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(V6_PREFIX | u128::from(v4.to_bits()))
}

/// Returns the IPv6 prefix length that corresponds to an IPv4 prefix length.
pub(crate) const fn v6_prefix(v4: u8) -> u8 {
    96 + v4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_nest_and_do_not_overlap() {
        let outer = Block::OUTERMOST;
        assert_eq!(outer.near(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(outer.far(), Ipv4Addr::new(10, 0, 0, 1));
        let inner = outer.child(1).unwrap();
        assert_eq!(
            (inner.near(), inner.network()),
            (Ipv4Addr::new(10, 16, 0, 2), (Ipv4Addr::new(10, 16, 0, 0), 12))
        );
        let third = outer.child(15).unwrap().child(2).unwrap();
        assert_eq!(third.far(), Ipv4Addr::new(10, 242, 0, 1));
    }

    #[test]
    fn block_is_found_by_its_near_end() {
        for number in [1, MAX_CHILDREN] {
            let mut block = Block::OUTERMOST;
            for depth in 0..=5 {
                assert_eq!(Block::with_near_end(block.near()), Some(block));
                assert_eq!(Block::with_near_end(block.far()), None, "no near end");
                assert_eq!(block.child(number).is_none(), depth == 5);
                block = block.child(number).unwrap_or(block);
            }
        }
        for other in [[10, 0, 0, 3], [10, 0, 16, 2], [11, 0, 0, 2], [192, 0, 2, 2], [10, 17, 17, 18]] {
            let known = Block::with_near_end(other.into());
            assert_eq!(known.is_some(), other == [10, 17, 17, 18], "{other:?}");
        }
    }

    #[test]
    fn ipv6_address_embeds_ipv4_bits() {
        assert_eq!(v6(Ipv4Addr::new(10, 16, 0, 2)).to_string(), "fd72:6474::a10:2");
        assert_eq!(v6_prefix(30), 126);
    }
}
