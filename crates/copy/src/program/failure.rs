//! Errors of the program and their exit codes.

use std::fmt::Display;
use std::io;

use rdt_endpoint::StreamError;
use rdt_program::Failure;
use rdt_program::exit::{INTERRUPTED, PEER_CLOSED, TIMEOUT};
use rdt_transport::Closed;
use rdt_trust::Dialer;

use crate::CopyError;

pub(crate) const CODES: &str = "\
Exit codes:
    0  everything was copied; --serve: Ctrl-C while no client was connected
    3  no such host                     5  no answer, or the path is gone
    8  the other side refused or ended the copy (with a reason)
   23  some files were not copied: the summary names them
   64  wrong arguments, damaged ticket
   66  a file of keys is missing, exposed or wrong; DIR of --serve cannot be read
   69  no socket can be had; ssh cannot be run, or failed
   71  a system call failed            74  the standard output failed
   76  the peer's key has changed      77  the peer does not admit this key or ticket
  127  rdt-copy is not installed on the other host
  130  Ctrl-C: the same command again goes on";

/// What a user can do after a copy that ended early.
pub(crate) const RESUME: &str = "Run the same command again to resume";
/// Same as [`RESUME`] for a copy by a ticket, which ends with the program that printed it.
const RESUME_BY_TICKET: &str =
    "Run the same command again to resume, with a new ticket if the program there was restarted";

/// Cause of a failure: no answer at any address of the peer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoAnswer(pub(crate) String);

pub(crate) fn interrupted() -> Failure {
    Failure::new(INTERRUPTED, format_args!("stopped. {RESUME}"))
}

pub(crate) fn no_answer(name: &str, why: String) -> Failure {
    Failure::new(TIMEOUT, format_args!("{name}: {why}")).because(NoAnswer(why))
}

/// No answer at the addresses of a host that ssh reaches.
pub(crate) fn blocked(name: &str, why: &str, hint: &str) -> Failure {
    Failure::new(TIMEOUT, format_args!("{name} answers by ssh, and not over UDP ({why}): {hint}"))
}

/// The peer refused or ended the copy.
pub(crate) fn ended(name: &str, why: impl Display) -> Failure {
    Failure::new(PEER_CLOSED, format_args!("{name}: {why}"))
}

/// Returns the failure of a copy with the peer `name`. `dialer` has the peer's key and secret;
/// `None` if the peer has opened the connection.
pub(crate) fn of_copy(error: CopyError, name: &str, dialer: Option<&Dialer>) -> Failure {
    match error {
        CopyError::Stream(error) => of_stream(&error, name, dialer),
        CopyError::Request(why) => Failure::usage(why),
        CopyError::System { step, error } => Failure::system(step)(error),
        CopyError::Refused(why) => ended(name, format_args!("refused: {}", why.escape_debug())),
        error => ended(name, error),
    }
}

fn of_stream(error: &io::Error, name: &str, dialer: Option<&Dialer>) -> Failure {
    let resume = if dialer.is_some_and(Dialer::has_ticket) { RESUME_BY_TICKET } else { RESUME };
    let source = error.get_ref().and_then(|source| source.downcast_ref::<StreamError>());
    if let Some(StreamError::Closed(closed)) = source {
        // A responder may refuse a key after this side has opened the connection.
        if let Some(refusal) = dialer.and_then(|dialer| dialer.refusal(name, closed)) {
            return refusal.into();
        }
        if let Closed::Peer { text, .. } = closed
            && !text.is_empty()
        {
            return ended(name, format_args!("{}. {resume}", text.escape_debug()));
        }
    }
    Failure::new(TIMEOUT, format_args!("{name}: {error}. {resume}"))
}

#[cfg(test)]
mod tests {
    use rdt_transport::wire::native::CloseReason;

    use super::*;

    fn of_closed(closed: Closed) -> (u8, String) {
        let error = CopyError::Stream(StreamError::from(closed).into());
        let failure = of_copy(error, "host", None);
        (failure.code(), failure.to_string())
    }

    #[test]
    fn lost_peer_has_sentence_about_resume() {
        let (code, text) = of_closed(Closed::Idle);
        assert_eq!(code, TIMEOUT);
        assert!(text.starts_with("host: ") && text.ends_with(RESUME), "{text}");
    }

    #[test]
    fn reason_of_peer_is_shown_escaped() {
        let (reason, text) = (CloseReason::Aborted, "stopped\x1b".into());
        let (code, text) = of_closed(Closed::Peer { reason, code: 1, text });
        assert_eq!((code, text), (PEER_CLOSED, format!("host: stopped\\u{{1b}}. {RESUME}")));
    }
}
