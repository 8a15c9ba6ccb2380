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
#[derive(Debug, Clone, Default)]
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
    /// Returns a full bucket for segments of `mss` bytes, with a rate in bytes per second; without
    /// one it allows everything.
    pub(crate) fn new(mss: u64, rate: Option<u64>) -> Self {
        let (mss, rate) = (mss.max(1), rate.map(|rate| rate.max(1)));
        let mut pacer = Self { mss, batch: MAX_BATCH / mss * mss, rate, ..Self::default() };
        pacer.level = pacer.capacity();
        pacer
    }

    pub(crate) fn set_sizes(&mut self, mss: u64, batch: u64) {
        self.mss = mss.max(1);
        self.batch = batch;
    }

    pub(crate) fn set_train(&mut self, bytes: u64) {
        self.train = bytes;
    }

    /// Sets the rate, bytes per second; `None` is unpaced and 0 counts as 1. Existing debt is paid
    /// at the new rate. Of the tokens, a burst at the new rate is kept, and what makes up for the
    /// same lateness.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.settle(now);
        let (before, late) = (self.rate, (self.level - nano_bytes(self.burst())).max(0));
        self.rate = rate.map(|rate| rate.max(1));
        let late = match (before, self.rate) {
            (Some(before), Some(rate)) if late > 0 && rate < before => {
                late / i128::from(before) * i128::from(rate)
            }
            _ => late,
        };
        self.level = self.level.min(nano_bytes(self.burst()) + late).min(self.capacity());
    }

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
mod tests;
