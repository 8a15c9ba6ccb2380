//! Internal part of rdt: many receivers behind one socket, each at the end of an emulated path.
//!
//! ```text
//!             +----------------------------- Server ------------------------------+
//!  datagrams  |  path of sender A:  forward link --> +--> ConnectionSet: a receiver |
//! ----------->|  path of sender B:  forward link --> |    for each classic address, |
//! <-----------|                     reverse links <--+--> native connections by ID  |
//!             +-------------------------------------------------------------------+
//! ```
//!
//! [`SenderId`] is the key of both formats. [`Server::listen`] takes native senders.
//!
//! The first SYN of a classic peer describes its path; later SYNs do not change the path. The
//! handshake of a native connection describes the path and bypasses it: its packets are delivered
//! at once. A native sender that requests no link has no path. The server handles each packet that
//! leaves a link with the packet's due time as the current time, in the order of due times, however
//! late the server is called. Late calls therefore do not change the emulation;
//! [`ServerStats::lateness`] measures them.
#![forbid(unsafe_code)]

mod link_memory;
mod links;
mod outgoing;
mod path;
mod server;
mod stats;
mod transfers;

/// Sender of transfers to a server.
pub use rdt_transport::PeerId as SenderId;
pub use server::Server;
pub use stats::ServerStats;

use std::time::Duration;

use rdt_transport::{ClassicConfig, ReceiverConfig, SocketBuffer};

/// Default of [`ServerConfig::native_idle`]: longer than the 100 s that a sender waits.
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

/// Receivers of a server, its emulated links, and limits on what senders could make grow.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// Configuration of every receiver.
    pub receiver: ReceiverConfig,
    /// Largest number of unfinished senders at once. Classic ones, which do not prove their
    /// addresses, never take the last quarter.
    pub max_peers: usize,
    /// Fixed limit on the unfinished senders of one host, if `ip_of` of the environment given to
    /// [`Server::listen`] tells hosts apart. `None`: a host may have one more while it has fewer
    /// than are free.
    pub max_peers_per_source: Option<usize>,
    /// Bytes that all receivers together may hold, beyond holes or unread by the application. Each
    /// receiver may hold 128 KiB of unread data regardless.
    pub memory_limit: u64,
    /// Memory limit of one receiver, bytes.
    pub peer_memory_limit: u64,
    /// Receive buffer of the socket, which limits the windows of all senders together. `None` for
    /// no limit, as behind emulated links, which delay packets after they left the socket.
    pub socket_buffer: Option<SocketBuffer>,
    /// Idle timeout of classic senders.
    pub idle: Duration,
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

    /// Returns the default limits: 4096 senders, which hosts share; 2 GiB of memory, of which 512
    /// MiB a sender, and the same for links; an idle timeout of 25 s.
    pub fn new(receiver: ReceiverConfig, link: LinkMode) -> Self {
        let (memory_limit, peer_memory_limit) = (2 << 30, 512 << 20);
        Self {
            receiver,
            max_peers: 4096,
            max_peers_per_source: None,
            memory_limit,
            peer_memory_limit,
            socket_buffer: None,
            idle: ClassicConfig::new(receiver).idle,
            link,
            link_memory_limit: memory_limit,
            peer_link_memory_limit: peer_memory_limit,
            native_idle: NATIVE_IDLE,
            classic: true,
        }
    }

    /// Sets all memory limits: half of `bytes` for receivers and half for links. One peer can use
    /// at most a quarter of each half.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        let half = bytes / 2;
        self.memory_limit = half;
        self.peer_memory_limit = half / 4;
        self.link_memory_limit = half;
        self.peer_link_memory_limit = half / 4;
        self
    }
}
