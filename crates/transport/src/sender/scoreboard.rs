//! One record per packet in flight: what is acknowledged, what a sample may be taken from. Owns `snd_una`
//! and `snd_nxt`. Knows no bytes but their offsets, and no timer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A packet that was sent and is not acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Offset of its first byte in the stream.
    pub(crate) offset: u64,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Bytes.
    pub(crate) len: u32,
    /// How often it was sent.
    pub(crate) sent_count: u32,
}

/// What an ACK that moved the base did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acked {
    /// A round-trip sample: from the last packet acknowledged, and only if the first one was never sent
    /// again (Karn). Only the base is ever sent again, so then none of them was.
    pub(crate) sample: Option<Duration>,
    /// One past the last byte acknowledged.
    pub(crate) end_offset: u64,
}

/// Packets `snd_una .. snd_nxt`, contiguous, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Segment>,
    snd_una: u64,
    /// Offset of the first byte that was never sent.
    next_offset: u64,
}

impl Scoreboard {
    /// Records the first transmission of the next packet.
    pub(crate) fn push(&mut self, now: Instant, len: u32) {
        self.segments.push_back(Segment { offset: self.next_offset, sent_at: now, len, sent_count: 1 });
        self.next_offset += u64::from(len);
    }

    /// Takes a cumulative ACK in `snd_una + 1 ..= snd_nxt`.
    pub(crate) fn acknowledge(&mut self, now: Instant, ack: u64) -> Option<Acked> {
        let count = usize::try_from(ack.checked_sub(self.snd_una)?).ok()?;
        let last = *self.segments.get(count.checked_sub(1)?)?;
        let never_resent = self.segments[0].sent_count == 1;
        self.segments.drain(..count);
        self.snd_una = ack;
        Some(Acked {
            sample: never_resent.then(|| now.saturating_duration_since(last.sent_at)),
            end_offset: last.offset + u64::from(last.len),
        })
    }

    /// The oldest packet in flight.
    pub(crate) fn base(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Records that the oldest packet was sent again.
    pub(crate) fn resend_base(&mut self, now: Instant) {
        if let Some(base) = self.segments.front_mut() {
            base.sent_at = now;
            base.sent_count += 1;
        }
    }

    /// Number of the oldest packet not acknowledged.
    pub(crate) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// Number of the next new packet.
    pub(crate) fn snd_nxt(&self) -> u64 {
        self.snd_una + self.flight_size()
    }

    /// Packets in flight.
    pub(crate) fn flight_size(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Offset of the first byte never sent.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hot_record_stays_small() {
        assert!(size_of::<Segment>() <= 40, "{} bytes", size_of::<Segment>());
    }

    #[test]
    fn a_sample_comes_from_the_last_packet_acknowledged_and_only_if_the_base_was_sent_once() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let t0 = Instant::now();
        let ms = Duration::from_millis;
        let mut board = Scoreboard::default();
        for i in 0..4 {
            board.push(t0 + ms(10 * i), 100);
        }
        let acked = board.acknowledge(t0 + ms(110), 2).unwrap();
        assert_eq!((acked.sample, acked.end_offset), (Some(ms(100)), 200));
        board.resend_base(t0 + ms(150));
        let acked = board.acknowledge(t0 + ms(200), 4).unwrap();
        assert_eq!((acked.sample, acked.end_offset), (None, 400));
        assert_eq!((board.snd_una(), board.snd_nxt(), board.flight_size()), (4, 4, 0));
    }

    #[test]
    fn acks_outside_what_is_in_flight_change_nothing() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let now = Instant::now();
        let mut board = Scoreboard::default();
        board.push(now, 1);
        board.acknowledge(now, 1).unwrap();
        board.push(now, 1);
        for ack in [0, 1, 3, u64::MAX] {
            assert!(board.acknowledge(now, ack).is_none(), "ack {ack}");
        }
        assert_eq!((board.snd_una(), board.snd_nxt()), (1, 2));
    }
}
