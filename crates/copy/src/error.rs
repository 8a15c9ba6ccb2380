//! Errors that end a copy as a whole. Failures of single files are in the summary.

use std::io;

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
    /// This host refused something that the whole copy needs.
    #[error("{step}: {error}")]
    System {
        /// What was tried.
        step: &'static str,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
}
