//! Batches of frames from the threads of a source to the network task. Their number is limited,
//! which passes the stream's back-pressure on to the threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_udp::clock;
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::frame::Batch;
use crate::threads::Ended;

/// Limit on batches that wait for the stream. Each has 1 MiB.
const MAX_QUEUED_BATCHES: usize = 8;
/// Limit on batches between compression and stream.
const MAX_COMPRESSED_BATCHES: usize = 2;
/// Time that a message may wait for more while the thread works on something else.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Writer of frames, one for each thread.
#[derive(Debug)]
pub(crate) struct Outgoing {
    batch: Batch,
    queue: Sender<Batch>,
    spare: Spare,
    flushed_at: Instant,
}

/// Batches that were sent, for reuse.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Batch>>>);

impl Outgoing {
    /// Creates writers for two threads, and the queue that they fill.
    pub(crate) fn pair() -> ([Self; 2], Receiver<Batch>, Spare) {
        let (queue, batches) = channel(MAX_QUEUED_BATCHES);
        let spare = Spare::default();
        let new = || Self {
            batch: Batch::new(),
            queue: queue.clone(),
            spare: spare.clone(),
            flushed_at: clock::now(),
        };
        ([new(), new()], batches, spare.clone())
    }

    /// Adds a message. The batch leaves when it is full, or with [`Self::flush`].
    pub(crate) fn message(&mut self, message: &impl Serialize) -> Result<(), Ended> {
        if !self.batch.put_control(message) {
            self.flush()?;
            self.batch.put_control(message);
        }
        Ok(())
    }

    /// Returns the batch, which has room for that many bytes of a data frame.
    pub(crate) fn with_room(&mut self, bytes: usize) -> Result<&mut Batch, Ended> {
        if self.batch.data_room() < bytes {
            self.flush()?;
        }
        Ok(&mut self.batch)
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// Queues the batch if it has waited for long.
    pub(crate) fn flush_late(&mut self) -> Result<(), Ended> {
        let is_late = clock::now().saturating_duration_since(self.flushed_at) >= FLUSH_INTERVAL;
        if is_late { self.flush() } else { Ok(()) }
    }

    /// Queues the batch, after a wait if the queue is full.
    pub(crate) fn flush(&mut self) -> Result<(), Ended> {
        self.flushed_at = clock::now();
        if self.batch.is_empty() {
            return Ok(());
        }
        let next = self.spare.take().unwrap_or_else(Batch::new);
        let batch = std::mem::replace(&mut self.batch, next);
        self.queue.blocking_send(batch).map_err(|_| Ended)
    }
}

impl Spare {
    pub(crate) fn give(&self, mut batch: Batch) {
        batch.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
    }

    pub(crate) fn take(&self) -> Option<Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Creates the queue from the thread that compresses to the stream.
pub(crate) fn compressed() -> (Sender<Batch>, Receiver<Batch>) {
    channel(MAX_COMPRESSED_BATCHES)
}
