//! Outcome of a program: an error message for the user, and an exit code for the shell. The exit
//! codes are part of the programs' interface (`--help` lists them).

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rdt_program::exit::{INTERRUPTED, IO, NO_INPUT, UNAVAILABLE, USAGE};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{ConfigError, Phase, TransferError};
use rdt_trust::TrustError;
use rdt_udp::SocketError;

pub(crate) const CHECKSUM: u8 = 7;
/// `rdt-send compare`: a metric is worse than the threshold allows.
const WORSE: u8 = 9;
/// `EX_SOFTWARE` of sysexits: an error of the program.
const SOFTWARE: u8 = 70;
/// `EX_DATAERR` of sysexits: a file is not what it should be.
const DATA: u8 = 65;

pub(crate) const SEND_CODES: &str = "\
Exit codes:
    0  everything arrived, and the checksums agree or the receiver did not check (a line says so)
    1  status 1, ALREADY_CONNECTED      2  status 2, NOT_CONNECTED
    3  status 3, INVALID_NAME: no such host
    4  status 4, FAILED_SEND: the system refuses to send
    5  status 5, TIMEOUT: no answer after the last attempt, or no progress (--no-progress)
    6  status 6, FAILED_RECV: the system refuses to receive
    7  the receiver's checksum differs from the sender's
    8  the receiver closed or refused the transfer (with a reason), or broke the protocol
   64  wrong arguments                 66  the input or a file of keys cannot be read, or changed
   69  no socket can be had            74  the output cannot be written
   76  the receiver's key has changed  77  the receiver does not admit this key, ticket or secret
  130  interrupted";

pub(crate) const RECV_CODES: &str = "\
Exit codes:
    0  ended by --once, or by Ctrl-C while no transfer was under way, and all were stored
    6  the system refuses to receive
   64  wrong arguments, or no option says which other hosts may store files (--ticket, --open)
   66  a file of keys that an option needs is missing, exposed or wrong
   69  no socket, thread or memory     74  the output cannot be written
  130  Ctrl-C while a transfer was under way";

/// Why a program ends with an exit code other than 0.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each one is")]
pub enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{sentence}")]
    Transfer { phase: Phase, error: TransferError, sentence: String },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("the receiver's checksum {theirs:X} is not the sender's {ours:X}: what arrived is wrong")]
    Checksum { ours: u32, theirs: u32 },
    #[error("cannot read {name}: {error}")]
    Input { name: String, error: io::Error },
    #[error("cannot write {name}: {error}")]
    Output { name: String, error: io::Error },
    #[error("{0}")]
    Socket(#[from] SocketError),
    #[error("cannot have all threads that were asked for: {0}; fewer --threads may do")]
    Threads(io::Error),
    #[error("cannot serve metrics at {0}: {1}")]
    Metrics(SocketAddr, io::Error),
    #[error("the transfer broke off: what was written to the output is not whole")]
    CutShort,
    #[error("{0} of the transfers could not be stored")]
    NotStored(u64),
    #[error("{0} of the transfers are kept in files whose names may not outlive a loss of power")]
    NotSynced(u64),
    #[error("{0}")]
    Data(String),
    #[error("{0}")]
    Worse(String),
    #[error("a thread of the program ended by itself")]
    Panicked,
    /// Failure of one of several transfers, which was reported with its number.
    #[error("{0}")]
    OfParallel(Box<Self>),
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    pub(crate) fn stdout(error: io::Error) -> Self {
        Self::Output { name: "the standard output".into(), error }
    }

    pub(crate) fn output(path: &std::path::Path, error: io::Error) -> Self {
        Self::Output { name: PathBuf::from(path).display().to_string(), error }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) => USAGE,
            Self::Transfer { error, .. } => error.status(),
            Self::Trust(error) => error.code(),
            Self::Checksum { .. } => CHECKSUM,
            Self::Input { .. } => NO_INPUT,
            Self::Output { .. } | Self::CutShort | Self::NotStored(_) | Self::NotSynced(_) => IO,
            Self::Socket(SocketError::Send(_)) => 4,
            Self::Socket(SocketError::Receive(_)) => 6,
            Self::Socket(_) | Self::Threads(_) | Self::Metrics(..) => UNAVAILABLE,
            Self::Data(_) => DATA,
            Self::Worse(_) => WORSE,
            Self::Panicked => SOFTWARE,
            Self::OfParallel(failure) => failure.code(),
            Self::Interrupted => INTERRUPTED,
        }
    }

    /// Returns the reason of the receiver's CLOSE as in the JSON output; `None` for another
    /// failure.
    pub(crate) fn close_reason(&self) -> Option<String> {
        let Self::Transfer { error: TransferError::Closed(reason), .. } = self else { return None };
        Some(match reason {
            CloseReason::Refused => "refused".into(),
            CloseReason::Version => "version".into(),
            CloseReason::Protocol => "protocol".into(),
            CloseReason::Aborted => "aborted".into(),
            CloseReason::Storage => "storage".into(),
            CloseReason::Idle => "idle".into(),
            CloseReason::NoConnection => "no_connection".into(),
            other => other.code().to_string(),
        })
    }

    /// Returns the error message; `None` after Ctrl-C, which was already reported.
    pub fn sentence(&self) -> Option<String> {
        (!matches!(self, Self::Interrupted | Self::OfParallel(_))).then(|| self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(reason: CloseReason) -> Failure {
        Failure::Transfer {
            phase: Phase::Send,
            error: TransferError::Closed(reason),
            sentence: String::new(),
        }
    }

    #[test]
    fn close_by_receiver_exits_with_8() {
        for code in 0..=8 {
            let failure = closed(CloseReason::from_code(code));
            assert_eq!(failure.code(), 8, "{code}");
        }
        assert_eq!(closed(CloseReason::Storage).close_reason().as_deref(), Some("storage"));
        assert_eq!(closed(CloseReason::NoConnection).close_reason().as_deref(), Some("no_connection"));
        assert_eq!(closed(CloseReason::from_code(99)).close_reason().as_deref(), Some("99"));
        assert_eq!(Failure::Interrupted.close_reason(), None);
    }
}
