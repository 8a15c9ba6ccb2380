//! Identity and permission of peers, kept in files as ssh keeps them.
//!
//! The crate knows nothing of the protocol. `rdt-trust` connects it with options of programs.
//!
//! | noun | file | holds |
//! |---|---|---|
//! | identity | `identity.rs` | the private key of this side, made at first use |
//! | known hosts | `known_hosts.rs` | public keys of receivers, trusted at first use |
//! | allow list | `allow.rs` | public keys that a receiver admits |
//! | secret file | `secret.rs` | a secret that both sides share |
//! | ticket | `ticket.rs` | one line with all that a sender needs to reach a receiver once |
//!
//! # Rules for files
//!
//! | file | made with | link | owner | group and others |
//! |---|---|---|---|---|
//! | identity, secret | 0600 | refused | this user | no access |
//! | known hosts | 0600 | refused | this user | may read |
//! | allow list | not made | followed | this user or root | may read |
//!
//! A file with a line that cannot be read is refused as a whole, with the number of the line: a
//! skipped line could be the one that matters. Files are at most 1 MiB long. On systems other than
//! Unix neither modes nor owners nor links are checked, and files are not locked.
//!
//! No function reads a clock: the date and the time are arguments, in seconds since 1970.
//!
//! ```
//! use rdt_identity::{Known, KnownHosts, load_or_create_identity, os_entropy};
//!
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path(); // config_folder()?, in a program
//! # let now_s = 1_795_417_200;
//! let (key, made) = load_or_create_identity(&folder.join("identity"), &mut os_entropy()?)?;
//! println!("own key: {}, {}", key.public(), if made { "made now" } else { "as before" });
//!
//! # let shown = key.public();
//! let hosts = KnownHosts::new(folder.join("known_hosts"));
//! match hosts.check_or_add("host.example", 5000, shown, now_s)? {
//!     Known::Same => {}
//!     Known::New => println!("key of host.example is {} (new)", shown.fingerprint()),
//!     Known::Changed { expected, line } => {
//!         return Err(format!("key changed from {expected:?}, line {line}").into());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod allow;
mod files;
mod identity;
mod known_hosts;
mod secret;
mod ticket;

use std::io;
use std::path::PathBuf;

use rdt_crypto::base32::Base32Error;
use rdt_crypto::{Entropy, KeyError};

pub use allow::AllowList;
pub use files::{cache_folder, config_folder};
pub use identity::{load_identity, load_or_create_identity};
pub use known_hosts::{Known, KnownHosts};
pub use secret::{create_secret, load_secret};
pub use ticket::{Ticket, TicketError};

/// Draws a seed from the operating system.
///
/// # Errors
/// If the operating system has no random numbers, which happens only in broken sandboxes.
pub fn os_entropy() -> io::Result<Entropy> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(Entropy::from_seed(seed))
}

/// Error of a file of this crate. The sentences name the file, what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Action that failed: "open", "read", "make", "write", "lock" or "remove".
        action: &'static str,
        /// File.
        path: PathBuf,
        /// Answer of the operating system.
        source: io::Error,
    },
    /// The path is a symbolic link, which could lead to any file.
    #[error("{} is a symbolic link: name the file itself", path.display())]
    Link {
        /// File.
        path: PathBuf,
    },
    /// The path is a folder, pipe or device.
    #[error("{} is no regular file", path.display())]
    NotRegular {
        /// File.
        path: PathBuf,
    },
    /// Group or others have access that they must not have.
    #[error("{0}: group or others {access} it (mode {mode:03o}): run chmod {right} {0}", path.display())]
    Exposed {
        /// File.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
        /// Access of group or others: "have access to" or "may write".
        access: &'static str,
        /// Mode to set instead: "600" or "go-w".
        right: &'static str,
    },
    /// The file belongs to another user, who can change it.
    #[error("{} belongs to user {owner}, not to you", path.display())]
    Owner {
        /// File.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// The file is longer than 1 MiB.
    #[error("{} is longer than 1 MiB", path.display())]
    TooLong {
        /// File.
        path: PathBuf,
    },
    /// A line cannot be read.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// File.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Fault of the line.
        reason: LineError,
    },
    /// The file exists already and would be overwritten.
    #[error("{} exists: a secret is not overwritten, delete it first", path.display())]
    Exists {
        /// File.
        path: PathBuf,
    },
    /// A host name that cannot stand in a line.
    #[error("{name:?} is no host name: it is empty, longer than 255 bytes, or has blanks")]
    HostName {
        /// The name.
        name: String,
    },
    /// Neither `XDG_CONFIG_HOME` (or `XDG_CACHE_HOME`) nor `HOME` is set.
    #[error("no folder for keys: set HOME, or name the file")]
    NoFolder,
}

impl FileError {
    /// True if the process or the system had no free descriptor or memory: it says nothing about
    /// the file, and passes.
    pub fn is_shortage(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                source.kind() == io::ErrorKind::OutOfMemory || files::is_out_of_descriptors(source)
            }
            _ => false,
        }
    }
}

/// Error of a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line does not have the fields of its file.
    #[error("expected {expected}")]
    Fields {
        /// The fields that belong there.
        expected: &'static str,
    },
    /// The kind of key is none that this version knows.
    #[error("{found:?} where {expected} belongs")]
    Kind {
        /// Word in the line.
        found: String,
        /// Word that belongs there.
        expected: &'static str,
    },
    /// The port is no number from 1 to 65535.
    #[error("{found:?} is no port: 1 to 65535")]
    Port {
        /// Word in the line.
        found: String,
    },
    /// The key or secret is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The text is not UTF-8.
    #[error("the text is not UTF-8")]
    Utf8,
}

impl From<Base32Error> for LineError {
    fn from(error: Base32Error) -> Self {
        Self::Key(error.into())
    }
}
