//! Errors of the files, whose sentences name the file, what is wrong, and what to do.

use std::io;
use std::path::PathBuf;

use rdt_crypto::KeyError;
use rdt_crypto::base32::Base32Error;

use crate::files;

/// Error of a file of this crate.
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
    #[error("{} is a symbolic link: name the file itself", .0.display())]
    Link(PathBuf),
    /// The path is a folder, pipe or device.
    #[error("{} is no regular file", .0.display())]
    NotRegular(PathBuf),
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
    #[error("{} is longer than 1 MiB", .0.display())]
    TooLong(PathBuf),
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
    #[error("{} exists: a secret is not overwritten, delete it first", .0.display())]
    Exists(PathBuf),
    /// A host name that cannot stand in a line.
    #[error("{0:?} is no host name: it is empty, longer than 255 bytes, or has blanks")]
    HostName(String),
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
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
    #[error("expected {0}")]
    Fields(&'static str),
    /// The kind of key is none that this version knows.
    #[error("{found:?} where {expected} belongs")]
    Kind {
        /// Word in the line.
        found: String,
        /// Word that belongs there.
        expected: &'static str,
    },
    /// The port is no number from 1 to 65535.
    #[error("{0:?} is no port: 1 to 65535")]
    Port(String),
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
