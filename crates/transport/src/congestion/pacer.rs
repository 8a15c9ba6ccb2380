//! Pacer: a token bucket in bytes, with bursts sized to send batches.
//!
//! The level is in billionths of a byte: one nanosecond at one byte per second adds exactly one
//! unit. There is no rounding, so the rate does not drift.
//!
//! A full bucket holds one burst. It holds more only while the sender waits for its tokens: a
//! thread that wakes up late then catches up, and idle time saves no more than a burst.

use std::time::{Duration, Instant};

/// Billionths of a byte per byte; nanoseconds per second.
const NANO: u64 = 1_000_000_000;

/// Largest payload of one send call, bytes: the limit of UDP segmentation offload.
const MAX_BATCH: u64 = 65_507;

/// Smallest burst, segments: two do not wait for the delayed-ACK timer, even at low rates.
const MIN_BURST: u64 = 2;

/// Bursts per second at the pacing rate: a burst is 1 ms of it.
const BURST_PER_SECOND: u64 = 1000;

/// Batches in the largest burst: the one that is due, and one that makes up for a late wake-up.
const BURST_BATCHES: u64 = 2;

/// Catch-up credits per second at the pacing rate: a wake-up may be 10 ms late without loss of
/// rate. On a busy machine, a thread waits for several time slices of 3 ms.
const CATCH_UP_PER_SECOND: u64 = 100;

/// Smallest catch-up credit, segments: the burst that every path must take (RFC 9002, section 7.7).
const MIN_CATCH_UP: u64 = 10;

/// Token bucket. Rates are in bytes per second; the caller decides which bytes count.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    mss: u64,
    batch: u64,
    /// Bytes per second; `None` is unpaced.
    rate: Option<u64>,
    /// Size of a packet train, bytes, sent as one burst once the bucket is full; 0 for none.
    train: u64,
    /// True while a train waits for a full bucket, or a batch for its tokens.
    filling: bool,
    /// True while the sender waits for tokens alone, so that time beyond a burst is lateness.
    is_awaited: bool,
    /// Tokens at `updated`, billionths of a byte; negative is debt.
    level: i128,
    updated: Option<Instant>,
}

impl Pacer {
    /// Returns a token bucket without a rate, which allows everything, for segments of `mss` bytes.
    pub(crate) fn new(mss: u64) -> Self {
        let mss = mss.max(1);
        let mut pacer = Self {
            mss,
            batch: MAX_BATCH / mss * mss,
            rate: None,
            train: 0,
            filling: false,
            is_awaited: false,
            level: 0,
            updated: None,
        };
        pacer.level = pacer.capacity();
        pacer
    }

    /// Returns a full bucket with a rate in bytes per second, for segments of `mss` bytes.
    pub(crate) fn with_rate(mss: u64, rate: u64) -> Self {
        let mut pacer = Self { rate: Some(rate.max(1)), ..Self::new(mss) };
        pacer.level = pacer.capacity();
        pacer
    }

    /// Sets the sizes of segments and batches, bytes.
    pub(crate) fn set_sizes(&mut self, mss: u64, batch: u64) {
        self.mss = mss.max(1);
        self.batch = batch;
    }

    /// Sets the size of a packet train, bytes; 0 for none.
    pub(crate) fn set_train(&mut self, bytes: u64) {
        self.train = bytes;
    }

    /// Sets the rate, bytes per second; `None` is unpaced and 0 counts as 1. Existing debt is paid
    /// at the new rate.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.settle(now);
        self.rate = rate.map(|rate| rate.max(1));
        self.level = self.level.min(self.capacity());
    }

    /// Returns the rate, bytes per second; `None` if unpaced.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Returns the burst size, bytes: two batches or 1 ms of the rate, whichever is less. At least
    /// two segments and one train. `u64::MAX` if unpaced.
    pub(crate) fn burst(&self) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let most = BURST_BATCHES * self.batch;
        most.min(rate / BURST_PER_SECOND).max(MIN_BURST * self.mss).max(self.train)
    }

    /// Returns the bytes to wait for once the tokens are used up: those of a train, or of a batch
    /// at rates that send several in a millisecond. A send call and a wake-up for every few
    /// segments would cost more than the segments. `None`: those of the next segment.
    fn refill(&self) -> Option<u64> {
        if self.train > 0 {
            return Some(self.burst());
        }
        let is_fast = self.rate? / BURST_PER_SECOND >= BURST_BATCHES * self.batch;
        is_fast.then_some(self.batch)
    }

    /// Returns the tokens without which nothing is sent now, bytes.
    fn threshold(&self) -> u64 {
        self.refill().filter(|_| self.filling).unwrap_or(0)
    }

    /// Returns when `bytes` may be sent; `None` if they may be sent now. Larger amounts wait for
    /// one [`burst`](Self::burst) only; the rest becomes debt.
    pub(crate) fn next_send_at(&self, now: Instant, bytes: u64) -> Option<Instant> {
        let rate = self.rate?;
        let wanted = bytes.min(self.burst()).max(self.threshold());
        let missing = nano_bytes(wanted) - self.level_at(now);
        let missing = u128::try_from(missing).ok().filter(|missing| *missing > 0)?;
        let wait = u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX);
        // In range: 2^64 ns are 584 years.
        now.checked_add(Duration::from_nanos(wait))
    }

    /// Returns how many of `most` segments of `len` bytes may be sent now. Equals repeated calls of
    /// [`next_send_at`](Self::next_send_at), each followed by [`on_sent`](Self::on_sent).
    pub(crate) fn allows(&self, now: Instant, len: u64, most: u64) -> u64 {
        if self.rate.is_none() {
            return most;
        }
        if self.level_at(now) < nano_bytes(self.threshold()) {
            return 0;
        }
        let beyond_first = self.level_at(now) - nano_bytes(len.min(self.burst()));
        if beyond_first < 0 {
            return 0;
        }
        let more = beyond_first.checked_div(nano_bytes(len)).and_then(|more| u64::try_from(more).ok());
        more.map_or(most, |more| most.min(more.saturating_add(1)))
    }

    /// Charges sent bytes, whether or not they were due.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.settle(now);
        if self.rate.is_some() {
            self.level -= nano_bytes(bytes);
            self.filling |= self.refill().is_some() && self.level < nano_bytes(self.mss);
        }
    }

    /// Records whether the sender, which stops now, waits for tokens alone.
    pub(crate) fn on_stopped(&mut self, now: Instant, is_awaited: bool) {
        if self.is_awaited != is_awaited {
            self.settle(now);
            self.is_awaited = is_awaited;
            self.level = self.level.min(self.capacity());
        }
    }

    fn settle(&mut self, now: Instant) {
        self.level = self.level_at(now);
        self.updated = Some(self.updated.map_or(now, |updated| updated.max(now)));
        self.filling &= self.refill().is_some_and(|refill| self.level < nano_bytes(refill));
    }

    fn level_at(&self, now: Instant) -> i128 {
        let (Some(rate), Some(updated)) = (self.rate, self.updated) else { return self.level };
        // Further calls at the same time add no tokens.
        if now <= updated {
            return self.level;
        }
        let elapsed = now.duration_since(updated).as_nanos();
        let gained = i128::try_from(elapsed.saturating_mul(u128::from(rate))).unwrap_or(i128::MAX);
        // After sizes shrink, the level may exceed the capacity; keep the surplus.
        self.level.saturating_add(gained).min(self.capacity().max(self.level))
    }

    /// Returns the level of a full bucket; if unpaced, the smallest capacity of any rate.
    fn capacity(&self) -> i128 {
        nano_bytes(match self.rate {
            Some(rate) if self.is_awaited => {
                self.burst().max(rate / CATCH_UP_PER_SECOND).max(MIN_CATCH_UP * self.mss)
            }
            Some(_) => self.burst(),
            None => MIN_BURST * self.mss,
        })
    }
}

/// Converts bytes to billionths; at most 2^64 * 10^9, far below 2^127.
fn nano_bytes(bytes: u64) -> i128 {
    i128::from(bytes) * i128::from(NANO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{epoch, random};

    const MSS: u64 = 1472;
    const BATCH: u64 = 44 * MSS;

    fn paced(now: Instant, rate: u64) -> Pacer {
        let mut pacer = Pacer::new(MSS);
        pacer.set_rate(now, Some(rate));
        pacer
    }

    #[test]
    fn burst_is_two_batches_or_millisecond() {
        let now = epoch();
        for (rate, burst) in [
            (1, 2944),
            (1_000_000, 2944),
            (2_944_000, 2944),
            (3_000_000, 3000),
            (50_000_000, 50_000),
            (64_768_000, BATCH),
            (129_536_000, 2 * BATCH),
            (10_000_000_000, 2 * BATCH),
        ] {
            assert_eq!(paced(now, rate).burst(), burst, "{rate} bytes/s");
        }
        assert_eq!(Pacer::new(MSS).burst(), u64::MAX);
        let mut pacer = paced(now, 10_000_000_000);
        pacer.set_sizes(1000, 16_000);
        assert_eq!(pacer.burst(), 32_000);
    }

    #[test]
    fn fast_rate_sends_whole_batches() {
        // A batch takes BATCH nanoseconds.
        let mut pacer = paced(epoch(), 1_000_000_000);
        let mut now = epoch() + Duration::from_secs(1);
        assert_eq!(pacer.allows(now, MSS, u64::MAX), 88);
        pacer.on_sent(now, 88 * MSS);
        for late in [0, 40_000, 10_000, BATCH] {
            let due = now + Duration::from_nanos(BATCH);
            assert_eq!(pacer.next_send_at(now, MSS), Some(due));
            let early = now + Duration::from_nanos(BATCH - 1);
            assert_eq!(pacer.allows(early, MSS, 9), 0);
            // Time that a wake-up comes late is not lost.
            now = due + Duration::from_nanos(late);
            assert_eq!(pacer.allows(now, MSS, u64::MAX), 44 + late / MSS);
            pacer.on_sent(now, BATCH + late);
        }
    }

    #[test]
    fn bucket_with_rate_begins_full() {
        let now = epoch();
        let mut pacer = Pacer::with_rate(MSS, 1_472_000);
        assert_eq!(pacer.allows(now, MSS, 9), 2);
        pacer.on_sent(now, 2 * MSS);
        assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(1)));
    }

    #[test]
    fn unpaced_sending_never_waits() {
        let now = epoch();
        let mut pacer = Pacer::new(MSS);
        for _ in 0..1000 {
            assert_eq!(pacer.next_send_at(now, 1_000_000), None);
            pacer.on_sent(now, 1_000_000);
        }
        // Unpaced sending leaves no debt.
        pacer.set_rate(now, Some(1_000_000));
        assert_eq!(pacer.next_send_at(now, 2 * MSS), None);
    }

    #[test]
    fn segments_follow_burst_at_rate() {
        // 1472 bytes at 1,472,000 bytes/s: one segment per millisecond.
        let now = epoch();
        let mut pacer = paced(now, 1_472_000);
        for _ in 0..2 {
            assert_eq!(pacer.next_send_at(now, MSS), None);
            pacer.on_sent(now, MSS);
        }
        for i in 1..=100 {
            let due = now + Duration::from_millis(i);
            let early = now + Duration::from_micros(1000 * i - 400);
            assert_eq!(pacer.next_send_at(early, MSS), Some(due));
            assert_eq!(pacer.next_send_at(due, MSS), None);
            pacer.on_sent(due, MSS);
        }
    }

    #[test]
    fn idle_time_saves_one_burst() {
        let begin = epoch();
        let mut pacer = paced(begin, 1_472_000);
        let now = begin + Duration::from_secs(1_000_000);
        pacer.on_sent(now, 2 * MSS);
        assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(1)));
    }

    #[test]
    fn late_wake_ups_keep_rate() {
        let rate = 12_500_000;
        let mut pacer = Pacer::with_rate(MSS, rate);
        let (mut now, mut sent) = (epoch(), 0);
        for _ in 0..250 {
            let count = pacer.allows(now, MSS, u64::MAX);
            pacer.on_sent(now, count * MSS);
            pacer.on_stopped(now, true);
            sent += count * MSS;
            now += Duration::from_millis(4);
        }
        assert!(sent > rate * 99 / 100, "{sent} bytes");
    }

    #[test]
    fn catch_up_is_limited_to_wait_for_tokens() {
        // Segments that leave at once, by rate, reason to stop, and wait in ms.
        for (rate, is_awaited, millis, segments) in [
            (14_720_000, true, 5, 50),
            (14_720_000, true, 10, 100),
            (14_720_000, true, 1000, 100),
            (14_720_000, false, 1000, 10),
            (1_472_000, true, 1000, 10),
            (1_472_000, false, 1000, 2),
        ] {
            let mut pacer = Pacer::with_rate(MSS, rate);
            let now = epoch();
            pacer.on_sent(now, pacer.burst());
            pacer.on_stopped(now, is_awaited);
            let now = now + Duration::from_millis(millis);
            assert_eq!(pacer.allows(now, MSS, u64::MAX), segments, "{rate} {is_awaited} {millis}");
            // The window is full before the credit is used up.
            pacer.on_stopped(now, false);
            assert!(pacer.allows(now, MSS, u64::MAX) <= pacer.burst() / MSS);
        }
    }

    #[test]
    fn debt_is_paid_at_next_rate() {
        let now = epoch();
        let mut pacer = paced(now, 1_472_000);
        // Ten segments at once with tokens for two: a debt of eight before the next one.
        assert_eq!(pacer.next_send_at(now, 10 * MSS), None);
        pacer.on_sent(now, 10 * MSS);
        assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(9)));
        // Half of the wait, then twice the rate, then unpaced.
        let now = now + Duration::from_millis(4);
        pacer.set_rate(now, Some(2 * 1_472_000));
        assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_micros(2500)));
        pacer.set_rate(now, None);
        let now = now + Duration::from_secs(1);
        pacer.set_rate(now, Some(1_472_000));
        assert_eq!(pacer.next_send_at(now, MSS), Some(now + Duration::from_millis(5)));
    }

    #[test]
    fn interval_carries_rate_plus_burst_at_most() {
        // Sizes and waits from a xorshift; the sender follows the pacer exactly.
        for seed in 1..=40_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut below = |end: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % end
            };
            let magnitude = 10 + below(22);
            let rate = 1 + below(1 << magnitude);
            let mut now = epoch();
            let mut pacer = paced(now, rate);
            let burst = pacer.burst();
            let begin = now;
            // (when, bytes sent before it)
            let mut log = vec![];
            let mut sent = 0;
            for _ in 0..400 {
                let bytes = 1 + below(burst);
                if let Some(due) = pacer.next_send_at(now, bytes) {
                    now = due + Duration::from_nanos(if below(3) == 0 { below(2_000_000) } else { 0 });
                }
                log.push((now.duration_since(begin).as_nanos(), sent));
                pacer.on_sent(now, bytes);
                sent += bytes;
                let end = now.duration_since(begin).as_nanos();
                for (from, before) in log.iter().rev().step_by(7) {
                    let allowed = u128::from(rate) * (end - from) + u128::from(burst) * u128::from(NANO);
                    let got = u128::from(sent - before) * u128::from(NANO);
                    assert!(got <= allowed, "seed {seed}, rate {rate}: {got} of {allowed} after {end} ns");
                }
            }
        }
    }

    #[test]
    fn allowance_of_run_equals_single_segments() {
        for seed in 1..=400_u64 {
            let mut below = random(seed);
            let mut now = epoch();
            let mut by_run = Pacer::new(1 + below(9000));
            let mut by_one = by_run.clone();
            for step in 0..200 {
                match below(8) {
                    0 => {
                        let magnitude = 1 + below(50);
                        let rate = (below(5) > 0).then_some(below(1 << magnitude));
                        by_run.set_rate(now, rate);
                        by_one.set_rate(now, rate);
                    }
                    1 => {
                        let (mss, batch) = (below(9000), below(70_000));
                        by_run.set_sizes(mss, batch);
                        by_one.set_sizes(mss, batch);
                    }
                    _ => {}
                }
                // A clock may step back.
                let magnitude = 1 + below(34);
                let wait = Duration::from_nanos(below(1 << magnitude));
                now = if below(20) == 0 { now.checked_sub(wait).unwrap() } else { now + wait };
                let longest = if below(10) == 0 { 200_000 } else { 9000 };
                let (len, most) = (below(longest), below(200));
                // Runs are of full segments, where the rate demands whole batches.
                let len = if by_run.refill().is_some() { len.max(by_run.mss) } else { len };
                let mut expected = 0;
                while expected < most && by_one.next_send_at(now, len).is_none() {
                    by_one.on_sent(now, len);
                    expected += 1;
                }
                let count = by_run.allows(now, len, most);
                assert_eq!(count, expected, "seed {seed} step {step}: {len} bytes, of {most}");
                if count > 0 {
                    by_run.on_sent(now, count * len);
                }
                let books = |pacer: &Pacer| (pacer.level, pacer.updated, pacer.next_send_at(now, len));
                assert_eq!(books(&by_run), books(&by_one), "seed {seed} step {step}");
            }
        }
    }

    #[test]
    fn hour_at_odd_rate_is_exact() {
        for rate in [1, 999, 7919, 123_457, 1_234_567] {
            let begin = epoch();
            let mut pacer = paced(begin, rate);
            let mut now = begin;
            let mut sent = 0;
            while now < begin + Duration::from_secs(3600) {
                if let Some(due) = pacer.next_send_at(now, MSS) {
                    now = due;
                } else {
                    pacer.on_sent(now, MSS);
                    sent += MSS;
                }
            }
            // One hour at the rate, plus the initial burst of two segments.
            let expected = 3600 * rate + 2 * MSS;
            assert!(sent.abs_diff(expected) <= MSS, "{rate} bytes/s: {sent} instead of {expected}");
        }
    }

    #[test]
    fn extreme_rates_and_times_do_not_overflow() {
        let begin = epoch();
        let far = begin + Duration::from_secs(100 * 365 * 86_400);
        let mut fastest = paced(begin, u64::MAX);
        fastest.on_sent(begin, u64::MAX);
        assert!(fastest.next_send_at(begin, MSS).is_some());
        assert_eq!(fastest.next_send_at(far, MSS), None);
        assert_eq!((fastest.allows(begin, MSS, 9), fastest.allows(far, 1, u64::MAX)), (0, 2 * BATCH));
        let mut slowest = paced(begin, 0);
        slowest.on_sent(begin, u64::MAX);
        assert!(slowest.next_send_at(begin, MSS).is_some());
        // A clock that steps back adds and removes no tokens.
        let mut pacer = paced(far, 1_472_000);
        pacer.on_sent(far, 2 * MSS);
        pacer.on_sent(begin, 0);
        assert_eq!(pacer.next_send_at(far, MSS), Some(far + Duration::from_millis(1)));
    }
}
