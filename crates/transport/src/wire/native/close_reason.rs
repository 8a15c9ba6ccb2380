//! Reasons of a CLOSE.

/// Reason of a CLOSE, or of the end of a connection by a RESET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// 1: the receiver accepts no (further) transfer.
    Refused,
    /// 2: no common version.
    Version,
    /// 3: the other side broke the protocol.
    Protocol,
    /// 4: the application aborted the transfer.
    Aborted,
    /// 5: the receiver could not store the data.
    Storage,
    /// 7: idle timeout.
    Idle,
    /// 8: the receiver does not know the connection. Never in a CLOSE: a RESET says so.
    NoConnection,
    /// Any other code.
    Other(u16),
}

impl CloseReason {
    const NAMED: [Self; 7] = [
        Self::Refused,
        Self::Version,
        Self::Protocol,
        Self::Aborted,
        Self::Storage,
        Self::Idle,
        Self::NoConnection,
    ];

    /// Returns the code.
    pub fn code(self) -> u16 {
        match self {
            Self::Refused => 1,
            Self::Version => 2,
            Self::Protocol => 3,
            Self::Aborted => 4,
            Self::Storage => 5,
            Self::Idle => 7,
            Self::NoConnection => 8,
            Self::Other(code) => code,
        }
    }

    /// Returns the reason with this code.
    pub fn from_code(code: u16) -> Self {
        Self::NAMED.into_iter().find(|reason| reason.code() == code).unwrap_or(Self::Other(code))
    }
}
