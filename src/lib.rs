//! rdt: a reliable transport protocol over UDP, and a network emulator to test it with.
//!
//! This crate re-exports the libraries of the workspace:
//!
//! | module | what it is |
//! |---|---|
//! | [`blocking`] | encrypted connections as byte streams, for threads |
//! | `tokio` (feature `tokio`) | the same for tokio: `AsyncRead` and `AsyncWrite` |
//! | [`endpoint`] | guide to these two, their configuration and errors; the event loop of a thread |
//! | [`transport`] | the protocol as pure state machines |
//! | [`emulator`] | a network link as a state machine |
//! | [`server`] | many receivers behind one socket, each at the end of its own emulated path |
//! | [`udp`] | batched UDP sockets, for any protocol |
//! | [`datagram`] | batches of datagrams between state machines and sockets |
//! | [`sim`] | transfers in virtual time |
//! | [`crypto`] | keys, handshakes and packet protection of encrypted connections |
//!
//! A transfer over a lossy link in virtual time:
//!
//! ```
//! use std::time::Duration;
//! use rdt::sim::{Outcome, Scenario};
//!
//! let scenario = Scenario { window: 64, loss_forward: 0.01, buffer: 114, ..Scenario::default() };
//! let report = scenario.run(Duration::from_secs(60));
//! assert_eq!(report.outcome, Outcome::Finished { crc: 0xFC19_A074 });
//! let forward = report.server.forward;
//! assert_eq!(forward.dropped_loss, forward.sent - forward.delivered);
//! ```

#[cfg(feature = "tokio")]
pub use rdt_endpoint::tokio;
pub use rdt_endpoint::{Connect, EndpointConfig, Listen, Network, blocking, generate_key};
pub use {
    rdt_crypto as crypto, rdt_datagram as datagram, rdt_emulator as emulator, rdt_endpoint as endpoint,
    rdt_server as server, rdt_sim as sim, rdt_transport as transport, rdt_udp as udp,
};
