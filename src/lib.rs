//! rdt: an encrypted, reliable transport over UDP, and a network emulator to test it with.
//!
//! ```text
//! cargo add rdt-net --features tokio
//! ```
//!
//! The library is `rdt` in code: `use rdt::tokio::Endpoint;`. Without features it needs no runtime
//! and has streams for threads.
//!
//! # Connect and accept
//!
//! A connection is a stream of bytes in each direction, encrypted, with congestion control. It
//! survives a change of the peer's address. The side that accepts has an identity, a static key,
//! and the side that connects knows its public half beforehand:
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use rdt::tokio::{Endpoint, connect};
//! use rdt::{Connect, EndpointConfig, Listen, generate_key};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! let identity = generate_key()?; // to keep it in a file: load_or_create_identity
//! let key = identity.public(); // as text, for those who connect
//! let endpoint = Endpoint::bind("0.0.0.0:0", EndpointConfig::default())?;
//! let listener = endpoint.listen(Listen::new(identity))?;
//! # let port = listener.local_addr().port();
//! tokio::spawn(async move {
//!     while let Ok(stream) = listener.accept().await {
//!         tokio::spawn(async move {
//!             let (mut read, mut write) = stream.into_split();
//!             tokio::io::copy(&mut read, &mut write).await // an echo
//!         });
//!     }
//! });
//!
//! // A host's addresses are tried one after the other, 250 ms apart, until one answers.
//! let mut stream = connect(format!("localhost:{port}"), Connect::to(key)).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?; // ends the outgoing stream; the incoming one goes on
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "hello");
//! stream.delivered().await?; // the peer's application has read everything
//! # Ok(()) }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! [`blocking`] has the same for threads, with [`Read`](std::io::Read) and
//! [`Write`](std::io::Write). A [`Connect`] can be cloned, to connect again after a loss.
//! [`endpoint`] has more: how connections end, back-pressure, callbacks.
//!
//! # Tickets
//!
//! A [`Ticket`] is one line of text with all that a client needs: addresses, public key, a secret.
//! A [`Gate`] issues tickets and admits those who have one:
//!
//! ```
//! use std::io::Read as _;
//! use std::sync::Arc;
//!
//! use rdt::blocking::{Endpoint, connect};
//! use rdt::{Connect, EndpointConfig, Gate, Ticket, TicketUse, generate_key, reachable};
//!
//! let gate = Arc::new(Gate::new(generate_key()?));
//! let endpoint = Endpoint::bind("0.0.0.0:0", EndpointConfig::default())?;
//! let listener = endpoint.listen(gate.listen())?;
//! let addresses = reachable(listener.local_addr(), &[]);
//! # let addresses = [([127, 0, 0, 1], listener.local_addr().port()).into()];
//! let ticket = gate.issue(&addresses, TicketUse::OneClient, 3600)?.to_string(); // a secret
//!
//! let client = std::thread::spawn(move || {
//!     let ticket: Ticket = ticket.parse().expect("copied whole");
//!     let me = generate_key()?; // by which the ticket is this client's from its first use on
//!     let mut stream = connect(ticket.addresses(), Connect::ticket(&ticket).identity(me))?;
//!     stream.read_to_end(&mut Vec::new())
//! });
//! drop(listener.accept()?);
//! client.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who may connect
//!
//! | rule | connecting side | accepting side |
//! |---|---|---|
//! | key known beforehand | [`Connect::to`] | [`Listen::allow`] |
//! | file of keys | [`Dialer`], [`KnownHosts`] | [`Gate::allow`], [`AllowList`] |
//! | ticket | [`Connect::ticket`] | [`Gate::issue`] |
//! | shared secret | [`Connect::secret`] | [`Listen::secret`], [`Gate::secret`] |
//! | own decision | [`Connect::trusting`] | [`Listen::admit`] |
//! | everybody | | [`Listen::new`] |
//! | same protocol name (ALPN) | [`Connect::service`] | [`Listen::service`], [`Gate::service`] |
//!
//! [`Connect::identity`] proves a key to the peer, whose stream returns it from `peer_identity`.
//! Keys on first use, as ssh has them:
//!
//! ```no_run
//! # async fn dial() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use rdt::{Connect, Dialer, KnownHosts, Surroundings};
//! use rdt::{config_folder, load_or_create_identity, os_entropy};
//!
//! let folder = config_folder()?;
//! let (key, _) = load_or_create_identity(&folder.join("identity"), &mut os_entropy()?)?;
//! let (host, hosts) = (("host.example", 7300), KnownHosts::new(folder.join("known_hosts")));
//! let dialer = Dialer::of_host(Arc::new(key), None, hosts, host, &Surroundings::default());
//! let stream = rdt::blocking::connect(host, Connect::from(&dialer))?;
//! # Ok(()) }
//! ```
//!
//! # Send a file
//!
//! [`FileReceiver`] does what `rdt-recv --ticket --output` does, and [`send_file`] what `rdt-send`
//! does, so either end may be the program. `rdt::tokio` has both as futures.
//!
//! ```
//! # let (source, kept) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! # let path = source.path().join("backup.tar");
//! # std::fs::write(&path, [1; 100_000])?;
//! # let directory = kept.path();
//! let receiver = rdt::FileReceiver::bind("127.0.0.1:0")?;
//! let ticket = receiver.ticket()?; // as text, for the sender
//! let sender = std::thread::spawn(move || rdt::send_file(&ticket, path));
//! let received = receiver.receive_into(directory)?;
//! assert_eq!(received.path, directory.join("backup.tar"));
//! assert_eq!(sender.join().unwrap()?.bytes, 100_000); // the receiver has stored it
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Test your program over a lossy link
//!
//! With the feature `emulator`, a [`Network`] connects endpoints of one process by emulated paths,
//! without sockets. With tokio's paused clock such a test takes no real time, and a seed repeats
//! it.
//!
//! ```
//! # #[cfg(not(all(feature = "emulator", feature = "tokio")))]
//! # fn main() {}
//! # #[cfg(all(feature = "emulator", feature = "tokio"))]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut runtime = tokio::runtime::Builder::new_current_thread();
//! # runtime.enable_all().build()?.block_on(async {
//! // In a test: #[tokio::test(start_paused = true)]
//! use rdt::tokio::Endpoint;
//! use rdt::{Connect, Listen, Network, generate_key};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! let network = Network::new("rtt 100ms rate 10mbit loss 5%", 7)?;
//! let (client, server) = (Endpoint::on_network(&network)?, Endpoint::on_network(&network)?);
//! let identity = generate_key()?;
//! let listener = server.listen(Listen::new(identity.clone()))?;
//! let connecting = client.connect(listener.local_addr(), Connect::to(identity.public()));
//! let (near, far) = tokio::join!(connecting, listener.accept());
//! let (mut near, mut far) = (near?, far?);
//! near.write_all(&[1; 100_000]).await?;
//! far.read_exact(&mut [0; 100_000]).await?;
//! assert!(network.ledger().dropped_loss > 0);
//! # Ok(()) }) }
//! ```
//!
//! For any other protocol, [`emulator::Link`] is a link as a state machine: push packets with their
//! arrival times, and pop them when they are due.
//!
//! # Choose a controller, set limits, observe
//!
//! Each side chooses the congestion controller of its own outgoing stream, BBR by default. An
//! [`Observer`] sees each packet and ACK, and `Stream::stats` has counters.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use rdt::congestion::{Algorithm, Start};
//! use rdt::{Connect, ConnectionConfig, EndpointConfig, Observer, Trace, generate_key};
//!
//! struct Losses;
//!
//! impl Observer for Losses {
//!     fn on(&mut self, _now: Instant, event: &Trace) {
//!         if let Trace::PacketLost { .. } = event {
//!             eprintln!("{event:?}");
//!         }
//!     }
//! }
//!
//! let config = ConnectionConfig::default()
//!     .congestion(Algorithm::Cubic)
//!     .idle_timeout(Duration::from_secs(10))
//!     .handshake_timeout(Duration::from_secs(20));
//! let connect = Connect::to(generate_key()?.public()).config(config).observer(|_peer| Losses);
//!
//! // Your own controller implements `rdt::congestion::Controller`.
//! let own = ConnectionConfig::default().controller(|start: Start| Algorithm::Reno.build(start));
//! let limits = EndpointConfig::default().max_connections(1000).memory_limit(256 << 20);
//! # let _ = (connect, own, limits);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Errors
//!
//! Reads and writes fail with an [`std::io::Error`] of the kind that TCP would have. Its source is
//! a [`StreamError`], and [`ConnectError::closed`] tells how a handshake ended:
//!
//! ```
//! use rdt::{Closed, ConnectError, RefuseReason};
//!
//! fn explain(error: &ConnectError) -> &'static str {
//!     match error.closed() {
//!         Some(Closed::Refused(RefuseReason::NotAdmitted)) => "the peer does not admit this key",
//!         Some(Closed::NotTrusted(_)) => "the peer has another key",
//!         Some(Closed::TimedOut(_)) => "no answer",
//!         _ => "something else",
//!     }
//! }
//! ```
//!
//! # HTTP and gRPC
//!
//! A stream implements `AsyncRead` and `AsyncWrite`, so it takes the place of `TcpStream`. hyper
//! wants it in a `TokioIo`. `axum::serve` takes a `rdt::tokio::Listener` as it is (feature `axum`),
//! and so does `serve_with_incoming` of tonic (feature `tonic`). Handlers learn the peer's key from
//! a `rdt::tokio::Peer`. There is an [example] of each.
//!
//! [example]: https://docs.rs/crate/rdt-net/latest/source/examples/
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
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | module `tokio`: endpoints, streams and files as futures |
//! | `axum`, `tonic` | these servers take a `tokio::Listener` |
//! | `emulator` | [`Network`], module [`emulator`] |
//! | `sim` | module [`sim`], with `emulator` |
//!
//! # Modules
//!
//! | module | what it is |
//! |---|---|
//! | [`blocking`] | connections as byte streams, for threads |
//! | `tokio` (feature `tokio`) | the same for tokio |
//! | [`endpoint`] | guide to these two; the event loop of a thread |
//! | [`congestion`] | controllers, and what one of your own implements |
//! | [`emulator`] (feature `emulator`) | a network link as a state machine |
//! | [`sim`] (feature `sim`) | transfers in virtual time |
//!
//! The others are the parts of these, for programs that build on the state machines: [`transport`]
//! (the protocol), [`udp`] (batched sockets), [`datagram`] (batches between the two), [`crypto`]
//! (keys, handshakes, packet protection), [`trust`] (tickets, files of keys) and [`server`] (many
//! receivers behind one socket, each at the end of an emulated path).
#![cfg_attr(docsrs, feature(doc_cfg))]

mod files;

pub use files::{FileReceiver, FileTransferError, Received, Sent, TransferHandle, send_file, send_file_with};
#[doc(inline)]
pub use rdt_crypto::{
    Aead, Entropy, KeyError, Psk, PublicKey, ResumptionCookie, SecretId, SharedSecret, StaticKey,
};
#[cfg(feature = "emulator")]
pub use rdt_emulator as emulator;
#[cfg(feature = "emulator")]
#[doc(inline)]
pub use rdt_endpoint::Network;
#[doc(inline)]
pub use rdt_endpoint::{
    Connect, ConnectError, EndpointConfig, Listen, ListenError, ObserverFactory, Stopped, StreamError,
    blocking, generate_key, os_entropy,
};
#[doc(inline)]
pub use rdt_transport::{
    Admittee, Closed, ConfigError, Confirm, ConnectionConfig, ConnectionStats, InitiatorConfig, Interest,
    LossTrigger, Metrics, Observer, Phase, ReceiverConfig, ReceiverStats, RefuseReason, Resend,
    ResponderConfig, Secrets, SenderConfig, SenderStats, Service, StreamName, Timer, Trace, congestion,
    wire::native::CloseReason,
};
#[doc(inline)]
pub use rdt_trust::{
    AllowList, ChangedKey, Dialer, FileError, Gate, Known, KnownHosts, LineError, Surroundings, Ticket,
    TicketError, TicketUse, TrustError, config_folder, create_secret, load_identity, load_or_create_identity,
    load_secret, reachable,
};
#[doc(inline)]
pub use rdt_udp::{SocketError, UdpOptions, clock};
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
