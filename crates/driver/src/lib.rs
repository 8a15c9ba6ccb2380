//! Runs rdt's protocol state machines (endpoints) over real UDP sockets: one endpoint per thread,
//! or many on one thread.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | loop | `run.rs` | clock, application, turn, wait: one endpoint per thread |
//! | event loop | `event_loop.rs` | the same for many endpoints on one thread |
//! | blocking | `blocking.rs` | whole transfers in one call |
//! | truesize | `truesize.rs` | kernel accounting of a receive buffer, for window limits |
//! | source | `source.rs` | input of a sender: file, pipe or generated data |
//!
//! Sockets are those of [`rdt_udp`], re-exported here.

mod blocking;
mod event_loop;
mod run;
mod source;
pub mod truesize;

pub use blocking::{BlockingError, receive_one, send_file};
pub use event_loop::{Ended, Many, Member};
pub use rdt_udp::{
    BufferOccupancy, BusyPoll, Connected, GivenUp, Offload, Policy, Remote, SendCall, SocketError, UdpIo,
    UdpOptions, UdpStats, Waiter, Waker, clock, current_cpu, prefill_batch_pool, start_on_other_cpu,
    wildcard_for,
};
pub use run::{Application, Flow, Refill, Socket, run, send_memory, send_rest};
pub use source::{DwordArray, Fill, Piped, Sink, Source, file_source, fill};

#[cfg(test)]
mod tests;
