//! Many receivers behind one socket, each at the end of its own emulated path.
//!
//! ```text
//!             +---------------------------- Server -----------------------------+
//!  datagrams  |  path of sender A:  forward link --> +--> Listener: a receiver   |
//! ----------->|  path of sender B:  forward link --> |      for each address     |
//! <-----------|                     reverse links <--+--> ConnectionSet: one for |
//!             |                                           each connection        |
//!             +------------------------------------------------------------------+
//! ```
//!
//! The listener has the classic senders, the set the native ones ([`Server::listen`]). [`SenderId`]
//! is the key of both.
//!
//! The first SYN of a classic peer describes its path; later SYNs do not change the path. The
//! handshake of a native connection describes the path and bypasses it: its packets are delivered
//! at once. A native sender that requests no link has no path. The server handles each packet that leaves a link with the
//! packet's due time as the current time, in the order of due times, however late the server is
//! called. Late calls therefore do not change the emulation; [`ServerStats::lateness`] measures
//! them.
#![forbid(unsafe_code)]

mod link_memory;
mod links;
mod native;
mod outgoing;
mod path;
mod server;
mod stats;

pub use server::{SenderId, Server};
pub use stats::ServerStats;

use std::time::Duration;

use rdt_transport::{ListenerConfig, ReceiverConfig};

/// Default of [`ServerConfig::native_idle`]: longer than a sender waits (100 s), so that a transfer
/// survives an outage of the path.
const NATIVE_IDLE: Duration = Duration::from_secs(120);

/// Emulation of paths between peers and their receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// The server emulates a path for each peer, as the peer's first SYN requests. Connection n
    /// (from 0, in the order of admission) uses `child_seed(seed, n)`, but connection 0 uses
    /// `seed`.
    Emulated {
        /// Seed of the random draws of all paths.
        seed: u64,
    },
    /// The server emulates no paths. It validates link properties in a SYN and ignores them.
    None,
}

/// Configuration of a server: its listener, its emulated links, and their limits.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// Configuration of the listener: receivers and their limits.
    pub listener: ListenerConfig,
    /// Emulation of paths between peers and receivers.
    pub link: LinkMode,
    /// Limit on the memory of packets inside the links of all peers together, bytes.
    pub link_memory_limit: u64,
    /// Limit on the memory of packets inside one direction of one peer's path, bytes.
    pub peer_link_memory_limit: u64,
    /// Idle timeout of native connections, and the time for which a link keeps a silent sender.
    pub native_idle: Duration,
    /// True to accept the classic format.
    pub classic: bool,
}

impl ServerConfig {
    /// Returns the settings of the reference receiver: growing window, checksum, emulated paths.
    pub fn reference(seed: u64) -> Self {
        Self::new(ReceiverConfig::reference(), LinkMode::Emulated { seed })
    }

    /// Returns a configuration with the limits of [`ListenerConfig::new`], and the same for links.
    pub fn new(receiver: ReceiverConfig, link: LinkMode) -> Self {
        let listener = ListenerConfig::new(receiver);
        Self {
            listener,
            link,
            link_memory_limit: listener.memory_limit,
            peer_link_memory_limit: listener.peer_memory_limit,
            native_idle: NATIVE_IDLE,
            classic: true,
        }
    }

    /// Sets all memory limits: half of `bytes` for receivers and half for links. One peer can use
    /// at most a quarter of each half.
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
