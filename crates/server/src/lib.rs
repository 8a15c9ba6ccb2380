//! Many receivers behind one socket, each at the end of its own emulated path.
//!
//! ```text
//!             +--------------------------- Server -----------------------------+
//!  datagrams  |  path of peer A:  forward link --> +                           |
//! ----------->|  path of peer B:  forward link --> +--> Listener: a receiver   |
//! <-----------|                   reverse links <--+             for each peer |
//!             +----------------------------------------------------------------+
//! ```
//!
//! The first SYN of a peer describes its path; later SYNs do not change the path. A native peer
//! that requests no link has no path. The server handles each packet that leaves a link with the
//! packet's due time as the current time, in the order of due times, however late the server is
//! called. Late calls therefore do not change the emulation; [`ServerStats::lateness`] measures
//! them.
#![forbid(unsafe_code)]

mod config;
mod link_memory;
mod path;
mod server;
mod stats;

pub use config::{LinkMode, ServerConfig};
pub use server::Server;
pub use stats::ServerStats;
