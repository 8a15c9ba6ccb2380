//! The stream as the application writes it: the bytes not yet sent, and where they end.

use crate::Frame;
use crate::send_buffer::{FramePool, SendBuffer};

/// Written bytes beyond those sent that the buffer takes, or the congestion window if that is less:
/// several full batches for one connection, and not more than the caches hold for many.
const LOOKAHEAD: u64 = 256 * 1024;
/// Assumed size of a batch before the first full one, bytes: as much as any driver sends in one
/// call.
const FIRST_BATCH: u64 = 64 * 1024;

pub(super) struct SendStream {
    pub(super) buffer: SendBuffer,
    /// No more bytes will be written.
    pub(super) finishing: bool,
    /// Up to this offset a packet that is not full may leave if nothing is in flight.
    pub(super) pushed: u64,
    /// The FIN may leave with the last of the data.
    pub(super) fin_with_data: bool,
    /// Payload of the last full batch of new segments, bytes; 0 before there was one.
    pub(super) batch: u64,
}

impl SendStream {
    /// An empty stream. With `checks` packets have a check of their own, of which the stream's
    /// CRC-32 is combined.
    pub(super) fn new(checks: bool, fin_with_data: bool, pool: FramePool) -> Self {
        Self { buffer: SendBuffer::new(checks, pool), finishing: false, pushed: 0, fin_with_data, batch: 0 }
    }

    /// One past the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.buffer.end()
    }

    /// Bytes of the next new packet, from offset `next` on: at most `mss`, and 0 if it must wait
    /// for more. `idle` if nothing is in flight.
    pub(super) fn fresh_len(&self, next: u64, mss: usize, idle: bool) -> usize {
        match usize::try_from(self.end() - next) {
            Ok(rest) if rest < mss => {
                let pushed = self.pushed > next && idle;
                if self.finishing || pushed { rest } else { 0 }
            }
            _ => mss,
        }
    }

    /// True if nothing follows `end` for now. A source that pauses has pushed what it has.
    pub(super) fn is_last(&self, end: u64) -> bool {
        end == self.end() && (self.finishing || self.pushed >= end)
    }

    /// Written bytes that wait to be sent, at most, with a congestion window of `cwnd` bytes and
    /// segments of `mss`. Frames are filled, whose packets leave together: a frame that is begun
    /// may exceed this.
    pub(super) fn lookahead(cwnd: u64, mss: usize) -> u64 {
        let most = cwnd.min(LOOKAHEAD).max(2 * mss as u64);
        if cwnd >= LOOKAHEAD { most - Frame::SIZE as u64 + 1 } else { most }
    }

    /// Payload of `count` batches, in whole packets of `mss` bytes, at least one.
    pub(super) fn batches(&self, count: usize, mss: usize) -> u64 {
        let (batch, mss) = (if self.batch > 0 { self.batch } else { FIRST_BATCH }, mss as u64);
        let most = batch.saturating_mul(count as u64);
        (most - most % mss).max(mss)
    }
}
