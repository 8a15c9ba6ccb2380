//! Encrypted rdt connections as byte streams: [`tokio::Stream`] reads and writes as tokio's
//! `TcpStream`, [`blocking::Stream`] as the standard library's.
//!
//! # Guide
//!
//! An endpoint is one UDP socket. It opens connections, accepts them, or both. The side that
//! accepts has an identity, a static key. The side that connects knows that key beforehand, or
//! decides when it is shown ([`Connect::trusting`]). From then on a connection is a stream of bytes
//! in each direction, encrypted, with congestion control, and it survives a change of the peer's
//! address.
//!
//! ```
//! use rdt_endpoint::tokio::Endpoint;
//! use rdt_endpoint::{Connect, EndpointConfig, Listen, generate_key};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = generate_key()?;
//! let server = Endpoint::bind("127.0.0.1:0", EndpointConfig::default())?;
//! let listener = server.listen(Listen::new(identity.clone()))?;
//! tokio::spawn(async move {
//!     while let Ok(stream) = listener.accept().await {
//!         tokio::spawn(async move {
//!             let (mut read, mut write) = stream.into_split();
//!             tokio::io::copy(&mut read, &mut write).await
//!         });
//!     }
//! });
//!
//! let connect = Connect::to(identity.public());
//! // Or a name with a port, such as "host.example:7300": its addresses are raced (RFC 8305).
//! let mut stream = rdt_endpoint::tokio::connect(server.local_addr(), connect).await?;
//! stream.write_all(b"hello").await?;
//! stream.shutdown().await?; // ends the outgoing stream; the incoming one goes on
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "hello");
//! stream.delivered().await?; // the peer's application has read everything
//! # Ok(()) }
//! ```
//!
//! The same with threads:
//!
//! ```
//! use std::io::{Read as _, Write as _};
//! use std::net::Shutdown;
//!
//! use rdt_endpoint::blocking::Endpoint;
//! use rdt_endpoint::{Connect, EndpointConfig, Listen, generate_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = generate_key()?;
//! let server = Endpoint::bind("127.0.0.1:0", EndpointConfig::default())?;
//! let listener = server.listen(Listen::new(identity.clone()))?;
//! std::thread::spawn(move || {
//!     let mut stream = listener.accept()?;
//!     std::io::copy(&mut stream.try_clone(), &mut stream)
//! });
//!
//! let connect = Connect::to(identity.public());
//! let mut stream = rdt_endpoint::blocking::connect(server.local_addr(), connect)?;
//! stream.write_all(b"hello")?;
//! stream.shutdown(Shutdown::Write)?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "hello");
//! # Ok(()) }
//! ```
//!
//! ## Protocol name
//!
//! Both sides may name the application protocol that they speak, as ALPN does in TLS. The name is
//! in the encrypted handshake and costs no round trip. A client that reached another program fails
//! with `RefuseReason::OtherService`, which has the name of that one, and no byte of its stream was
//! sent:
//!
//! ```
//! use rdt_endpoint::{Connect, Listen, generate_key};
//! use rdt_transport::Service;
//!
//! const CHAT: Service = Service::new("chat.example/2").unwrap();
//!
//! let identity = generate_key()?;
//! let listen = Listen::new(identity.clone()).service(CHAT);
//! let connect = Connect::to(identity.public()).service(CHAT);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ## Ends
//!
//! | event | outgoing stream | incoming stream |
//! |---|---|---|
//! | `shutdown` | ends after what was written | can still be read |
//! | drop of the stream | ends after what was written | unread bytes are lost; writes of it fail |
//! | `close` | the rest is lost; the peer gets a code and a text | fails |
//! | drop of the last endpoint and listener | as `close`, for streams that exist | fails |
//! | peer's `shutdown` | goes on | a read returns 0 after the last byte |
//! | peer's `close`, or peer gone | fails | fails after the bytes that have arrived |
//!
//! After a drop, the rest of the outgoing stream is still delivered. If bytes of the peer were left
//! unread, the connection is reset as soon as all written bytes have arrived. It is also closed if
//! the peer does not end the incoming stream within a minute, or acknowledges nothing for five
//! minutes.
//!
//! Written bytes leave without a flush. A program that ends right after its last write waits for
//! `delivered`, or for the endpoint's `wait_idle`, because the rest leaves with the program's
//! runtime or process. With threads, the drop of the last endpoint waits for it for at most 30 s.
//!
//! A packet that is not full waits for the ACK of an earlier one, so that small writes share
//! packets (draft-minshall-nagle-01). Requests and answers that consist of several writes want
//! `set_nodelay(true)`.
//!
//! ## Errors
//!
//! Reads and writes fail with an [`std::io::Error`] of the kind that TCP would have: for example
//! `ConnectionReset` after the peer's `close`, `TimedOut` if it is gone, `BrokenPipe` for a write
//! after `shutdown`. Its source is a [`StreamError`], which has the details.
//!
//! ## Back-pressure
//!
//! A write waits while the send buffer is full, and the peer's send buffer stays full while this
//! side does not read: unread bytes close the receive window. Such a pause may last for ever, as
//! with TCP, unless `ConnectionConfig::sender.no_progress` limits it. Limits of memory are in
//! [`EndpointConfig`] and [`ConnectionConfig`](rdt_transport::ConnectionConfig).
//!
//! ## Callbacks
//!
//! The endpoint is locked while it calls [`Connect::trusting`], `ResponderConfig::admit`,
//! [`Secrets`](rdt_transport::Secrets), an [`Observer`](rdt_transport::Observer) or a factory of
//! controllers. They must return at once: meanwhile all connections of the endpoint stand still.
//! They must not call the endpoint or its streams, because the second lock would wait for ever.
//!
//! An application that asks its user about a new key therefore refuses it, asks, and connects again
//! with the key:
//!
//! ```
//! use std::net::SocketAddr;
//!
//! use rdt_endpoint::tokio::{Endpoint, Stream};
//! use rdt_endpoint::{Connect, ConnectError, StreamError};
//! use rdt_transport::Closed;
//!
//! # async fn ask_user(fingerprint: String) -> bool { !fingerprint.is_empty() }
//! async fn first_connect(endpoint: &Endpoint, peer: SocketAddr) -> Result<Stream, ConnectError> {
//!     match endpoint.connect(peer, Connect::trusting(|_| false)).await {
//!         Err(ConnectError::Stream(StreamError::Closed(Closed::NotTrusted(key))))
//!             if ask_user(key.fingerprint()).await =>
//!         {
//!             endpoint.connect(peer, Connect::to(key)).await // the peer must prove this key
//!         }
//!         refused => refused,
//!     }
//! }
//! ```
//!
//! ## Tests of a program over a bad network
//!
//! A [`Network`] connects endpoints of one process by emulated paths, without sockets. With tokio's
//! paused clock such a test takes no real time, and a seed repeats it:
//!
//! ```
//! use rdt_endpoint::tokio::Endpoint;
//! use rdt_endpoint::{Connect, Listen, Network, generate_key};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut runtime = tokio::runtime::Builder::new_current_thread();
//! # runtime.enable_all().start_paused(true).build()?.block_on(async {
//! // In a test: #[tokio::test(start_paused = true)]
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
//! ## Own congestion control and observers
//!
//! `ConnectionConfig` has the algorithm, or a factory of one's own. [`Connect::observer`] sees each
//! packet and each ACK of the outgoing stream, and so does that of [`Listen::observer`].
//!
//! ```
//! use rdt_endpoint::{Connect, generate_key};
//! use rdt_transport::ConnectionConfig;
//! use rdt_transport::congestion::{Algorithm, Start};
//!
//! let config = ConnectionConfig::default()
//!     .controller(|start: Start| Algorithm::Cubic.build(start)); // or your own
//! let connect = Connect::to(generate_key()?.public()).config(config);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Files
//!
//! | noun | file | owns |
//! |---|---|---|
//! | core | `core/` | connections, I/O and waiting tasks, shared by handles and driver |
//! | race | `race.rs` | connecting to the first of a peer's addresses that answers |
//! | turn | `core/turn.rs` | when packets are read and sent |
//! | I/O | `io.rs`, `address.rs` | a UDP socket or a port of a network; addresses of peers |
//! | clock | `clock.rs` | the type of the clock that core and network read |
//! | network | `network.rs` | emulated paths between endpoints of the process |
//! | tokio | `tokio/` | driver as a task, its timer, streams |
//! | blocking | `blocking/` | driver as a thread, streams |
//! | thread | `thread.rs` | event loop of the calling thread, which owns one state machine |
//! | truesize | `truesize.rs` | kernel accounting of a receive buffer, for window limits |
//! | files | `files/` | names and files of streams that are stored (feature `files`) |
//! | configuration, errors | `config.rs`, `error.rs` | |

mod address;
pub mod blocking;
mod clock;
mod config;
mod core;
mod error;
#[cfg(feature = "files")]
pub mod files;
mod io;
#[cfg(feature = "emulator")]
mod network;
mod race;
pub mod thread;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod truesize;

pub use address::host_id;
pub use config::{Connect, EndpointConfig, Listen, ObserverFactory, generate_key, os_entropy};
pub use error::{ConnectError, ListenError, Stopped, StreamError};
#[cfg(feature = "emulator")]
pub use network::Network;
pub use race::{ADDRESS_GIVE_UP, AttemptEnd, bind_towards};
pub use rdt_crypto::{PublicKey, SharedSecret, StaticKey};
