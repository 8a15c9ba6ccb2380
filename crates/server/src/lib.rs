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
//! The listener has the senders without encryption (classic, native version 1), the set those of
//! native version 2 ([`Server::listen`]). [`SenderId`] is the key of both.
//!
//! The first SYN of a peer describes its path; later SYNs do not change the path. In version 2 the
//! handshake describes the path and bypasses it: its packets are delivered at once. A native sender
//! that requests no link has no path. The server handles each packet that leaves a link with the
//! packet's due time as the current time, in the order of due times, however late the server is
//! called. Late calls therefore do not change the emulation; [`ServerStats::lateness`] measures
//! them.
#![forbid(unsafe_code)]

mod config;
mod encrypted;
mod link_memory;
mod links;
mod outgoing;
mod path;
mod server;
mod stats;

pub use config::{LinkMode, ServerConfig};
pub use server::{SenderId, Server};
pub use stats::ServerStats;
