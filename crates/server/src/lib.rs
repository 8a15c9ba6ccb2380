//! Many receivers behind one socket, each at the end of its own emulated path.
//!
//! ```text
//!             +--------------------------- Server ----------------------------+
//!  datagrams  |  path of peer A:  forward link ──> ┐                          |
//!  ──────────>|  path of peer B:  forward link ──> ├─> Listener: a receiver   |
//!  <──────────|                   reverse links <─ ┘             for each peer|
//!             +----------------------------------------------------------------+
//! ```
//!
//! A peer's first SYN says what its path is like; later SYNs leave it as it is. The server handles what
//! comes out of a link at the exact time at which it is due, in the order of those times, however late it
//! was called: being late shows in [`ServerStats`] and not in the links.
#![forbid(unsafe_code)]

mod config;
mod server;
mod stats;

pub use config::{LinkMode, ServerConfig};
pub use server::Server;
pub use stats::ServerStats;
