//! The rdt protocol as pure state machines.
//!
//! Machines read no clock, open no socket, start no thread and draw no random number: time comes
//! in as `now`, datagrams come in and go out as bytes. The owner of a machine drives it with
//! [`drive::turn`].
//!
//! ```text
//!  application -- write / finish --> Sender -- poll_transmit --> datagrams -+
//!                                      ^                                    | network or link
//!                                      +-------- handle_datagram <-- ACKs -+ |
//!  application <-- read / consume -- Receiver (one a peer, in a Listener) -+<+
//! ```
//!
//! | noun | file | owns |
//! |---|---|---|
//! | contract | `endpoint.rs`, `drive.rs` | what a machine offers, in which order it is called |
//! | wire | `wire/` | bytes to values and back; sequence numbers leave it unwrapped to `u64` |
//! | sender | `sender/` | send buffer, scoreboard, RTT, timer, window of the peer |
//! | receiver | `receiver/` | reassembly, window to offer, replies |
//! | connection | `connection/` | an encrypted connection: two streams, keys, handshake |
//! | cookie | `cookie.rs` | the proof that a peer receives at its address |
//! | listener | `listener/` | the receivers behind one socket, their admission and clean-up |
//! | qlog | `qlog/` (feature `qlog`) | a trace of a sender's events, for tools such as qvis |
#![forbid(unsafe_code)]

pub mod congestion;
mod connection;
mod connection_set;
mod cookie;
mod crc;
pub mod drive;
mod endpoint;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod listener;
mod observer;
#[cfg(feature = "qlog")]
pub mod qlog;
mod range_set;
mod receive_buffer;
mod receiver;
mod recovery;
mod send_buffer;
mod sender;
mod stateless_limit;
pub mod wire;

pub use rdt_datagram::{Ecn, FileOffset, Frame, FrameSource, MAX_DATAGRAM, Reuse, TransmitBuf};

pub use connection::{
    Closed, Confirm, Connection, ConnectionConfig, ConnectionEvent, ConnectionStats, InitiatorConfig,
    RefuseReason, Trust,
};
pub use connection_set::{
    Admit, Admittee, ConnectionId, ConnectionSet, ConnectionSetConfig, ConnectionSetStats, ResponderConfig,
    Secrets,
};
pub use endpoint::{Endpoint, one_by_one};
pub use error::{ConfigError, PayloadDiscarded, Phase, TransferError};
pub use listener::{
    Admission, Listener, ListenerConfig, ListenerStats, MAX_HALF_OPEN_PEERS, SocketBuffer, SocketLoad,
    SourceCounts, source_number,
};
pub use observer::{Interest, LossTrigger, Metrics, Observer, Resend, Timer, Trace};
pub use receiver::{
    AckConfig, AckPolicy, ReceiverConfig, ReceiverEvent, ReceiverStats, WindowConfig, WindowPolicy,
};
pub use recovery::{LossDetection, Reordering, RtoPolicy};
pub use send_buffer::{FramePool, Spare};
pub use sender::{
    Attempts, Blocked, EcnFailure, EcnState, LossWindow, Sender, SenderConfig, SenderEvent, SenderStats,
    Waited,
};
pub use wire::PacketKind;
pub use wire::native::StreamName;
pub use wire::{LinkProperties, Wire};
