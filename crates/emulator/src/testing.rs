//! What the unit tests share: a starting point in time and a repeatable source of numbers.
//!
//! Nothing here is compiled outside tests.

use std::time::{Duration, Instant};

use crate::draw::child_seed;

/// Any instant will do, as every rule is about differences; the standard library offers no other
/// way to make one.
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

/// An endless, repeatable supply of numbers for randomised tests.
pub(crate) struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next number below `bound`. The bias of the remainder is far below what a test can see.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        child_seed(self.seed, self.drawn) % bound
    }
}
