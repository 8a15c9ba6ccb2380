//! Arithmetic on [`Instant`] that saturates instead of panicking.

use std::time::{Duration, Instant};

/// Returns `at + by`, or the platform's last instant if the sum is beyond it.
///
/// Monotonic in both arguments, so packets whose times saturate stay in order.
pub(crate) fn saturating_add(at: Instant, by: Duration) -> Instant {
    at.checked_add(by).unwrap_or_else(|| last_instant(at))
}

/// Returns the nanoseconds from `origin` to `at`: 0 if `at` is earlier, at most 584 years.
pub(crate) fn nanos_since(origin: Instant, at: Instant) -> u64 {
    nanos(at.saturating_duration_since(origin))
}

pub(crate) const fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64)
}

/// Finds the platform's last instant, starting at `from`.
///
/// The standard library has no constant for it. The search adds every power of two that does not
/// overflow, in descending order: seconds below 2^64, then nanoseconds below 2^30.
#[cold]
fn last_instant(from: Instant) -> Instant {
    let seconds = (0..u64::BITS).rev().map(|bit| Duration::from_secs(1 << bit));
    let nanoseconds = (0..30).rev().map(|bit| Duration::from_nanos(1 << bit));
    seconds.chain(nanoseconds).fold(from, |reached, step| reached.checked_add(step).unwrap_or(reached))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{epoch, ms, ns};

    #[test]
    fn adds_exactly_when_the_sum_exists() {
        let at = epoch();
        assert_eq!(saturating_add(at, ms(5)), at + ms(5));
    }

    #[test]
    fn nanos_are_exact_and_saturate() {
        let at = epoch();
        assert_eq!(nanos_since(at, at + Duration::new(3, 7)), 3_000_000_007);
        assert_eq!(nanos_since(at + ms(1), at), 0);
        assert_eq!(nanos(Duration::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }

    #[test]
    fn add_saturates_at_last_instant() {
        let at = epoch();
        let last = saturating_add(at, Duration::MAX);
        assert_eq!(last.checked_add(ns(1)), None);
        assert_eq!(saturating_add(at + ns(123_456_789), Duration::MAX), last);
        assert_eq!(saturating_add(last, ns(1)), last);
    }
}
