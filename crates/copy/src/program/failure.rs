//! Errors of the program and their exit codes.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rdt_endpoint::StreamError;
use rdt_program::exit::{
    INCOMPLETE, INTERRUPTED, IO, NO_INPUT, NO_SUCH_HOST, NOT_FOUND, OS, PEER_CLOSED, TIMEOUT, UNAVAILABLE,
    USAGE,
};
use rdt_transport::Closed;
use rdt_trust::{Dialer, TrustError};

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
/// The same for a ticket, which ends with the program that printed it.
const RESUME_BY_TICKET: &str =
    "Run the same command again to resume, with a new ticket if the program there was restarted";

/// Why the program ends with an exit code other than 0.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("no such host: {0}")]
    NoSuchHost(String),
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, io::Error),
    #[error("cannot serve {}: {}", .0.display(), .1)]
    Root(PathBuf, io::Error),
    #[error("{name}: {why}")]
    NoAnswer { name: String, why: String },
    /// No answer at the addresses of a host that ssh reaches.
    #[error("{name} answers by ssh, and not over UDP ({why}): {hint}")]
    Blocked { name: String, why: String, hint: &'static str },
    #[error("{name}: {why}. {resume}")]
    Lost { name: String, why: String, resume: &'static str },
    #[error("{name}: {why}")]
    Ended { name: String, why: String },
    #[error("{0}")]
    Request(String),
    #[error("cannot run {command}: {error}")]
    NoSsh { command: String, error: io::Error },
    #[error("{0}")]
    Ssh(String),
    #[error("{host} has no {program}: install it there, or name it by --remote-program PATH")]
    NotInstalled { host: String, program: String },
    #[error("cannot write the standard output: {0}")]
    Output(io::Error),
    #[error("{step}: {error}")]
    System { step: &'static str, error: io::Error },
    /// Single files failed. The summary has named them.
    #[error("some files were not copied")]
    Incomplete,
    #[error("stopped. {RESUME}")]
    Interrupted,
}

impl Failure {
    pub(crate) fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { step, error }
    }

    /// Returns the failure of a copy with the peer `name`. `dialer` has the peer's key and secret;
    /// `None` if the peer has opened the connection.
    pub(crate) fn of_copy(error: CopyError, name: &str, dialer: Option<&Dialer>) -> Self {
        let name = name.to_owned();
        match error {
            CopyError::Stream(error) => Self::of_stream(&error, name, dialer),
            CopyError::Request(why) => Self::Request(why),
            CopyError::System { step, error } => Self::System { step, error },
            CopyError::Refused(why) => Self::Ended { name, why: format!("refused: {}", why.escape_debug()) },
            error => Self::Ended { name, why: error.to_string() },
        }
    }

    fn of_stream(error: &io::Error, name: String, dialer: Option<&Dialer>) -> Self {
        let resume = if dialer.is_some_and(Dialer::has_ticket) { RESUME_BY_TICKET } else { RESUME };
        let source = error.get_ref().and_then(|source| source.downcast_ref::<StreamError>());
        if let Some(StreamError::Closed(closed)) = source {
            // A responder may refuse a key after this side has opened the connection.
            if let Some(refusal) = dialer.and_then(|dialer| dialer.refusal(&name, closed)) {
                return refusal.into();
            }
            if let Closed::Peer { text, .. } = closed
                && !text.is_empty()
            {
                return Self::Ended { name, why: format!("{}. {resume}", text.escape_debug()) };
            }
        }
        Self::Lost { name, why: error.to_string(), resume }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Request(_) => USAGE,
            Self::Trust(error) => error.code(),
            Self::NoSuchHost(_) => NO_SUCH_HOST,
            Self::Bind(..) | Self::NoSsh { .. } | Self::Ssh(_) => UNAVAILABLE,
            Self::Root(..) => NO_INPUT,
            Self::NoAnswer { .. } | Self::Blocked { .. } | Self::Lost { .. } => TIMEOUT,
            Self::Ended { .. } => PEER_CLOSED,
            Self::NotInstalled { .. } => NOT_FOUND,
            Self::Output(_) => IO,
            Self::System { .. } => OS,
            Self::Incomplete => INCOMPLETE,
            Self::Interrupted => INTERRUPTED,
        }
    }
}

#[cfg(test)]
mod tests {
    use rdt_transport::wire::native::CloseReason;

    use super::*;

    fn of_closed(closed: Closed) -> (u8, String) {
        let error = CopyError::Stream(StreamError::from(closed).into());
        let failure = Failure::of_copy(error, "host", None);
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
