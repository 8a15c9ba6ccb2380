//! Serialiser whose rate changes at given times.
//!
//! Work (bits to send) is counted in (millibit/s) * ns, so that every rate does a whole number of
//! units in a nanosecond. What the rounding of a packet's end leaves therefore carries over to the
//! next packet exactly, even if the rate changes.

use std::time::{Duration, Instant};

use crate::bitrate::Bitrate;
use crate::packet::Service;
use crate::schedule::Schedule;
use crate::time::{nanos, nanos_since, saturating_add};

/// Work of a byte, in (millibit/s) * ns: 8000 millibits, each of which is 1e9 such units.
const WORK_PER_BYTE: u128 = 8 * 1_000 * 1_000_000_000;

/// State of a serialiser whose rate follows a schedule.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    schedule: Schedule<Option<Bitrate>>,
    origin: Option<Instant>,
    /// End of the last packet's service, in nanoseconds since the origin, rounded down.
    busy_until: u64,
    /// Work of the last packet that is not done at `busy_until`, because that time is rounded down.
    remainder: u128,
    /// Number of the schedule's changes at or before `busy_until`.
    changes: usize,
}

impl Steps {
    pub(super) const fn new(schedule: Schedule<Option<Bitrate>>) -> Self {
        Self { schedule, origin: None, busy_until: 0, remainder: 0, changes: 0 }
    }

    pub(super) const fn start(&mut self, at: Instant) {
        self.origin = Some(at);
    }

    /// Serves no packet before this time.
    pub(super) fn begin_at(&mut self, at: Instant) {
        let origin = *self.origin.get_or_insert(at);
        self.busy_until = nanos_since(origin, at);
    }

    pub(super) fn next_start(&self, now: Instant) -> Instant {
        let origin = self.origin.unwrap_or(now);
        now.max(saturating_add(origin, Duration::from_nanos(self.busy_until)))
    }

    pub(super) fn serve(&mut self, now: Instant, bytes: usize) -> Service {
        let origin = *self.origin.get_or_insert(now);
        let start = self.next_start(now);
        let now = nanos_since(origin, now);
        if self.busy_until < now {
            // After an idle time service starts at a whole nanosecond.
            self.remainder = 0;
        }
        let from = self.busy_until.max(now);
        self.work(from, bytes as u128 * WORK_PER_BYTE);
        let end = saturating_add(origin, Duration::from_nanos(self.busy_until)).max(start);
        Service { start, end, busy: Duration::from_nanos(self.busy_until - from) }
    }

    /// Advances `busy_until` to the end of `work` plus the remainder, beginning at `from`.
    fn work(&mut self, mut from: u64, work: u128) {
        // The sum fits in 128 bits: the work of `usize::MAX` bytes is below 2^64 * 2^43, and the
        // remainder is below a rate, which has 64 bits.
        let mut work = work + self.remainder;
        loop {
            let (rate, next) = self.schedule.stretch(self.changes);
            let next = next.map(nanos);
            if next.is_some_and(|next| next <= from) {
                self.changes += 1;
                continue;
            }
            let Some(rate) = rate.map(|rate| u128::from(rate.as_millibps())) else {
                (self.busy_until, self.remainder) = (from, 0);
                return;
            };
            let room = next.map(|next| u128::from(next - from) * rate);
            match (next, room) {
                // The work lasts beyond the next change of rate: do what fits before the change.
                (Some(next), Some(room)) if work > room => {
                    work -= room;
                    from = next;
                    self.changes += 1;
                }
                _ => {
                    let time = u64::try_from(work / rate).unwrap_or(u64::MAX);
                    (self.busy_until, self.remainder) = (from.saturating_add(time), work % rate);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{Numbers, epoch, ms, ns};

    #[expect(clippy::unnecessary_wraps, reason = "no limit is a rate like others")]
    const fn rate(bps: u64) -> Option<Bitrate> {
        Some(Bitrate::from_bps(bps))
    }

    fn steps(first: Option<Bitrate>, changes: &[(Duration, Option<Bitrate>)]) -> Steps {
        Steps::new(Schedule::new(first, changes.iter().copied()))
    }

    #[test]
    fn packet_in_service_continues_at_new_rate() {
        // The first half of 500 bytes takes 2 ms at 1 Mbit/s, the second half 1 ms at 2 Mbit/s.
        let now = epoch();
        let mut wire = steps(rate(1_000_000), &[(ms(2), rate(2_000_000))]);
        wire.start(now);
        assert_eq!(wire.serve(now, 500), Service { start: now, end: now + ms(3), busy: ms(3) });
        assert_eq!(wire.serve(now, 500), Service { start: now + ms(3), end: now + ms(5), busy: ms(2) });
    }

    #[test]
    fn one_packet_can_see_several_rates() {
        // 1000 bits at 1 Mbit/s in 1 ms, 1000 at 500 kbit/s in 2 ms, 2000 at 100 kbit/s in 20 ms.
        let now = epoch();
        let mut wire = steps(rate(1_000_000), &[(ms(1), rate(500_000)), (ms(3), rate(100_000))]);
        assert_eq!(wire.serve(now, 500).end, now + ms(23));
    }

    #[test]
    fn changes_while_idle_apply() {
        let now = epoch();
        let mut wire = steps(rate(1_000), &[(ms(10), rate(2_000)), (ms(20), rate(1_000_000))]);
        wire.start(now);
        assert_eq!(wire.serve(now + ms(30), 500).end, now + ms(34));
    }

    #[test]
    fn service_can_end_exactly_at_change() {
        let now = epoch();
        let mut wire = steps(rate(1_000_000), &[(ms(4), rate(8))]);
        assert_eq!(wire.serve(now, 500).end, now + ms(4));
        assert_eq!(wire.serve(now, 1).end, now + ms(1_004));
    }

    #[test]
    fn unlimited_rate_can_be_a_step() {
        let now = epoch();
        let mut wire = steps(None, &[(ms(5), rate(1_000_000)), (ms(7), None)]);
        wire.start(now);
        assert_eq!(wire.serve(now, 65_535).end, now);
        assert_eq!(wire.serve(now + ms(5), 500).end, now + ms(7));
        assert_eq!(wire.serve(now + ms(5), 65_535).end, now + ms(7));
    }

    #[test]
    fn service_ends_match_exact_rate_integral() {
        for seed in 0..20 {
            let mut numbers = Numbers::new(seed);
            let mut at = 0;
            let changes: Vec<_> = (0..200)
                .map(|_| {
                    at += numbers.below(3_000_000);
                    (ns(at), rate(1 + numbers.below(1_000_000_007)))
                })
                .collect();
            let schedule = Schedule::new(rate(3), changes);
            let start = epoch();
            let mut wire = Steps::new(schedule.clone());
            let mut sent = 0;
            for n in 0..2_000 {
                let bytes = numbers.below(1_600);
                sent += u128::from(bytes) * WORK_PER_BYTE;
                let end = wire.serve(start, usize::try_from(bytes).unwrap()).end - start;
                // The exact end is within this nanosecond.
                assert!(integral(&schedule, end) <= sent, "seed {seed}, packet {n}");
                assert!(integral(&schedule, end + ns(1)) > sent, "seed {seed}, packet {n}");
            }
        }
    }

    /// Returns the work that a busy serialiser with this schedule does until a time.
    fn integral(schedule: &Schedule<Option<Bitrate>>, until: Duration) -> u128 {
        let (mut done, mut from, mut n) = (0, Duration::ZERO, 0);
        loop {
            let (rate, next) = schedule.stretch(n);
            let to = next.map_or(until, |next| next.min(until));
            done += u128::from(nanos(to) - nanos(from)) * u128::from(rate.unwrap().as_millibps());
            if to == until {
                return done;
            }
            (from, n) = (to, n + 1);
        }
    }

    #[test]
    fn schedule_without_changes_is_constant_rate() {
        let start = epoch();
        let mut numbers = Numbers::new(1);
        let mut plain = super::super::Serialiser::new(rate(999_983));
        let mut wire = steps(rate(999_983), &[]);
        let mut now = start;
        for n in 0..5_000 {
            now += ns(numbers.below(9_000_000));
            let bytes = usize::try_from(numbers.below(1_600)).unwrap();
            assert_eq!(wire.next_start(now), plain.next_start(now), "packet {n}");
            assert_eq!(wire.serve(now, bytes), plain.serve(now, bytes), "packet {n}");
        }
    }

    #[test]
    fn times_saturate_at_countable_end() {
        let now = epoch();
        let mut wire = steps(Some(Bitrate::from_bps(0)), &[(Duration::MAX, rate(1))]);
        for _ in 0..3 {
            let service = wire.serve(now, usize::MAX);
            assert!(service.end >= service.start);
        }
    }
}
