//! Nodes of a simulation, of all kinds.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;

use crate::connection_node::ConnectionsNode;
use crate::sender_node::SenderNode;
use crate::server_node::ServerNode;
use crate::sink::SinkNode;
use crate::source::SourceNode;

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

/// Returns the random numbers of a node that starts at virtual time `elapsed`: others after a
/// restart.
pub(crate) fn entropy(seed: u64, node: NodeId, elapsed: Duration) -> Entropy {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&node.0.to_le_bytes());
    key[12..28].copy_from_slice(&elapsed.as_nanos().to_le_bytes());
    Entropy::from_seed(key)
}

pub(crate) enum Node {
    Sender(Box<SenderNode>),
    Server(Box<ServerNode>),
    Connections(Box<ConnectionsNode>),
    Source(Box<SourceNode>),
    Sink(Box<SinkNode>),
}

impl Node {
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        match self {
            Self::Sender(node) => node.pump(now),
            Self::Server(node) => node.pump(now),
            Self::Connections(node) => node.pump(now),
            Self::Source(_) | Self::Sink(_) => false,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Sender(node) => node.deadline(),
            Self::Server(node) => node.deadline(),
            Self::Connections(node) => node.deadline(),
            Self::Source(node) => node.deadline(),
            Self::Sink(_) => None,
        }
    }
}
