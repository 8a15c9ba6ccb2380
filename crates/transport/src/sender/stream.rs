//! Stream of the application: its send buffer, and the rules for packets that are not full.

use std::time::Instant;

use super::Sender;
use super::encode::Heads;
use crate::Frame;
use crate::send_buffer::{FramePool, SendBuffer};
use crate::wire::Codec;

/// Limit of unsent bytes in the buffer, or the congestion window if that is less: several full
/// batches for one connection, and little enough to stay in the CPU's caches for many.
pub(super) const LOOKAHEAD: u64 = 256 * 1024;
/// Length of the body of an ACK with no SACK block or a few, bytes.
const MAX_SHORT_ACK: u64 = 64;
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
    pub(super) fn new(codec: &Codec, pool: FramePool) -> Self {
        Self {
            // Native packets are authenticated.
            buffer: SendBuffer::new(!codec.has_packet_numbers(), pool),
            finishing: false,
            pushed: 0,
            nodelay: false,
            short_end: 0,
            fin_with_data: codec.has_packet_numbers(),
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

    /// True if neither data nor a FIN follows what is written, so that the receiver would delay the
    /// ACK of the last packets: the stream has ended, or the application has pushed and pauses.
    fn pauses(&self) -> bool {
        if self.finishing { !self.fin_with_data } else { self.pushed >= self.end() }
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

impl Sender {
    /// Chooses whether a packet that is not full leaves although an earlier one is unacknowledged.
    pub(crate) fn set_nodelay(&mut self, nodelay: bool) {
        self.stream.nodelay = nodelay;
    }

    /// Gives the body of an ACK to the next DATA packet that has room for it (native).
    pub(crate) fn carry_ack(&mut self, body: Vec<u8>) {
        self.stream.carried_ack = Some(body);
    }

    /// Takes the body of [`Sender::carry_ack`] back if no packet had room for it.
    pub(crate) fn take_carried_ack(&mut self) -> Option<Vec<u8>> {
        self.stream.carried_ack.take()
    }

    /// Returns the index of the last waiting segment, whose ACK the receiver would delay. Counts
    /// from `offset` in segments of `len` bytes. [`Heads::NONE`] if more data or a FIN follows.
    pub(super) fn last_of(&self, offset: u64, len: u64) -> u64 {
        let waiting = self.stream.end() - offset;
        let requests = self.stream.pauses() && waiting.is_multiple_of(len) && !self.is_alone(len);
        if requests { waiting / len - 1 } else { Heads::NONE }
    }

    /// True if a new packet of `len` bytes is all that is unacknowledged and the last of what is
    /// pushed (native). Its ACK may wait for the application's answer (RFC 9000, section 13.2.2).
    pub(super) fn is_alone(&self, len: u64) -> bool {
        let is_only = self.codec.has_packet_numbers() && self.flight.board.is_empty();
        is_only && self.stream.pauses() && self.stream.end() - self.flight.board.next_offset() == len
    }

    /// True if the next packet leaves now and has room for an ACK.
    pub(crate) fn can_carry_ack(&self, now: Instant) -> bool {
        let waiting = self.stream.end() - self.flight.board.next_offset();
        let is_short = waiting > 0 && waiting + MAX_SHORT_ACK <= self.path.mss as u64;
        is_short && self.sends_one(now)
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
