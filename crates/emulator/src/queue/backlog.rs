//! Who waits in front of the serialiser, for disciplines that decide when a packet comes.
//!
//! Owns how many bytes wait. That is another number than what counts against the queue's limit where packets on
//! the wire count too: those are no queue, and no discipline can shorten them.

use std::collections::VecDeque;
use std::time::Instant;

/// The packets that were let in and whose service has not started, first come first.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// When service of each starts, and its size in bytes on the wire.
    waiting: VecDeque<(Instant, u64)>,
    /// The sum of the sizes.
    bytes: u64,
}

impl Backlog {
    /// Bytes on the wire of those who wait at `now`. Nothing earlier may be asked afterwards.
    pub(crate) fn bytes_at(&mut self, now: Instant) -> u64 {
        while let Some(&(starts, bytes)) = self.waiting.front()
            && starts <= now
        {
            self.bytes -= bytes;
            self.waiting.pop_front();
        }
        self.bytes
    }

    /// A packet of `bytes` bytes on the wire was let in whose service begins at `starts`, not before that of
    /// those ahead of it.
    pub(crate) fn enter(&mut self, starts: Instant, bytes: u64) {
        self.waiting.push_back((starts, bytes));
        self.bytes += bytes;
    }
}
