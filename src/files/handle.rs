//! Progress of a transfer, and its cancellation.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::FileTransferError;

/// Progress of one transfer, for other threads, and its cancellation. Clones are the same handle.
#[derive(Clone, Default)]
pub struct TransferHandle(Arc<State>);

#[derive(Default)]
struct State {
    bytes: AtomicU64,
    /// Length of the file; 0 if it is not known.
    total: AtomicU64,
    stop: Mutex<Stop>,
}

#[derive(Default)]
struct Stop {
    is_cancelled: bool,
    /// Ends the connection of the transfer.
    close: Option<Box<dyn FnOnce() + Send>>,
}

impl TransferHandle {
    /// Creates a handle for a transfer that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes that have arrived so far: at a sender those that were acknowledged.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Returns the length of the file. `None` at a receiver, which does not know it, before a
    /// sender has opened the file, and for an empty one.
    pub fn total(&self) -> Option<u64> {
        Some(self.0.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }

    /// Ends the transfer at once: its call fails with [`FileTransferError::Cancelled`], the peer is
    /// told, and no file is left in the receiver's directory. Has no effect once the receiver has
    /// all bytes.
    pub fn cancel(&self) {
        let close = {
            let mut stop = self.stop();
            stop.is_cancelled = true;
            stop.close.take()
        };
        if let Some(close) = close {
            close();
        }
    }

    /// Returns whether [`TransferHandle::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.stop().is_cancelled
    }

    pub(super) fn set_total(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Runs a transfer, which `close` ends from another thread.
    pub(super) fn run<T>(
        &self,
        close: impl FnOnce() + Send + 'static,
        transfer: impl FnOnce() -> Result<T, FileTransferError>,
    ) -> Result<T, FileTransferError> {
        {
            let mut stop = self.stop();
            if stop.is_cancelled {
                return Err(FileTransferError::Cancelled);
            }
            stop.close = Some(Box::new(close));
        }
        let result = transfer();
        // Dropped without the lock: it may be the last handle of a connection.
        let close = self.stop().close.take();
        drop(close);
        result.map_err(|error| if self.is_cancelled() { FileTransferError::Cancelled } else { error })
    }

    /// Ends the time in which the transfer can be cancelled.
    pub(super) fn commit(&self) -> Result<(), FileTransferError> {
        let (is_cancelled, close) = {
            let mut stop = self.stop();
            (stop.is_cancelled, stop.close.take())
        };
        drop(close);
        if is_cancelled { Err(FileTransferError::Cancelled) } else { Ok(()) }
    }

    fn stop(&self) -> MutexGuard<'_, Stop> {
        self.0.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TransferHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferHandle").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
