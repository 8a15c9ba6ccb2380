//! Moves the datagrams of rdt's state machines through real UDP sockets.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | socket | `udp.rs` | a UDP socket with batched reads and writes, what the kernel granted and refused |
//! | reports | `reports.rs` | what the network reports of datagrams that were not delivered |
//! | outbox | `outbox.rs` | the batch that leaves next, and how it is handed over: GSO, `sendmmsg`, single calls |
//! | `sendmmsg` | `send_many.rs` | many datagrams in one call, on Linux |
//! | `recvmmsg` | `receive_many.rs` | many messages in one call, with their codepoints, on Linux |
//! | ring | `ring.rs` | slabs that the kernel sends by reference, and which of them the network may still read |
//! | shelf | `shelf.rs` | memory for batches, which the sockets of a thread use in turn |
//! | memory | `memory.rs` | buffers that a socket asks for when it is bound, and may not get |
//! | gauge | `gauge.rs` | how full the receive buffer of a socket in this process is |
//! | placement | `placement.rs` | on which processor a thread starts |
//! | kernel | `kernel.rs` | the questions to Linux that need `unsafe` |
//! | poller | `poller/` | one question to the system: is there something on the socket, or a wake-up |
//! | waiter | `waiter.rs` | how a thread waits until a datagram, a deadline or a wake-up from elsewhere |
//! | loop | `run.rs` | clock, application, turn, wait: one thread a machine |
//! | source | `source.rs` | where a sender's bytes come from |
//! | clock | `clock.rs` | the only reading of the time in the project's libraries |

pub mod clock;
mod error;
#[cfg(test)]
mod fakes;
mod gauge;
mod kernel;
mod many;
mod memory;
mod outbox;
mod placement;
mod poller;
mod port;
#[cfg(target_os = "linux")]
mod receive_many;
mod reports;
mod ring;
mod run;
mod send_many;
mod shelf;
mod source;
mod udp;
mod vigil;
mod waiter;

pub use error::SocketError;
pub use gauge::Gauge;
pub use many::{Ended, Many, Member};
pub use outbox::{GivenUp, SendCall};
pub use placement::{processor, start_elsewhere};
pub use run::{Application, Flow, Refill, Socket, run, send_rest};
pub use shelf::stock_batches;
pub use source::{DwordArray, Fill, Piped, Source, file_source};
pub use udp::{Connected, Offload, Remote, UdpIo, UdpOptions, UdpStats};
pub use waiter::{Waiter, Waker};
