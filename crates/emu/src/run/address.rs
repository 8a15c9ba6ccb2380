//! Addresses of the ends of a path.
//!
//! A network has a block of addresses. Its link has the first four (a /30). Each run started inside
//! it gets a sixteenth of the block. So prefix routes suffice, however deep networks are nested.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Address bits that number the runs inside a network; 0 is the network's own link.
const CHILD_BITS: u8 = 4;
/// Runs that fit inside one network, beside each other.
pub(crate) const MAX_CHILDREN: u32 = (1 << CHILD_BITS) - 1;
/// Prefix length of the smallest block.
const MAX_BLOCK_PREFIX: u8 = 28;
/// Prefix length of a link, bits.
pub(crate) const LINK_PREFIX: u8 = 30;
/// Prefix of unique local addresses (RFC 4193); the IPv4 address is the last 32 bits.
const V6_PREFIX: u128 = 0xfd72_6474 << 96;

/// Addresses of one network and of the networks inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    base: u32,
    /// Prefix length, bits.
    prefix: u8,
}

impl Block {
    /// Block of a network that is not nested. Its namespaces have no other network, so it cannot
    /// collide with addresses of the host.
    pub(crate) const OUTERMOST: Self = Self { base: 10 << 24, prefix: 8 };

    /// Returns the block of the network with this near end.
    pub(crate) fn with_near_end(near: Ipv4Addr) -> Option<Self> {
        let mut block = Self::OUTERMOST;
        // Children are numbered from 1, so the first 0 is that of a network's own link.
        while let Some(child) = block.child(block.number_in(near)).filter(|child| child.base != block.base) {
            block = child;
        }
        (block.near() == near).then_some(block)
    }

    /// Returns the number of the run inside this network to which the address would belong.
    const fn number_in(self, address: Ipv4Addr) -> u32 {
        (address.to_bits() >> (32 - self.prefix - CHILD_BITS)) & MAX_CHILDREN
    }

    /// Returns the block of run `number` (1 to [`MAX_CHILDREN`]) inside this network; `None` at the
    /// deepest level.
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

/// Returns the IPv6 address that belongs to an IPv4 address.
pub(crate) fn v6(v4: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(V6_PREFIX | u128::from(v4.to_bits()))
}

/// Returns the IPv6 prefix length for an IPv4 prefix length, bits.
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
