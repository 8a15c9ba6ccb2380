//! Configuration of a server.

use rdt_transport::{ListenerConfig, ReceiverConfig};

/// Paths between peers and their receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// An emulated path for each peer, as its first SYN asks. The first connection draws losses
    /// from `seed`, like any link with this seed; connection n, counted from 0 in the order of
    /// admission, draws from `child_seed(seed, n)`.
    Emulated {
        /// Seed of all draws.
        seed: u64,
    },
    /// No paths. Link properties in a SYN are checked and ignored.
    None,
}

/// Configuration of a server: its listener, its links, their limits.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// Receivers and their limits.
    pub listener: ListenerConfig,
    /// Paths between peers and receivers.
    pub link: LinkMode,
    /// Memory limit of the links of all peers together, bytes.
    pub link_memory_limit: u64,
    /// Memory limit of one direction of one peer's path, bytes.
    pub peer_link_memory_limit: u64,
}

impl ServerConfig {
    /// The reference receiver: growing window, checksum, a path for each peer.
    pub fn reference(seed: u64) -> Self {
        Self::new(ReceiverConfig::reference(), LinkMode::Emulated { seed })
    }

    /// Default limits: those of [`ListenerConfig::new`] for receivers, and equal ones for links.
    pub fn new(receiver: ReceiverConfig, link: LinkMode) -> Self {
        let listener = ListenerConfig::new(receiver);
        Self {
            listener,
            link,
            link_memory_limit: listener.memory_limit,
            peer_link_memory_limit: listener.peer_memory_limit,
        }
    }

    /// Divides `bytes` of memory: half for receivers and half for links. One peer gets at most a
    /// quarter of either half.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        let half = bytes / 2;
        self.listener.memory_limit = half;
        self.listener.peer_memory_limit = half / 4;
        self.link_memory_limit = half;
        self.peer_link_memory_limit = half / 4;
        self
    }
}
