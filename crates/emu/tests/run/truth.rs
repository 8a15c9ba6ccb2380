//! Rate and RTT of a real link against the requested ones. The bounds are loose because other
//! programs use the host; bench `ladder` measures exactly, with tight bounds for `--check`.

use super::helpers::program;
use super::rungs::{self, Measurement, percentile};
use super::running::host_allows;

/// Rate of the link, Mbit/s.
const RATE: f64 = 50.0;
/// Number of attempts, of which one must succeed, because a busy host can only worsen the result.
const TRIES: usize = 4;

/// Program at one end of the link; the environment has its task.
#[test]
#[ignore = "a program for other tests"]
fn inside() {
    let (role, bps) = rungs::role().unwrap();
    rungs::inside(&role, bps);
}

fn holds(rung: impl Fn() -> Measurement) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let rung = rung();
        let (rate, excess) = (rung.rate(), percentile(&rung.excess(RATE), 50));
        seen.push((rate, excess));
        assert!(excess > -100.0, "faster than the link: {seen:?}");
        if (rate / RATE - 1.0).abs() < 0.05 && excess < 5_000.0 {
            return;
        }
        // If the emulator's own packets are late, the host is too busy.
        if rung.forward["lateness_ns"]["p99"].as_f64().is_some_and(|late| late > 20_000_000.0) {
            eprintln!("the host is busy: {}", rung.forward);
        }
    }
    panic!("Mbit/s of {RATE}, us over the round trip: {seen:?}");
}

#[test]
fn proxy_has_requested_rate_and_rtt() {
    holds(|| rungs::proxied(RATE, "sleep"));
}

#[test]
fn namespace_has_requested_rate_and_rtt() {
    if host_allows() {
        holds(|| rungs::in_namespace(RATE, "sleep", &program("truth::inside").join(" ")));
    }
}
