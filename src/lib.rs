//! rdt: an encrypted, reliable transport over UDP, and a network emulator to test it with.
//!
//! # Connect, accept, stream
//!
//! A connection is a stream of bytes in each direction, encrypted. The listener has a key, and the
//! side that connects knows it beforehand. This is the interface for threads; `rdt::tokio` has the
//! same as futures, with `AsyncRead` and `AsyncWrite` (feature `tokio`).
//!
//! ```
//! use std::io::{Read as _, Write as _};
//! use std::net::Shutdown;
//!
//! use rdt::blocking::{Endpoint, connect};
//! use rdt::{Connect, EndpointConfig, Listen, generate_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = generate_key()?;
//! let server = Endpoint::bind("127.0.0.1:0".parse()?, EndpointConfig::new()?)?;
//! let listener = server.listen(Listen::new(identity.clone()))?;
//! std::thread::spawn(move || {
//!     let mut stream = listener.accept()?;
//!     std::io::copy(&mut stream.try_clone(), &mut stream) // an echo
//! });
//!
//! let mut stream = connect(server.local_addr(), Connect::to(identity.public()))?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(Shutdown::Write)?; // ends the outgoing stream; the incoming one goes on
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "hello");
//! # Ok(()) }
//! ```
//!
//! [`endpoint`] has the guide: how connections end, errors, back-pressure, keys on first use.
//!
//! # Send a file
//!
//! [`FileReceiver`] does what `rdt-recv --ticket --output` does, and [`send_file`] what `rdt-send`
//! does, so either end may be the program:
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
//! # Emulate
//!
//! With the feature `emulator`, a [`Network`] connects endpoints of one process by emulated paths,
//! without sockets, so a test of your program meets delay, loss and a narrow link:
//!
//! ```
//! use std::io::{Read as _, Write as _};
//!
//! use rdt::blocking::Endpoint;
//! use rdt::{Connect, Listen, Network, generate_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let network = Network::new("rtt 20ms rate 10mbit loss 5%", 7)?;
//! let (client, server) = (Endpoint::on_network(&network)?, Endpoint::on_network(&network)?);
//! let identity = generate_key()?;
//! let listener = server.listen(Listen::new(identity.clone()))?;
//! let mut near = client.connect(listener.local_addr(), Connect::to(identity.public()))?;
//! near.write_all(&[1; 100_000])?;
//! listener.accept()?.read_exact(&mut [0; 100_000])?;
//! assert!(network.ledger().dropped_loss > 0);
//! # Ok(()) }
//! ```
//!
//! For any other protocol, [`emulator::Link`] is a link as a state machine: push packets with their
//! arrival times, and pop them when they are due.
//!
//! # Simulate
//!
//! The protocol does no I/O and reads no clock, so whole transfers run in virtual time, and equal
//! seeds give equal results (feature `sim`):
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
//!
//! # Modules
//!
//! | module | what it is |
//! |---|---|
//! | [`blocking`] | connections as byte streams, for threads |
//! | `tokio` (feature `tokio`) | the same for tokio |
//! | [`endpoint`] | guide to these two, configuration, errors; the event loop of a thread |
//! | [`emulator`] (feature `emulator`) | a network link as a state machine |
//! | [`sim`] (feature `sim`) | transfers in virtual time |
//! | [`trust`] | tickets, and files of keys |
//! | [`transport`] | the protocol as pure state machines; a congestion controller of your own |
//! | [`udp`] | batched UDP sockets, for any protocol |
//!
//! Three more are parts of these, for programs that build on the state machines: [`server`] (many
//! receivers behind one socket, each at the end of its own emulated path), [`datagram`] (batches of
//! datagrams between state machines and sockets) and [`crypto`] (keys, handshakes and packet
//! protection).

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
