//! End of a copy: its summary, or the error that ends it as a whole. Failures of single files are
//! in the summary.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Counts of a copy that came to its end, with or without failures of single files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that were copied.
    pub files: u64,
    /// Directories that were created, or existed and got their modes and times.
    pub directories: u64,
    /// Symbolic links that were created.
    pub links: u64,
    /// Files and links that were skipped: identical.
    pub skipped: u64,
    /// Files and links that a dry run would copy.
    pub planned: u64,
    /// Failures by name, the first 1000.
    pub failed: Vec<Failure>,
    /// Number of failures.
    pub failures: u64,
    /// Bytes of the copied files, holes included.
    pub bytes: u64,
    /// Bytes that an earlier copy had sent, and that were not sent again.
    pub resumed_bytes: u64,
    /// Bytes of files that were sent in this copy and written; holes count nothing.
    pub sent_bytes: u64,
    /// Bytes of data and messages that were compressed. The rest was sent as it is.
    pub uncompressed_bytes: u64,
    /// The same after compression.
    pub compressed_bytes: u64,
    /// Time since the request.
    pub elapsed: Duration,
}

/// File, link or directory that was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Path of the entry, relative to the destination.
    pub path: PathBuf,
    /// Why, in a sentence for the user.
    pub text: String,
}

impl Summary {
    /// Returns true if nothing failed.
    pub fn is_complete(&self) -> bool {
        self.failures == 0
    }
}

/// Why a copy as a whole failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The connection failed. Its source is the stream's error. The same copy can be resumed.
    #[error("the connection failed: {0}")]
    Stream(#[source] io::Error),
    /// The peer refused the request.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// The request makes no sense on this side, for example a destination that does not exist.
    #[error("{0}")]
    Request(String),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// The client is connected, and has not said what it wants.
    #[error("it has sent no request")]
    NoRequest,
    /// The same client has started the same push again.
    #[error("the same copy was started again")]
    Replaced,
    /// This host refused something that the whole copy needs.
    #[error("{step}: {error}")]
    System {
        /// Step that failed.
        step: &'static str,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
}
