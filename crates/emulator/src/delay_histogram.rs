//! Histogram of delays in constant memory.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::time::nanos;

/// Longest delay that a histogram distinguishes: 1 h, in nanoseconds. Longer delays count as 1 h.
const MAX_DELAY_NS: u64 = 3_600_000_000_000;

/// Distribution of delays, to two significant decimal digits.
///
/// [`Link::queue_delays`](crate::Link::queue_delays) returns one of the times from the arrival of a
/// packet to the start of its serialisation, without dropped packets. The programs use another for
/// the lateness of deliveries.
#[derive(Clone)]
pub struct DelayHistogram {
    histogram: Histogram<u64>,
}

impl Default for DelayHistogram {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_DELAY_NS, 2).expect("constant bounds are valid");
        Self { histogram }
    }
}

impl DelayHistogram {
    /// Adds the delay of one packet.
    pub fn record(&mut self, delay: Duration) {
        self.histogram.saturating_record(nanos(delay));
    }

    /// Adds the delays of another histogram.
    pub fn merge(&mut self, other: &Self) {
        // All histograms have the same bounds, so this cannot fail.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Returns the number of packets whose delays were added.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the quantile `q` (0 to 1) of the delays, to two digits. Zero if there are none.
    pub fn quantile(&self, q: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(q))
    }

    /// Returns the longest delay, to two digits. Zero if the histogram is empty.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
    }

    /// Returns the number of packets whose delay exceeds `limit`. Delays that equal `limit` in the
    /// first two digits may or may not count.
    pub fn longer_than(&self, limit: Duration) -> u64 {
        self.histogram.count_between(nanos(limit).saturating_add(1), u64::MAX)
    }
}

impl fmt::Debug for DelayHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayHistogram")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ms;

    fn near(actual: Duration, expected: Duration) -> bool {
        actual.abs_diff(expected) <= expected / 100
    }

    #[test]
    fn quantiles_are_exact_to_two_digits() {
        let mut delays = DelayHistogram::default();
        (1..=1_000).for_each(|n| delays.record(ms(n)));
        assert_eq!(delays.count(), 1_000);
        assert!(near(delays.quantile(0.5), ms(500)), "{delays:?}");
        assert!(near(delays.quantile(0.99), ms(990)), "{delays:?}");
        assert!(near(delays.max(), ms(1_000)), "{delays:?}");
    }

    #[test]
    fn empty_histogram_and_zero_delay_are_zero() {
        let mut delays = DelayHistogram::default();
        assert_eq!((delays.quantile(0.5), delays.max()), (Duration::ZERO, Duration::ZERO));
        delays.record(Duration::ZERO);
        assert_eq!((delays.count(), delays.quantile(1.0), delays.max()), (1, Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn longer_than_excludes_the_limit_itself() {
        let mut delays = DelayHistogram::default();
        for nanos in [0, 1, 100, 102] {
            delays.record(Duration::from_nanos(nanos));
        }
        assert_eq!([0, 1, 100].map(|n| delays.longer_than(Duration::from_nanos(n))), [3, 2, 1]);
    }

    #[test]
    fn merge_adds_counts_and_saturates() {
        let (mut one, mut two) = (DelayHistogram::default(), DelayHistogram::default());
        one.record(ms(1));
        two.record(Duration::MAX);
        one.merge(&two);
        assert_eq!(one.count(), 2);
        assert!(near(one.max(), Duration::from_secs(3_600)), "{one:?}");
    }
}
