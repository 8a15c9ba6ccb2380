//! Errors of the program and their exit codes.

use std::io;
use std::net::SocketAddr;

use rdt_program::exit::{
    CANNOT_CREATE, INTERRUPTED, IO, NO_SUCH_HOST, OS, PEER_CLOSED, TIMEOUT, UNAVAILABLE, USAGE,
};
use rdt_trust::{FileError, TrustError};

use crate::protocol::PeerEnd;

pub(crate) const CODES: &str = "\
Exit codes:
    0  stdio: both directions have ended; serve, connect: Ctrl-C while no connection was open
    3  no such host                     5  no answer, or the path is gone
    8  the peer or the target of the tunnel refused or closed the connection (with a reason)
   64  wrong arguments, damaged ticket 66  a file of keys is missing, exposed or wrong
   69  no socket can be had            71  a system call failed
   73  the file of a secret cannot be created
   74  the standard input or output failed
   76  the peer's key has changed      77  the peer does not admit this key or ticket
  130  Ctrl-C while connections were open";

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
    #[error("{name}: {why}")]
    NoAnswer { name: String, why: String },
    #[error("{name}: {end}")]
    Ended { name: String, end: PeerEnd },
    #[error("cannot make the secret: {0}")]
    Secret(FileError),
    #[error("standard input or output: {0}")]
    Stdio(io::Error),
    #[error("{step}: {error}")]
    System { step: &'static str, error: io::Error },
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    pub(crate) fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { step, error }
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Trust(error) => error.code(),
            Self::NoSuchHost(_) => NO_SUCH_HOST,
            Self::Bind(..) => UNAVAILABLE,
            Self::NoAnswer { .. } | Self::Ended { end: PeerEnd::Lost(_), .. } => TIMEOUT,
            Self::Ended { .. } => PEER_CLOSED,
            Self::Secret(_) => CANNOT_CREATE,
            Self::Stdio(_) => IO,
            Self::System { .. } => OS,
            Self::Interrupted => INTERRUPTED,
        }
    }
}
