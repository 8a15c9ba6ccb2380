//! Protocol between both ends of a tunnel: the first byte of a stream, the codes of CLOSE, and the
//! parameters of connections.

use std::io;

use rdt_endpoint::StreamError;
use rdt_transport::{Closed, ConnectionConfig, RefuseReason};
use rdt_trust::{PathOptions, is_silent};

/// First byte of a client's stream: connect to the target. A stream that ends without a byte only
/// tests whether the client is admitted. Other values are for later versions.
pub(crate) const OPEN: u8 = 1;

/// Returns the parameters of a connection over this path. The programs at both ends of the tunnel
/// decide what is sent together.
pub(crate) fn connection(path: &PathOptions) -> ConnectionConfig {
    ConnectionConfig { nodelay: true, ..path.connection() }
}

/// Application's code in a CLOSE. docs/PROGRAMS.md lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The target refused the connection: no program listens on its port.
    TargetRefused = 1,
    /// The target cannot be reached; the text says why.
    TargetUnreachable = 2,
    /// The TCP connection was reset, or broke.
    Reset = 3,
    /// The program at the other end was stopped.
    Stopped = 4,
    /// The first byte of the stream is of a later version.
    Version = 5,
}

impl Code {
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    fn from_number(number: u32) -> Option<Self> {
        use Code::{Reset, Stopped, TargetRefused, TargetUnreachable, Version};
        [TargetRefused, TargetUnreachable, Reset, Stopped, Version]
            .into_iter()
            .find(|code| code.number() == number)
    }
}

/// Why an rdt connection ended, as far as a tunnel tells the cases apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerEnd {
    /// The target of the tunnel refused the connection or cannot be reached.
    #[error("the target {0}")]
    Target(String),
    /// The TCP connection at the other end was reset.
    #[error("reset at the other end")]
    Reset,
    /// The program at the other end was stopped.
    #[error("rdt-tunnel at the other end was stopped")]
    Stopped,
    #[error("{0}")]
    Refused(RefuseReason),
    /// The path or the peer is gone.
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    Other(String),
}

impl PeerEnd {
    pub(crate) fn of_closed(closed: &Closed) -> Self {
        match closed {
            Closed::Refused(reason) => Self::Refused(*reason),
            Closed::Peer { code, text, .. } => {
                Self::of_code(*code, text).unwrap_or_else(|| Self::Other(closed.to_string()))
            }
            closed if is_silent(closed) => Self::Lost(closed.to_string()),
            _ => Self::Other(closed.to_string()),
        }
    }

    fn of_code(code: u32, text: &str) -> Option<Self> {
        Some(match Code::from_number(code)? {
            Code::TargetRefused => Self::Target("refused the connection: no program listens there".into()),
            Code::TargetUnreachable => Self::Target(format!("cannot be reached: {}", text.escape_debug())),
            Code::Reset => Self::Reset,
            Code::Stopped => Self::Stopped,
            Code::Version => Self::Other("rdt-tunnel at the other end is of an older version".into()),
        })
    }

    pub(crate) fn of_error(error: &io::Error) -> Self {
        let source = error.get_ref().and_then(|source| source.downcast_ref::<StreamError>());
        match source {
            Some(StreamError::Closed(closed)) => Self::of_closed(closed),
            _ => Self::Other(error.to_string()),
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Target(_) => "target",
            Self::Reset => "reset_by_peer",
            Self::Stopped => "stopped_by_peer",
            Self::Refused(_) => "refused",
            Self::Lost(_) => "lost",
            Self::Other(_) => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use rdt_transport::Phase;
    use rdt_transport::wire::native::CloseReason;

    use super::*;

    fn closed(code: u32, text: &str) -> Closed {
        Closed::Peer { reason: CloseReason::Aborted, code, text: text.into() }
    }

    #[test]
    fn codes_keep_their_numbers() {
        let expected = [
            (1, "target"),
            (2, "target"),
            (3, "reset_by_peer"),
            (4, "stopped_by_peer"),
            (5, "other"),
            (0, "other"),
            (6, "other"),
        ];
        for (number, word) in expected {
            assert_eq!(PeerEnd::of_closed(&closed(number, "")).word(), word, "{number}");
        }
    }

    #[test]
    fn refusals_are_told_apart_from_aborts() {
        let refused = PeerEnd::Refused(RefuseReason::NotAdmitted);
        assert_eq!(PeerEnd::of_closed(&Closed::Refused(RefuseReason::NotAdmitted)), refused);
        assert_eq!(PeerEnd::of_closed(&closed(0, "")).word(), "other");
    }

    #[test]
    fn error_of_stream_gives_its_reason() {
        let error = io::Error::from(StreamError::from(closed(2, "no route\x07")));
        assert_eq!(PeerEnd::of_error(&error), PeerEnd::Target("cannot be reached: no route\\u{7}".into()));
        let silent = io::Error::from(StreamError::from(Closed::TimedOut(Phase::Send)));
        assert_eq!(PeerEnd::of_error(&silent).word(), "lost");
        assert_eq!(PeerEnd::of_error(&io::ErrorKind::BrokenPipe.into()).word(), "other");
    }
}
