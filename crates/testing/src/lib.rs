//! Internal part of rdt: helpers for the tests of all crates. An origin of test times, durations,
//! repeatable random numbers, and [packets] as bytes.
#![forbid(unsafe_code)]
#![allow(clippy::missing_panics_doc, reason = "a test fails by panicking")]

pub mod packets;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::{Command, Output};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Arbitrary origin of test times; only differences from it matter.
#[expect(
    clippy::disallowed_methods,
    reason = "the only constructor of Instant; no test depends on its value"
)]
pub fn epoch() -> Instant {
    Instant::now()
}

/// Says that a test is skipped, and why. If `RDT_SKIPPED` names a file, a line is added to it, so
/// that a run of all tests can tell at its end what it has not tested.
pub fn skipped(why: impl Display) {
    eprintln!("skipped: {why}");
    let Some(path) = std::env::var_os("RDT_SKIPPED") else { return };
    let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) else { return };
    let line = format!("test {}: {why}", thread::current().name().unwrap_or("?")).replace('\n', " ");
    // The test has told its reason above.
    let _ = file.write_all((line + "\n").as_bytes());
}

/// Runs an ignored test in a process of its own, because it changes its process. `name` has the
/// modules.
pub fn run_alone(name: &str) {
    let output = output_alone(name);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn output_alone(name: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("the path of the tests"));
    child.args(["--exact", "--ignored", name]).output().expect("a process")
}

/// Limit on descriptors below the open ones, so that none can be opened. For tests that
/// [run alone](run_alone).
#[cfg(unix)]
#[derive(Debug)]
pub struct NoDescriptors {
    before: Rlimit,
}

#[cfg(unix)]
impl NoDescriptors {
    /// Lowers the limit until the drop.
    #[expect(clippy::new_without_default, reason = "it changes the process")]
    pub fn new() -> Self {
        let before = getrlimit(Resource::Nofile);
        let lowered = Rlimit { current: Some(3), ..before };
        setrlimit(Resource::Nofile, lowered).expect("a lower limit");
        Self { before }
    }
}

#[cfg(unix)]
impl Drop for NoDescriptors {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

/// Time limit of a test on real sockets, many times what it needs on a busy host.
const TEST_LIMIT: Duration = Duration::from_secs(300);

/// Aborts the test program with a message if the test that holds it runs for more than five
/// minutes: a lost wake-up then fails instead of keeping the run waiting.
#[derive(Debug)]
pub struct Watchdog {
    /// Its drop ends the watching thread.
    _end: Sender<()>,
}

impl Watchdog {
    /// Watches the calling test.
    #[expect(clippy::new_without_default, reason = "it starts a thread")]
    pub fn new() -> Self {
        Self::with_limit(TEST_LIMIT)
    }

    fn with_limit(limit: Duration) -> Self {
        let (end, ended) = channel();
        // The test harness names the thread by its test.
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // The harness keeps back what `eprintln` prints.
                let _ = writeln!(std::io::stderr(), "{test} still runs after {limit:?}");
                std::process::abort();
            }
        });
        Self { _end: end }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_ends_hanging_test() {
        let output = output_alone("tests::hanging_test");
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("tests::hanging_test still runs after 1ms"), "{text}");
    }

    #[test]
    #[ignore = "run by another test"]
    fn hanging_test() {
        let _watchdog = Watchdog::with_limit(ms(1));
        loop {
            thread::park();
        }
    }

    #[test]
    fn watchdog_spares_test_that_has_ended() {
        drop(Watchdog::with_limit(ms(50)));
        thread::park_timeout(ms(200));
    }
}
