//! How a transfer can fail, and how a configuration can be wrong. Bad bytes from the network are
//! neither: they are counted ([`crate::wire::WireError`]).

use std::fmt;

use crate::wire::native::{CloseReason, Versions};

/// Which call of the application a failure belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Opening: SYN and SYN-ACK.
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

/// Why a transfer ended without success. [`TransferError::status`] is the number that programs
/// print; 0 (OK) is the absence of an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The sender was opened a second time.
    #[error("the transfer is open already")]
    AlreadyConnected,
    /// Data or a close came before the sender was opened.
    #[error("the transfer was never opened")]
    NotConnected,
    /// The target is no address and no name that resolves.
    #[error("no such host: {0}")]
    InvalidName(String),
    /// The socket refused to send; the operating system's error number.
    #[error("sending a datagram failed (OS error {0})")]
    FailedSend(i32),
    /// Every attempt for one packet went unanswered.
    #[error("no answer to packet {packet} after {attempts} attempts")]
    Timeout {
        /// Sequence number of the packet, in packets.
        packet: u64,
        /// How often it was sent, the first time included.
        attempts: u32,
    },
    /// The receiver is gone: for some seconds the network reported nothing else.
    #[error("no program listens at the address of the receiver any more")]
    Gone,
    /// The receiver closed the transfer.
    #[error("the receiver closed the transfer: {0}")]
    Closed(CloseReason),
    /// The receiver speaks none of the sender's versions of the format.
    #[error("the receiver speaks {0} of the protocol")]
    Version(Versions),
    /// The receiver speaks a version that the sender prefers, and yet they met in another: an
    /// answer was forged.
    #[error("the receiver speaks {0} of the protocol, but was made out to speak only less")]
    Downgrade(Versions),
    /// The socket refused to receive; the operating system's error number.
    #[error("receiving a datagram failed (OS error {0})")]
    FailedRecv(i32),
}

impl TransferError {
    /// The status code: 1 to 6 as the course's programs have them, 8 where the receiver answered
    /// and would not go on. 7, a checksum that differs, is for the application to find, unless the
    /// receiver says that it did.
    pub fn status(&self) -> u8 {
        match self {
            Self::AlreadyConnected => 1,
            Self::NotConnected => 2,
            Self::InvalidName(_) => 3,
            Self::FailedSend(_) => 4,
            Self::Timeout { .. } | Self::Gone => 5,
            Self::FailedRecv(_) => 6,
            Self::Closed(CloseReason::Checksum) => 7,
            Self::Closed(_) | Self::Version(_) | Self::Downgrade(_) => 8,
        }
    }
}

/// A configuration that no transfer can be run with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A window of 0 packets.
    #[error("the window must be at least 1 packet")]
    ZeroWindow,
    /// The window's packets would not fit the memory allowed for the send buffer.
    #[error("a window of {window} packets needs {needed} bytes of send buffer, but {limit} are allowed")]
    WindowTooLarge {
        /// Packets.
        window: u32,
        /// Bytes.
        needed: u64,
        /// Bytes.
        limit: u64,
    },
    /// A packet size that leaves no room for what the format must say, or that UDP cannot carry.
    #[error("the packet size must be from {least} to 65507 bytes, not {size}")]
    PacketSize {
        /// Smallest value that the format allows, bytes.
        least: usize,
        /// Bytes.
        size: usize,
    },
    /// A round-trip time, rate, loss or buffer that every receiver drops.
    #[error("{0}")]
    Link(&'static str),
    /// An attempt limit of 0.
    #[error("every packet needs at least 1 attempt")]
    ZeroAttempts,
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "version ";
        for version in (1..16).filter(|version| self.contains(*version)) {
            write!(f, "{before}{version}")?;
            before = " or ";
        }
        Ok(())
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("it takes no further transfer"),
            Self::Version => f.write_str("it speaks another version of the protocol"),
            Self::Protocol => f.write_str("it found the protocol broken"),
            Self::Aborted => f.write_str("its application gave up"),
            Self::Storage => f.write_str("it could not store the data"),
            Self::Checksum => f.write_str("the data arrived with another checksum"),
            Self::Idle => f.write_str("it heard nothing for too long"),
            Self::NoConnection => f.write_str("it has no such connection"),
            Self::Other(code) => write!(f, "for reason {code}"),
        }
    }
}
