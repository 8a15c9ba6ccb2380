//! Part of rdt (`rdt::transport` in the package `rdt-net`): the protocol as pure state machines.
//!
//! Machines read no clock, open no socket, start no thread and draw no random number: time comes
//! in as `now`, datagrams come in and go out as bytes. The owner of a machine drives it with
//! [`drive::turn`].
//!
//! ```text
//!  application -- write / finish --> Sender -- poll_transmit --> datagrams -+
//!                                      ^                                    | network or link
//!                                      +-------- handle_datagram <-- ACKs -+ |
//!  application <-- read / consume -- Receiver (one per peer) --------------+<+
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `endpoint.rs`, `drive.rs` | contract of a machine: its calls and their order |
//! | `wire/` | packets to values and back; unwraps sequence numbers to `u64` |
//! | `sender/` | one stream: handshake, next packet, path MTU, ECN, zero-window probes, close |
//! | `send_buffer/` | stream bytes that are not acknowledged, and their buffers |
//! | `recovery/` | scoreboard, RTT and RTO, loss detection, spurious retransmissions |
//! | `congestion/` | Reno, CUBIC, BBR; pacer, PRR, delivery rate |
//! | `receiver/` | one stream: ACKs, receive window, close |
//! | `receive_buffer/` | reassembly of stream bytes |
//! | `connection/` | connection (native): handshake, keys, two streams |
//! | `peers/` | all peers of a socket: admission, limits, order of transmission |
//! | `cookie.rs` | stateless cookies, which prove that a peer receives at its address |
//! | `observer.rs`, `qlog/` | events of a sender; their trace for tools such as qvis |
#![forbid(unsafe_code)]

pub mod congestion;
mod connection;
mod cookie;
mod crc;
pub mod drive;
mod endpoint;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod observer;
mod peers;
#[cfg(feature = "qlog")]
pub mod qlog;
mod range_set;
mod receive_buffer;
mod receiver;
mod recovery;
mod send_buffer;
mod sender;
pub mod wire;

pub use rdt_datagram::{Ecn, FileOffset, Frame, FrameSource, MAX_DATAGRAM, Reuse, TransmitBuf};

pub use connection::{
    Closed, Confirm, Connection, ConnectionConfig, ConnectionEvent, ConnectionStats, InitiatorConfig,
    RefuseReason, Trust,
};
pub use cookie::CookieKey;
pub use endpoint::{Endpoint, one_by_one};
pub use error::{ConfigError, PayloadDiscarded, Phase, TransferError};
pub use observer::{Interest, LossTrigger, Metrics, Observer, Resend, Timer, Trace};
pub use peers::{
    AddressKey, Admission, Admit, Admittee, ClassicConfig, ClassicPeers, ClassicStats, ConnectionId,
    ConnectionSet, ConnectionSetConfig, ConnectionSetStats, MAX_HALF_OPEN_PEERS, PeerId, ResponderConfig,
    Secrets, SocketBuffer,
};
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
pub use wire::native::{Service, StreamName};
pub use wire::{LinkProperties, Wire};
