//! What a server is told before it starts.

use rdt_transport::{ListenerConfig, ReceiverConfig};

/// What lies between a peer and its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// The path that the peer's first SYN asks for. The first connection draws its losses from `seed`, so they are those
    /// of any link with this seed; connection n, counted from 0 in the order of admission, from `child_seed(seed, n)`.
    Emulated {
        /// Seed of all draws.
        seed: u64,
    },
    /// Nothing: the link properties of the SYN are checked and not applied.
    None,
}

/// Limits of a server and the configuration of its parts.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// Receivers and their limits.
    pub listener: ListenerConfig,
    /// What lies between.
    pub link: LinkMode,
    /// Bytes that the links of all peers together may hold.
    pub link_memory_limit: u64,
    /// Bytes that one direction of one peer's path may hold.
    pub peer_link_memory_limit: u64,
}

impl ServerConfig {
    /// The reference receiver: growing window, checksum, a path for each peer.
    pub fn reference(seed: u64) -> Self {
        Self::new(ReceiverConfig::reference(), LinkMode::Emulated { seed })
    }

    /// Default limits: those of [`ListenerConfig::new`], and for links the same again.
    pub fn new(receiver: ReceiverConfig, link: LinkMode) -> Self {
        let listener = ListenerConfig::new(receiver);
        Self {
            listener,
            link,
            link_memory_limit: listener.memory_limit,
            peer_link_memory_limit: listener.peer_memory_limit,
        }
    }

    /// Divides `bytes` of memory: half for reassembly, half for the links, and a quarter of either half at
    /// most for one peer.
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
