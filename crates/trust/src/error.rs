//! Errors, their sentences and exit codes.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rdt_crypto::PublicKey;
#[cfg(feature = "options")]
use rdt_program::exit::{CHANGED_KEY, NO_INPUT, NO_PERMISSION, PEER_CLOSED, UNAVAILABLE, USAGE};

use crate::services::Speaker;
use crate::{FileError, TicketError};

/// Reason for which a program cannot begin, or must not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file of keys is missing, exposed or wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// The operating system has no random numbers.
    #[error("no random numbers: {0}")]
    Entropy(io::Error),
    /// The argument is neither a host nor a ticket.
    #[error("{0}")]
    Remote(String),
    /// The argument is a damaged ticket, or addresses make no ticket.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// A file that should contain a ticket cannot be read.
    #[error("cannot read the ticket in {}: {source}", path.display())]
    TicketFile {
        /// File.
        path: PathBuf,
        /// Answer of the operating system.
        source: io::Error,
    },
    /// The peer, with this name, does not know the secret of a ticket that has expired.
    #[error("{0} does not know the ticket, which has expired: ask for a new one")]
    Expired(String),
    /// The ticket is for another service.
    #[error("the ticket was printed by {0}")]
    OtherTicket(Speaker),
    /// The peer, with this name, speaks another service.
    #[error("{0} is {1}")]
    OtherService(String, Speaker),
    /// The peer showed another key than before.
    #[error(transparent)]
    ChangedKey(#[from] Box<ChangedKey>),
    /// The peer, with this name, answered that it has another key than expected, and proved none.
    #[error(
        "{0} answered that it has another key than the known one, and proved no key: another host may have sent the answer. Try again"
    )]
    UnprovenKey(String),
    /// The peer does not admit the local key.
    #[error("{name} does not admit this key: its owner can add this line to the file of --allow\n{key}")]
    KeyRefused {
        /// Name of the peer.
        name: String,
        /// Local key.
        key: PublicKey,
    },
    /// The peer, with this name, does not know the secret of the ticket.
    #[error(
        "{0} does not know the ticket: it was used by another client, or the program there was restarted. Ask for a new one"
    )]
    TicketRefused(String),
    /// The peer, with this name, wants a shared secret, or another one.
    #[error("{0} does not know the secret, or wants one: --secret-file")]
    SecretRefused(String),
    /// Peers of other hosts could connect, and no option says which of them may.
    #[error(
        "{address} can be reached from other hosts: say who may connect by {options}, or allow every peer by --open"
    )]
    Unprotected {
        /// Address to listen on.
        address: SocketAddr,
        /// Options that this program has, as a list for a sentence.
        options: &'static str,
    },
}

#[cfg(feature = "options")]
impl TrustError {
    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::File(_) | Self::TicketFile { .. } => NO_INPUT,
            Self::Entropy(_) => UNAVAILABLE,
            Self::Remote(_) | Self::Ticket(_) | Self::OtherTicket(_) | Self::Unprotected { .. } => USAGE,
            Self::Expired(_) | Self::KeyRefused { .. } | Self::TicketRefused(_) | Self::SecretRefused(_) => {
                NO_PERMISSION
            }
            Self::ChangedKey(_) => CHANGED_KEY,
            Self::UnprovenKey(_) | Self::OtherService(..) => PEER_CLOSED,
        }
    }
}

#[cfg(feature = "options")]
impl From<TrustError> for rdt_program::Failure {
    fn from(error: TrustError) -> Self {
        Self::new(error.code(), &error).because(error)
    }
}

/// Key of a peer that differs from the one in the file of known hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedKey {
    /// Name of the peer as the user typed it.
    pub host: String,
    /// Port of the peer.
    pub port: u16,
    /// Key in the file.
    pub expected: PublicKey,
    /// Key that the peer proved.
    pub received: PublicKey,
    /// File of known hosts.
    pub path: PathBuf,
    /// Line of the key in the file, counted from 1.
    pub line: usize,
}

impl std::error::Error for ChangedKey {}

impl fmt::Display for ChangedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, expected, received, path, line } = self;
        let path = path.display();
        write!(
            f,
            "THE KEY OF {host} PORT {port} HAS CHANGED
  It was      {expected}  ({path}, line {line})
  It is now   {received}
Either the peer was set up again, or another host answers in its place and would read all data.
No data was sent. Ask the peer's owner for the key: the peer prints it when it starts.
If the change is right, delete line {line} of {path} and try again.",
            expected = expected.fingerprint(),
            received = received.fingerprint(),
        )
    }
}
