//! Helpers of the unit tests: an epoch, durations, and repeatable random numbers.

use std::time::{Duration, Instant};

/// Arbitrary origin of test times; only differences from it matter.
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

/// Linear congruential generator of numbers below the argument; equal seeds give equal numbers.
pub(crate) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}
