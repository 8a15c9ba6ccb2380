//! Helpers of the unit tests: a starting time, durations, and a seeded source of numbers.

use std::time::{Duration, Instant};

use crate::draw::child_seed;

/// Starting time of a test. It is arbitrary, because tests depend on differences of times only.
#[expect(
    clippy::disallowed_methods,
    reason = "the only constructor of Instant; no test depends on its value"
)]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) const fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

/// Returns the last nanosecond before `time`, which must not be zero.
pub(crate) const fn just_before(time: Duration) -> Duration {
    time.saturating_sub(ns(1))
}

/// Seeded source of numbers for randomised tests.
pub(crate) struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// Returns the next number below `bound`. The bias of the modulo is negligible.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        child_seed(self.seed, self.drawn) % bound
    }
}
