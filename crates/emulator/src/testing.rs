//! Helpers of the unit tests: a starting time and a repeatable source of numbers.

use std::time::{Duration, Instant};

use crate::draw::child_seed;

/// An arbitrary instant: the tests depend on differences only.
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

/// The last nanosecond before `time`, which is not zero.
pub(crate) const fn just_before(time: Duration) -> Duration {
    time.saturating_sub(ns(1))
}

/// Repeatable source of numbers for randomised tests.
pub(crate) struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next number below `bound`. The bias of the remainder is negligible.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        child_seed(self.seed, self.drawn) % bound
    }
}
