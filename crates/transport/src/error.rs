//! Errors of a transfer and of a configuration. Malformed datagrams are not errors: they are
//! counted ([`crate::wire::WireError`]).

use std::fmt;
use std::time::Duration;

use crate::congestion::Algorithm;
use crate::wire::native::{CloseReason, Versions};

/// Phase of a transfer in which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Handshake: SYN and SYN-ACK.
    Connect,
    /// Data.
    Send,
    /// Closing: FIN and FIN-ACK.
    Close,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Close => "close",
        })
    }
}

/// Reason for the failure of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The sender was opened a second time.
    #[error("the transfer is open already")]
    AlreadyConnected,
    /// The application wrote or closed before it opened the sender.
    #[error("the transfer was never opened")]
    NotConnected,
    /// The target is neither an address nor a name that resolves.
    #[error("no such host: {0}")]
    InvalidName(String),
    /// Sending failed with this error number of the operating system.
    #[error("sending a datagram failed (OS error {0})")]
    FailedSend(i32),
    /// One packet was never acknowledged.
    #[error("no answer to packet {packet} after {attempts} attempts")]
    Timeout {
        /// Sequence number of the packet: in packets (classic) or bytes of the stream (native).
        packet: u64,
        /// Number of transmissions.
        attempts: u32,
    },
    /// For some seconds every answer was an ICMP "port unreachable".
    #[error("no program listens at the address of the receiver any more")]
    Gone,
    /// The receiver answered, but acknowledged no byte for this time.
    #[error("the receiver answers, but acknowledged nothing for {} s", .0.as_secs())]
    NoProgress(Duration),
    /// The receiver acknowledged what it cannot have received.
    #[error("the receiver acknowledged packets that were never sent, or that had not arrived")]
    InvalidAcks,
    /// The receiver closed the transfer.
    #[error("the receiver closed the transfer: {0}")]
    Closed(CloseReason),
    /// The receiver supports none of the sender's versions of the format, only these.
    #[error("the receiver speaks {0} of the protocol")]
    Version(Versions),
    /// The handshake failed, or the receiver broke a rule of the protocol.
    #[error("the receiver broke the protocol")]
    Protocol,
    /// Receiving failed with this error number of the operating system.
    #[error("receiving a datagram failed (OS error {0})")]
    FailedRecv(i32),
}

impl TransferError {
    /// Returns the exit code of programs: 1 to 6 as in the reference programs of the classic
    /// format, 8 if the receiver ended the transfer or broke the protocol. 0 (OK) is no error.
    pub fn status(&self) -> u8 {
        match self {
            Self::AlreadyConnected => 1,
            Self::NotConnected => 2,
            Self::InvalidName(_) => 3,
            Self::FailedSend(_) => 4,
            Self::Timeout { .. } | Self::NoProgress(_) | Self::Gone => 5,
            Self::FailedRecv(_) => 6,
            Self::Closed(_) | Self::InvalidAcks | Self::Protocol | Self::Version(_) => 8,
        }
    }
}

/// The receiver counts bytes and keeps none, so there is nothing to read:
/// [`ReceiverConfig::keep_payload`](crate::ReceiverConfig::keep_payload) is false, as in
/// [`ReceiverConfig::reference`](crate::ReceiverConfig::reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receiver discards what arrives: set ReceiverConfig::keep_payload to read it")]
pub struct PayloadDiscarded;

/// Invalid configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A window of 0 packets.
    #[error("the window must be at least 1 packet")]
    ZeroWindow,
    /// The send buffer for this window would exceed its memory limit.
    #[error("a window of {window} packets needs {needed} bytes of send buffer, but {limit} are allowed")]
    WindowTooLarge {
        /// Requested window, packets.
        window: u32,
        /// Size of the send buffer for it, bytes.
        needed: u64,
        /// Memory limit of the send buffer, bytes.
        limit: u64,
    },
    /// A loss window for a controller that has its own rule after a timeout.
    #[error("the window after a timeout can be chosen for reno and cubic, not for {0}")]
    LossWindow(Algorithm),
    /// A packet size below the format's minimum or above that of UDP.
    #[error("the packet size must be from {least} to 65507 bytes, not {size}")]
    PacketSize {
        /// Smallest value that the format allows, bytes.
        least: usize,
        /// Configured size, bytes.
        size: usize,
    },
    /// A property of the emulated link that no receiver would accept.
    #[error("{0}")]
    Link(&'static str),
    /// The handshake needs a key that is not given.
    #[error("a connection needs the keys of its handshake")]
    Keys,
    /// An idle timeout out of range.
    #[error("the idle timeout must be from 1 s to a day")]
    IdleTimeout,
    /// A limit of the rate of 0.
    #[error("the largest rate must be at least 1 byte per second")]
    ZeroRate,
    /// An attempt limit of 0.
    #[error("every packet needs at least 1 attempt")]
    ZeroAttempts,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("it takes no further transfer"),
            Self::Version => f.write_str("it speaks another version of the protocol"),
            Self::Protocol => f.write_str("it detected a protocol violation"),
            Self::Aborted => f.write_str("its application gave up"),
            Self::Storage => f.write_str("it could not store the data"),
            Self::Idle => f.write_str("no packet reached it for its idle timeout"),
            Self::NoConnection => f.write_str("it has no such connection"),
            Self::Other(code) => write!(f, "for reason {code}"),
        }
    }
}
