//! Files in one call: encrypted, and confirmed after they are stored.
//!
//! A receiver gives out tickets, each of which admits one sender. Both ends interoperate with
//! `rdt-recv --ticket --output DIRECTORY` and `rdt-send TICKET`.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | sender | `send.rs` | one file, from the first address of the ticket that answers |
//! | receiver | `receive.rs` | tickets, and files until they have their names |
//! | handle | `handle.rs` | progress of a transfer, and its cancellation |
//! | asynchronous | `asynchronous.rs` | the same for tokio |

#[cfg(feature = "tokio")]
pub(crate) mod asynchronous;
mod handle;
mod receive;
mod send;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rdt_endpoint::StreamError;
use rdt_trust::services::FILES;
use rdt_trust::{Surroundings, TrustError};

pub use handle::TransferHandle;
pub use receive::{FileReceiver, Received};
pub use send::{Sent, send_file, send_file_with};

/// Bytes that are read or written at once.
const CHUNK: usize = 256 * 1024;
/// What a peer is told about a transfer that was cancelled.
const CANCELLED: &str = "cancelled";

/// Failure of a file transfer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileTransferError {
    /// [`TransferHandle::cancel`], or the drop of a future.
    #[error("the transfer was cancelled")]
    Cancelled,
    /// The file cannot be read, or there is no place for it.
    #[error("{}: {source}", path.display())]
    File {
        /// File that is sent, or directory of the received one.
        path: PathBuf,
        /// Answer of the operating system.
        source: io::Error,
    },
    /// The receiver does not take the ticket, or a ticket cannot be made.
    #[error(transparent)]
    Ticket(#[from] TrustError),
    /// The connection failed, or the peer ended it.
    #[error(transparent)]
    Connection(#[from] StreamError),
    /// The system has no socket, thread or random numbers, or the address is in use.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Returns the error of a read or write of a stream.
fn lost(error: io::Error) -> FileTransferError {
    error.downcast::<StreamError>().map_or_else(FileTransferError::System, FileTransferError::Connection)
}

fn bits_per_s(bytes: u64, elapsed: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate has a few digits")]
    let bits = bytes as f64 * 8.0;
    bits / elapsed.as_secs_f64().max(1e-9)
}

/// A library prints nothing.
fn surroundings() -> Surroundings {
    Surroundings { service: FILES, ..Surroundings::default() }
}

#[cfg(test)]
mod tests;
