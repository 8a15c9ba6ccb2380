//! Identifiers of nodes, and the random numbers that belong to each.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use rdt_crypto::Entropy;

/// Identifier of a node in its simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns an IP address of the node: one of `fd00::/64`, by its number. For
    /// `ConnectionSetConfig::ip_of`.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(0xfd00 << 112 | u128::from(self.0)).into()
    }
}

/// Returns the random numbers of a node that starts at virtual time `elapsed`. They differ after a
/// restart.
pub(crate) fn entropy(seed: u64, node: NodeId, elapsed: Duration) -> Entropy {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&node.0.to_le_bytes());
    key[12..28].copy_from_slice(&elapsed.as_nanos().to_le_bytes());
    Entropy::from_seed(key)
}
