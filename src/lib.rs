//! rdt: a reliable transport protocol over UDP, and a network emulator to test it with.
//!
//! A file in one call, encrypted; [`FileReceiver`] is what `rdt-recv --ticket --output` is, and
//! [`send_file`] what `rdt-send` is:
//!
//! ```
//! # let (source, kept) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! # let path = source.path().join("backup.tar");
//! # std::fs::write(&path, [1; 100_000])?;
//! # let directory = kept.path();
//! let receiver = rdt::FileReceiver::bind("127.0.0.1:0".parse()?)?;
//! let ticket = receiver.ticket()?; // as text, for the sender
//! let sender = std::thread::spawn(move || rdt::send_file(&ticket, path));
//! let received = receiver.receive_into(directory)?;
//! assert_eq!(received.path, directory.join("backup.tar"));
//! assert_eq!(sender.join().unwrap()?.bytes, 100_000); // the receiver has stored it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate re-exports the libraries of the workspace:
//!
//! | module | what it is |
//! |---|---|
//! | [`blocking`] | encrypted connections as byte streams, for threads |
//! | `tokio` (feature `tokio`) | the same for tokio: `AsyncRead` and `AsyncWrite` |
//! | [`endpoint`] | guide to these two, configuration, errors; the event loop of a thread |
//! | [`transport`] | the protocol as pure state machines |
//! | [`emulator`] (feature `emulator`) | a network link as a state machine |
//! | [`server`] (feature `sim`) | many receivers behind one socket, each at the end of its own emulated path |
//! | [`udp`] | batched UDP sockets, for any protocol |
//! | [`datagram`] | batches of datagrams between state machines and sockets |
//! | [`sim`] (feature `sim`) | transfers in virtual time |
//! | [`trust`] | tickets, and files of keys |
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
//! assert_eq!(report.outcome, Outcome::Finished { crc: Some(0xFC19_A074) });
//! let forward = report.server.forward;
//! assert_eq!(forward.dropped_loss, forward.sent - forward.delivered);
//! ```

mod files;

pub use files::{FileReceiver, FileTransferError, Received, Sent, TransferHandle, send_file, send_file_with};
#[cfg(feature = "emulator")]
pub use rdt_emulator as emulator;
#[cfg(feature = "emulator")]
pub use rdt_endpoint::Network;
pub use rdt_endpoint::{Connect, EndpointConfig, Listen, blocking, generate_key};
pub use rdt_trust::Ticket;
pub use {
    rdt_crypto as crypto, rdt_datagram as datagram, rdt_endpoint as endpoint, rdt_transport as transport,
    rdt_trust as trust, rdt_udp as udp,
};
#[cfg(feature = "sim")]
pub use {rdt_server as server, rdt_sim as sim};

/// Encrypted connections as byte streams, and files in one call, for tokio.
#[cfg(feature = "tokio")]
pub mod tokio {
    pub use rdt_endpoint::tokio::*;

    pub use crate::files::asynchronous::{FileReceiver, send_file, send_file_with};
}
