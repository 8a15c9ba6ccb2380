//! Memory of received data. Its amount is limited, which closes the stream's window while the
//! threads are slower than the network.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::protocol::MAX_DATA_BYTES;

/// Limit on the memory of frames that wait for a thread, in units of 1 KiB: 16 MiB.
const MAX_QUEUED_UNITS: usize = 16 << 10;
/// Data of this size and more gets a buffer of the full size, for reuse. Smaller data gets memory
/// of its own size.
const MIN_POOLED_BYTES: usize = MAX_DATA_BYTES / 4;

/// Memory of the frames of one copy.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    units: Arc<Semaphore>,
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Room for a frame, held until a thread has dealt with it.
pub(crate) type Room = Option<OwnedSemaphorePermit>;

#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { units: Arc::new(Semaphore::new(MAX_QUEUED_UNITS)), spare: Arc::default() }
    }

    /// Waits for room for a frame.
    pub(crate) async fn room(&self, bytes: usize) -> Room {
        let bytes = if bytes >= MIN_POOLED_BYTES { MAX_DATA_BYTES } else { bytes };
        let units = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        // Fails only if the semaphore is closed, and it never is.
        Arc::clone(&self.units).acquire_many_owned(units).await.ok()
    }

    /// Returns a buffer of that length, at most that of a data frame.
    pub(crate) fn buffer(&self, length: usize) -> Buffer {
        let bytes = if length < MIN_POOLED_BYTES {
            vec![0; length]
        } else {
            let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            spare.unwrap_or_else(|| vec![0; MAX_DATA_BYTES])
        };
        Buffer { bytes, length, spare: Arc::clone(&self.spare) }
    }
}

impl Buffer {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.len() >= MIN_POOLED_BYTES {
            let bytes = std::mem::take(&mut self.bytes);
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}
