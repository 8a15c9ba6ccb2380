//! Exit codes of `rdt-send` and `rdt-recv`, which are part of their interface (`--help` lists
//! them), and the failure of a transfer.

use std::fmt::Display;

use rdt_program::Failure;
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{Phase, TransferError};

pub(crate) const CHECKSUM: u8 = 7;
/// `rdt-send compare`: a metric is worse than the threshold allows.
pub(crate) const WORSE: u8 = 9;
/// `EX_SOFTWARE` of sysexits: an error of the program.
pub(crate) const SOFTWARE: u8 = 70;
/// `EX_DATAERR` of sysexits: a file is not what it should be.
pub(crate) const DATA: u8 = 65;

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

/// Cause of the failure of a transfer: where it failed, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Broken {
    pub(crate) phase: Phase,
    pub(crate) error: TransferError,
}

/// Returns the failure of a transfer, with the exit code of `error`.
pub(crate) fn transfer_failure(phase: Phase, error: TransferError, sentence: impl Display) -> Failure {
    Failure::new(error.status(), sentence).because(Broken { phase, error })
}

/// Returns the reason of the receiver's CLOSE as in the JSON output; `None` for another failure.
pub(crate) fn close_reason(failure: &Failure) -> Option<String> {
    let TransferError::Closed(reason) = &failure.cause::<Broken>()?.error else { return None };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(reason: CloseReason) -> Failure {
        transfer_failure(Phase::Send, TransferError::Closed(reason), "")
    }

    #[test]
    fn close_by_receiver_exits_with_8() {
        for code in 0..=8 {
            let failure = closed(CloseReason::from_code(code));
            assert_eq!(failure.code(), 8, "{code}");
        }
        let reason_of = |reason| close_reason(&closed(reason));
        assert_eq!(reason_of(CloseReason::Storage).as_deref(), Some("storage"));
        assert_eq!(reason_of(CloseReason::NoConnection).as_deref(), Some("no_connection"));
        assert_eq!(reason_of(CloseReason::from_code(99)).as_deref(), Some("99"));
        assert_eq!(close_reason(&Failure::interrupted()), None);
    }
}
