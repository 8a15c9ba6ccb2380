//! Delay of the way back: how much longer an ACK took than the fastest one. An ACK has its send
//! time by the receiver's clock, so the unknown offset between the clocks cancels.
//!
//! Data and ACKs of other streams wait in the queue of the way back. Without the send time, a
//! sender takes that for a queue before the receiver, and slows down a stream that nothing hinders
//! (RFC 3449).

use std::time::{Duration, Instant};

/// Time after which the fastest ACK is forgotten, because the clocks drift, or the path changed.
/// Clocks that differ by 50 parts in a million drift by 6 ms in two such times.
const GENERATION: Duration = Duration::from_secs(60);

/// Difference that two times of whole microseconds may show where there is none, microseconds.
const RESOLUTION: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct WayBack {
    /// First ACK: its arrival, and its time by the receiver's clock.
    first: Option<(Instant, u32)>,
    /// Start of the present generation.
    since: Option<Instant>,
    /// Fastest ACK of the present generation, and of the one before: its duration, microseconds
    /// longer than the first one.
    fastest: [Option<i64>; 2],
    /// Round trip of the newest ACK that measured one.
    round_trip: Duration,
    /// Time that the newest ACK took beyond the fastest one of the last minute or two; zero in the
    /// classic format.
    pub(super) delay: Duration,
}

impl WayBack {
    /// Handles an ACK with this send time, and with this round trip if it measures one. Whatever
    /// the receiver says, the delay is at most what the round trip exceeds the least one by.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent_us: Option<u32>,
        round_trip: Option<Duration>,
        min_rtt: Duration,
    ) {
        self.round_trip = round_trip.unwrap_or(self.round_trip);
        let Some(sent_us) = sent_us else { return };
        let (first_at, first_sent) = *self.first.get_or_insert((now, sent_us));
        let age = now.saturating_duration_since(*self.since.get_or_insert(now));
        if age >= GENERATION {
            self.since = Some(now);
            self.fastest = [None, self.fastest[0].filter(|_| age < 2 * GENERATION)];
        }
        let elapsed = now.saturating_duration_since(first_at).as_micros();
        #[expect(clippy::cast_possible_truncation, reason = "times wrap at 2^32")]
        let elapsed = (elapsed & u128::from(u32::MAX)) as u32;
        let longer = i64::from(elapsed.wrapping_sub(sent_us.wrapping_sub(first_sent)).cast_signed());
        let [newest, _] = &mut self.fastest;
        *newest = Some(newest.map_or(longer, |fastest| fastest.min(longer)));
        let fastest = self.fastest.into_iter().flatten().min().unwrap_or(longer);
        let delay = longer.abs_diff(fastest);
        self.delay = Duration::from_micros(if delay > RESOLUTION { delay } else { 0 });
        if round_trip.is_some_and(|round_trip| round_trip < self.delay) {
            // A clock has stopped or jumped.
            (self.since, self.fastest, self.delay) = (Some(now), [Some(longer), None], Duration::ZERO);
        }
        self.delay = self.delay.min(self.round_trip.saturating_sub(min_rtt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the delay after an ACK.
    fn delay_of(
        way_back: &mut WayBack,
        now: Instant,
        sent_us: Option<u32>,
        round_trip: Option<Duration>,
        min_rtt: Duration,
    ) -> Duration {
        way_back.on_ack(now, sent_us, round_trip, min_rtt);
        way_back.delay
    }

    /// Feeds ACKs that leave at these times by a clock with an offset, and take so long.
    fn delays(offset_us: u32, acks: &[(u64, u64)]) -> Vec<u64> {
        let (mut way_back, epoch) = (WayBack::default(), rdt_testing::epoch());
        let delay = |&(sent_us, took_us): &(u64, u64)| {
            let sent = offset_us.wrapping_add(u32::try_from(sent_us % (1 << 32)).unwrap());
            let at = epoch + Duration::from_micros(sent_us + took_us);
            let second = Some(Duration::from_secs(1));
            u64::try_from(delay_of(&mut way_back, at, Some(sent), second, Duration::ZERO).as_micros())
                .unwrap()
        };
        acks.iter().map(delay).collect()
    }

    #[test]
    fn offset_of_clocks_cancels() {
        for offset in [0, 12_345, u32::MAX - 500, 1 << 31] {
            let acks = [(0, 20_000), (1000, 25_000), (2000, 19_000), (3000, 60_000), (4000, 19_500)];
            assert_eq!(delays(offset, &acks), [0, 5000, 0, 41_000, 500], "{offset}");
        }
    }

    #[test]
    fn rounding_of_times_is_no_delay() {
        assert_eq!(delays(0, &[(0, 20_000), (1000, 20_001), (2000, 20_002)]), [0, 0, 2]);
    }

    #[test]
    fn times_wrap() {
        let hour = 3_600_000_000;
        let acks: Vec<_> = (0..200).map(|n| (n * hour / 100, 20_000 + 100 * (n % 2))).collect();
        let delays = delays(77, &acks);
        assert!(delays.iter().all(|delay| *delay <= 100), "{delays:?}");
    }

    #[test]
    fn fastest_ack_is_forgotten_after_two_minutes() {
        let second = 1_000_000;
        let acks: Vec<_> = (0..200).map(|n| (n * second, if n == 0 { 10_000 } else { 15_000 })).collect();
        let delays = delays(0, &acks);
        assert_eq!((delays[1], delays[59], delays[119], delays[121]), (5000, 5000, 5000, 0));
    }

    #[test]
    fn classic_acks_have_no_delay() {
        let mut way_back = WayBack::default();
        let (now, ms) = (rdt_testing::epoch(), Duration::from_millis(50));
        assert_eq!(delay_of(&mut way_back, now, None, Some(ms), Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn false_times_claim_no_more_than_round_trip() {
        let (mut way_back, epoch) = (WayBack::default(), rdt_testing::epoch());
        let ms = Duration::from_millis;
        way_back.on_ack(epoch, Some(100_000), Some(ms(50)), ms(40));
        assert_eq!(delay_of(&mut way_back, epoch + ms(1), Some(51_000), Some(ms(55)), ms(40)), ms(15));
        assert_eq!(delay_of(&mut way_back, epoch + ms(2), Some(52_000), None, ms(40)), ms(15));
        assert_eq!(delay_of(&mut way_back, epoch + ms(3), Some(53_000), Some(ms(40)), ms(40)), ms(0));
    }

    #[test]
    fn clock_that_stopped_is_no_delay() {
        let (mut way_back, epoch) = (WayBack::default(), rdt_testing::epoch());
        let ms = Duration::from_millis;
        way_back.on_ack(epoch, Some(0), Some(ms(50)), ms(40));
        // The receiver's host was suspended for 10 s, and its clock with it.
        assert_eq!(delay_of(&mut way_back, epoch + ms(10_000), Some(0), Some(ms(50)), ms(40)), ms(0));
        assert_eq!(delay_of(&mut way_back, epoch + ms(10_100), Some(95_000), Some(ms(50)), ms(40)), ms(5));
    }
}
