//! Many receivers behind one socket, each behind an emulated path of its own.
//!
//! ```text
//!             +--------------------------- Server -----------------------------+
//!  datagrams  |  path of peer A:  forward link --> +                           |
//! ----------->|  path of peer B:  forward link --> +--> Listener: a receiver   |
//! <-----------|                   reverse links <--+             for each peer |
//!             +----------------------------------------------------------------+
//! ```
//!
//! The first SYN of a peer describes its path; later SYNs do not change it. The server handles each
//! packet that leaves a link at the packet's due time and in the order of due times, however late
//! it is called. Lateness shows in [`ServerStats`] and not in the emulation.
#![forbid(unsafe_code)]

mod config;
mod path;
mod server;

pub use config::{LinkMode, ServerConfig};
pub use server::{Server, ServerStats};
