//! Helpers of the tests of all crates: an origin of test times, durations, repeatable random
//! numbers, and [packets] as bytes.
#![forbid(unsafe_code)]

pub mod packets;

use std::process::Command;
use std::time::{Duration, Instant};

/// Arbitrary origin of test times; only differences from it matter.
#[expect(
    clippy::disallowed_methods,
    reason = "the only constructor of Instant; no test depends on its value"
)]
pub fn epoch() -> Instant {
    Instant::now()
}

/// Runs an ignored test in a process of its own, because it changes its process. `name` has the
/// modules.
///
/// # Panics
/// If the test fails, or does not exist.
pub fn run_alone(name: &str) {
    let mut child = Command::new(std::env::current_exe().expect("the path of the tests"));
    let output = child.args(["--exact", "--ignored", name]).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Returns a duration in milliseconds.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns a duration in nanoseconds.
pub const fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

/// Returns the last nanosecond before `time`, which is not zero.
pub const fn just_before(time: Duration) -> Duration {
    time.saturating_sub(ns(1))
}

/// Returns a linear congruential generator of numbers below the argument, which is at most 2^31.
/// Equal seeds give equal numbers.
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Generator of 64-bit numbers: a hash of the seed and a count, as the emulator draws child seeds.
/// Equal seeds give equal numbers.
#[derive(Debug, Clone)]
pub struct Numbers {
    stream: u64,
    drawn: u64,
}

impl Numbers {
    /// Creates a generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { stream: mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ 2 << 32), drawn: 0 }
    }

    /// Returns the next number below `bound`. The bias of the remainder is negligible.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        mix(self.stream ^ mix(self.drawn.wrapping_add(GOLDEN_GAMMA))) % bound
    }
}

/// The odd integer nearest to 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Applies the output function of `SplitMix64`.
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
