//! Events of a connection, and the reasons why one ends.

use std::fmt;
use std::time::Duration;

use rdt_crypto::{PublicKey, ResumptionCookie};

use crate::Phase;
use crate::wire::WireError;
use crate::wire::native::{CloseReason, Service, Versions};

/// Event of a connection for the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// The handshake is complete, and the peer has proved its keys and the shared secret, if there
    /// is one. A connection within an association reports it at once: that the peer is there shows
    /// only by its answers, which it alone can read and write.
    Connected {
        /// Static key of the peer; `None` for an initiator without one.
        peer: Option<PublicKey>,
        /// Cookie for a later connection to this responder.
        resumption: Option<ResumptionCookie>,
    },
    /// Bytes can be read. Not repeated before the application has read some.
    Readable,
    /// There is room again after [`Connection::write`](super::Connection::write) took less than it
    /// was given.
    Writable,
    /// The whole stream of the peer has arrived; some of it may be unread.
    Finished {
        /// Length of the stream, bytes.
        bytes: u64,
        /// Time from the first to the last data packet.
        elapsed: Duration,
    },
    /// The peer's application has confirmed the whole outgoing stream.
    Delivered {
        /// Length of the stream, bytes.
        bytes: u64,
    },
    /// The connection is over. No event follows.
    Closed(Closed),
}

/// Reason of the end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// Both streams were delivered and confirmed.
    #[error("the connection is complete")]
    Finished,
    /// Error of a write alone: only the initiator of a one-way connection has a stream.
    #[error("the connection is one-way: only the side that opened it sends")]
    OneWay,
    /// The application of this side closed it.
    #[error("this side closed the connection")]
    Local,
    /// The peer closed it.
    #[error("the peer closed the connection: {reason}{}", Detail(*code, text))]
    Peer {
        /// Reason of the protocol.
        reason: CloseReason,
        /// Code of the peer's application.
        code: u32,
        /// Text of the peer's application. Untrusted: escape control characters before printing.
        text: String,
    },
    /// No answer for the give-up time, in this phase.
    #[error("no answer from the peer ({0})")]
    TimedOut(Phase),
    /// The peer answered, but acknowledged no byte for this time
    /// ([`SenderConfig::no_progress`](crate::SenderConfig::no_progress)).
    #[error("the peer answers, but acknowledged nothing for {} s", .0.as_secs())]
    NoProgress(Duration),
    /// The peer acknowledged what it cannot have received.
    #[error("the peer acknowledged packets that were never sent, or that had not arrived")]
    InvalidAcks,
    /// A key reached a limit of its AEAD (RFC 9001, section 6.6): the peer did not follow a key
    /// update for 2^28 packets, or 2^36 packets with this connection's ID were forged.
    #[error("a limit of the encryption is reached: too many packets under one key, or too many forged ones")]
    AeadLimit,
    /// No authentic packet arrived for the idle timeout.
    #[error("idle timeout: no packet arrived from the peer")]
    Idle,
    /// Every answer for some seconds was an ICMP "port unreachable", or those to two SYNs were.
    #[error("no program listens at the peer's address")]
    Unreachable,
    /// The peer does not know the connection: it was restarted, or gave up.
    #[error("the peer does not know the connection any more")]
    Reset,
    /// The responder refused the connection.
    #[error("the connection was refused: {0}")]
    Refused(RefuseReason),
    /// The responder speaks these versions of the format only. This program speaks none of them.
    #[error("the peer speaks {0} of the protocol, and this program does not: update the older of them")]
    Version(Versions),
    /// The responder's key is not trusted.
    #[error("the key of the peer is not trusted")]
    NotTrusted(PublicKey),
    /// The handshake cannot succeed: a key is missing, or the peer's authentic answer is invalid.
    #[error("the handshake failed")]
    Handshake,
    /// The peer broke a rule of the protocol.
    #[error("the peer broke the protocol: {0}")]
    ProtocolBroken(WireError),
}

impl Closed {
    /// True if the peer is gone, or the path to it, for all that this side knows.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Idle | Self::Unreachable | Self::Reset)
    }
}

/// Code and text of a CLOSE, as far as there are any.
struct Detail<'a>(u32, &'a str);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 != 0 {
            write!(f, ", code {}", self.0)?;
        }
        if !self.1.is_empty() {
            write!(f, " ({})", self.1.escape_debug())?;
        }
        Ok(())
    }
}

/// Reason of a responder that refuses a connection. The number is that of REFUSE and of message 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefuseReason {
    /// 9: the limit of connections is reached.
    Busy,
    /// 10: the responder does not admit the initiator's key, or an initiator without a key.
    NotAdmitted,
    /// 11: the responder does not know the shared secret, or wants one.
    Secret,
    /// 12: the responder has another static key, or a host on the path changed the SYN.
    WrongKey,
    /// 13: the initiator offers no encryption, and the responder is not `dangerously_unencrypted`.
    Unencrypted,
    /// 16: the responder speaks this service. The name is empty if only its number arrived.
    OtherService(Service),
    /// Any other number.
    Other(u16),
}

impl RefuseReason {
    const NAMED: [Self; 6] = [
        Self::Busy,
        Self::NotAdmitted,
        Self::Secret,
        Self::WrongKey,
        Self::Unencrypted,
        Self::OtherService(Service::NONE),
    ];

    /// Returns the number in a packet.
    pub fn code(self) -> u16 {
        match self {
            Self::Busy => 9,
            Self::NotAdmitted => 10,
            Self::Secret => 11,
            Self::WrongKey => 12,
            Self::Unencrypted => 13,
            Self::OtherService(_) => 16,
            Self::Other(code) => code,
        }
    }

    /// True if this side believes the reason only with a proof of the responder's key: it comes in
    /// message 2 or a CLOSE, never in a REFUSE.
    pub fn is_proved(self) -> bool {
        matches!(self, Self::NotAdmitted | Self::Unencrypted | Self::OtherService(_))
    }

    pub(crate) fn from_code(code: u16) -> Self {
        Self::named(code).unwrap_or(Self::Other(code))
    }

    pub(crate) fn named(code: u16) -> Option<Self> {
        Self::NAMED.into_iter().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for RefuseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the peer has too many connections"),
            Self::NotAdmitted => f.write_str("the peer does not admit this key"),
            Self::Secret => f.write_str("the peer wants another shared secret"),
            Self::WrongKey => f.write_str("the peer has another key than expected"),
            Self::Unencrypted => f.write_str("the peer does not allow connections without encryption"),
            Self::OtherService(service) => write!(f, "the peer speaks {service}"),
            Self::Other(code) => write!(f, "reason {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_keep_their_numbers() {
        for code in 0..20 {
            assert_eq!(RefuseReason::from_code(code).code(), code);
        }
        assert_eq!(RefuseReason::from_code(10), RefuseReason::NotAdmitted);
    }

    #[test]
    fn text_of_peer_is_escaped() {
        let close = |code, text: &str| Closed::Peer { reason: CloseReason::Aborted, code, text: text.into() };
        let said = "the peer closed the connection: its application gave up";
        assert_eq!(close(0, "").to_string(), said);
        assert_eq!(close(7, "a\x1b[0m").to_string(), format!("{said}, code 7 (a\\u{{1b}}[0m)"));
    }
}
