//! Stream of the application: its send buffer, and the rules for packets that are not full.

use crate::Frame;
use crate::send_buffer::{FramePool, SendBuffer};
use crate::wire::Codec;

/// Limit of unsent bytes in the buffer, or the congestion window if that is less: several full
/// batches for one connection, and little enough to stay in the CPU's caches for many.
pub(super) const LOOKAHEAD: u64 = 256 * 1024;
/// Assumed payload of a batch before the first full one, bytes: the largest send call.
const FIRST_BATCH: u64 = 64 * 1024;

pub(super) struct SendStream {
    pub(super) buffer: SendBuffer,
    /// True if the application has ended the stream.
    pub(super) finishing: bool,
    /// Stream offset up to which a packet that is not full may be sent.
    pub(super) pushed: u64,
    /// True if a packet that is not full need not wait for an earlier one.
    pub(super) nodelay: bool,
    /// Stream offset after the newest packet that was not full.
    pub(super) short_end: u64,
    /// True if the FIN may be sent before the data is acknowledged (native).
    pub(super) fin_with_data: bool,
    /// Payload of the newest batch that reached the limit of a send call, bytes; 0 before the
    /// first.
    pub(super) batch: u64,
    /// Body of an ACK of the other direction, for the next DATA packet with room (native).
    pub(super) carried_ack: Option<Vec<u8>>,
}

impl SendStream {
    /// Returns an empty stream.
    pub(super) fn new(codec: &Codec, pool: FramePool) -> Self {
        Self {
            // Native packets are authenticated.
            buffer: SendBuffer::new(!codec.has_packet_numbers(), pool),
            finishing: false,
            pushed: 0,
            nodelay: false,
            short_end: 0,
            fin_with_data: codec.fin_follows_data(),
            batch: 0,
            carried_ack: None,
        }
    }

    /// Returns the stream offset after the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.buffer.end()
    }

    /// Returns the payload of the next new packet at offset `next`: at most `mss`, and 0 if it must
    /// wait for more data. `una` is the offset of the oldest unacknowledged byte.
    pub(super) fn fresh_len(&self, next: u64, mss: usize, una: u64) -> usize {
        match usize::try_from(self.end() - next) {
            Ok(rest) if rest < mss => {
                // Minshall's variant of Nagle's algorithm (draft-minshall-nagle-01, section 4): a
                // short packet waits for an earlier short one, not for full ones. So the rest of a
                // large write leaves at once, and small writes still share packets.
                let pushed = self.pushed > next && (self.nodelay || una >= self.short_end);
                if self.finishing || pushed { rest } else { 0 }
            }
            _ => mss,
        }
    }

    /// True if no data follows offset `end`: the stream has ended, or the application has pushed
    /// its data and pauses.
    pub(super) fn is_last(&self, end: u64) -> bool {
        end == self.end() && (self.finishing || self.pushed >= end)
    }

    /// Returns the limit of unsent bytes with a congestion window of `cwnd` bytes and segments of
    /// `mss`. The last frame may exceed it, because full frames make full batches.
    pub(super) fn lookahead(cwnd: u64, mss: usize) -> u64 {
        let most = cwnd.min(LOOKAHEAD).max(2 * mss as u64);
        if cwnd >= LOOKAHEAD { most - Frame::SIZE as u64 + 1 } else { most }
    }

    /// Returns the payload of `count` batches in whole packets of `mss` bytes, at least one packet.
    pub(super) fn batches(&self, count: usize, mss: usize) -> u64 {
        let (batch, mss) = (if self.batch > 0 { self.batch } else { FIRST_BATCH }, mss as u64);
        let most = batch.saturating_mul(count as u64);
        (most - most % mss).max(mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkProperties;

    #[test]
    fn batches_are_whole_packets() {
        let link =
            LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
        let mut stream = SendStream::new(&Codec::Classic { link }, FramePool::new());
        assert_eq!(stream.batches(1, 1000), 65_000, "the first batch is taken for 64 KiB");
        stream.batch = 10_000;
        for (count, mss, bytes) in [(1, 1000, 10_000), (3, 1472, 29_440), (1, 20_000, 20_000)] {
            assert_eq!(stream.batches(count, mss), bytes);
        }
    }
}
