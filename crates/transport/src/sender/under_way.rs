//! Data that the receiver has, while the ACK of it waits on the way back.
//!
//! The window of a controller such as Reno is for the path to the receiver. The sender lets as
//! much more be in flight as presumably arrived while the newest ACK waited, so the queue of the
//! way back neither lowers the rate nor, when it drains, bursts into the queue of the way there
//! (RFC 3449, section 2.2). BBR's model contains the same (`acknowledged_on_way_back`).

use std::time::{Duration, Instant};

use crate::congestion::volume;

/// Share of its excess over the newest sample by which the rate decays with each ACK: 1/64. A
/// sample is the lower one of two rates, and too low on average. With the newest sample, Reno has
/// 47 Mbit/s on a line of 100:1 Mbit/s, with this 67.
const RATE_DECAY: u64 = 64;
/// Share by which the longest interval between ACKs decays with each ACK: 1/8.
const GAP_DECAY: u32 = 8;
/// Growth of the rate in a round trip in slow start.
const SLOW_START_GROWTH: u64 = 2;

/// Estimator of the bytes in flight that have arrived.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// Bytes that have presumably arrived without an ACK.
    pub(super) bytes: u64,
    /// `None` before the first ACK, and with controllers that need no estimate.
    acks: Option<Box<Acks>>,
}

/// Rate and interval of ACKs.
#[derive(Debug, Default)]
struct Acks {
    /// Decaying maximum of the delivery rate, bytes per second.
    rate: u64,
    /// Decaying maximum of the interval between ACKs.
    gap: Duration,
    newest_at: Option<Instant>,
}

impl UnderWay {
    /// Handles an ACK with this sample of the delivery rate, which took `delay` longer on its way
    /// back than the fastest one.
    ///
    /// Data arrives between two ACKs, too, so the interval between them counts like a delay. It is
    /// of no account where the delay is none: there the ACKs come as their data does.
    pub(super) fn on_ack(&mut self, now: Instant, rate: Option<u64>, delay: Duration, slow_start: bool) {
        let acks = self.acks.get_or_insert_default();
        if let Some(rate) = rate.filter(|rate| *rate > 0) {
            acks.rate = rate.max(acks.rate - acks.rate.saturating_sub(rate) / RATE_DECAY);
        }
        let since = acks.newest_at.replace(now).map(|newest_at| now.saturating_duration_since(newest_at));
        acks.gap = since.unwrap_or_default().max(acks.gap.saturating_sub(acks.gap / GAP_DECAY));
        let bytes = volume(acks.rate, delay + acks.gap.min(delay));
        self.bytes = bytes.saturating_mul(if slow_start { SLOW_START_GROWTH } else { 1 });
    }

    /// Returns the largest pacing rate for a window, bytes per second: the delivery rate and a
    /// quarter, where more is under way than the window has. An ACK for many packets then makes
    /// room for more than the window, and a rate that follows from the window alone, several times
    /// the one of the path, would let them burst into a small queue. Without the limit CUBIC has
    /// 3.4 Mbit/s on a line of 8:0.25 Mbit/s with 10 ms, with it 5.2.
    pub(super) fn max_rate(&self, window: u64, slow_start: bool) -> u64 {
        let growth = if slow_start { SLOW_START_GROWTH } else { 1 };
        match &self.acks {
            Some(acks) if self.bytes >= window => {
                acks.rate.saturating_add(acks.rate / 4).saturating_mul(growth)
            }
            _ => u64::MAX,
        }
    }

    /// Returns the part of `acked` bytes by which a window grows in slow start. In a round trip the
    /// window and these bytes together are acknowledged; the window shall double.
    pub(super) fn share_of(&self, window: u64, acked: u64) -> u64 {
        if self.bytes == 0 {
            return acked;
        }
        let share = u128::from(acked) * u128::from(window) / (u128::from(window) + u128::from(self.bytes));
        u64::try_from(share).unwrap_or(acked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{epoch, ms};

    /// Returns the estimate after ACKs every `gap_ms`, each with this delay.
    fn bytes(rates: &[u64], gap_ms: u64, delay_ms: u64, slow_start: bool) -> u64 {
        let mut under_way = UnderWay::default();
        let mut now = epoch();
        for rate in rates {
            now += ms(gap_ms);
            under_way.on_ack(now, Some(*rate), ms(delay_ms), slow_start);
        }
        under_way.bytes
    }

    #[test]
    fn rate_times_delay_and_interval_are_under_way() {
        assert_eq!(bytes(&[1_000_000; 2], 10, 400, false), 410_000);
        assert_eq!(bytes(&[1_000_000; 2], 10, 400, true), 820_000, "the rate doubles");
    }

    #[test]
    fn interval_counts_no_more_than_delay() {
        assert_eq!(bytes(&[1_000_000; 2], 1000, 5, false), 10_000);
        assert_eq!(bytes(&[1_000_000; 2], 1000, 0, true), 0, "no delay");
    }

    #[test]
    fn rate_falls_slowly() {
        assert_eq!(bytes(&[6400, 0], 0, 1000, false), 6400, "no sample");
        assert_eq!(bytes(&[6400, 1], 0, 1000, false), 6400 - 99);
        assert_eq!(bytes(&[6400, 12_800], 0, 1000, false), 12_800);
    }

    #[test]
    fn rate_is_limited_if_more_than_a_window_waits() {
        let mut under_way = UnderWay::default();
        assert_eq!(under_way.max_rate(3000, true), u64::MAX, "no sample");
        under_way.on_ack(epoch(), Some(4000), ms(1000), false);
        assert_eq!(under_way.max_rate(4001, false), u64::MAX);
        assert_eq!((under_way.max_rate(4000, false), under_way.max_rate(4000, true)), (5000, 10_000));
    }

    #[test]
    fn slow_start_doubles_the_window_in_a_round_trip() {
        let mut under_way = UnderWay::default();
        assert_eq!(under_way.share_of(3000, 500), 500);
        under_way.on_ack(epoch(), Some(9000), ms(1000), false);
        assert_eq!(under_way.share_of(3000, 12_000), 3000);
    }
}
