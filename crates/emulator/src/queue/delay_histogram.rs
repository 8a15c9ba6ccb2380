//! How long packets waited.
//!
//! Owns the distribution, in constant memory. It does not know what the packets waited for.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::time::nanos;

/// The longest time told apart, in nanoseconds; longer ones count as this.
const MAX_DELAY_NS: u64 = 3_600_000_000_000;

/// How long the packets of one link, or of several merged, waited for the serialiser: from their arrival
/// until service began. Those that were dropped do not count.
#[derive(Clone)]
pub struct DelayHistogram {
    histogram: Histogram<u64>,
}

/// No packet.
impl Default for DelayHistogram {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_DELAY_NS, 2).expect("constant bounds are valid");
        Self { histogram }
    }
}

impl DelayHistogram {
    pub(crate) fn record(&mut self, delay: Duration) {
        self.histogram.saturating_record(nanos(delay));
    }

    /// Adds the packets of another link.
    pub fn merge(&mut self, other: &Self) {
        // Both were made with the same bounds.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The delay that the share `q` (0 to 1) of the packets does not exceed, to two digits; zero if there
    /// are none.
    pub fn quantile(&self, q: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(q))
    }

    /// The longest delay, to two digits.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
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
    use crate::testing::ms;

    fn near(actual: Duration, expected: Duration) -> bool {
        actual.abs_diff(expected) <= expected / 100
    }

    #[test]
    fn quantiles_are_right_to_two_digits() {
        let mut delays = DelayHistogram::default();
        (1..=1_000).for_each(|n| delays.record(ms(n)));
        assert_eq!(delays.count(), 1_000);
        assert!(near(delays.quantile(0.5), ms(500)), "{delays:?}");
        assert!(near(delays.quantile(0.99), ms(990)), "{delays:?}");
        assert!(near(delays.max(), ms(1_000)), "{delays:?}");
    }

    #[test]
    fn nobody_and_those_who_did_not_wait_waited_for_nothing() {
        let mut delays = DelayHistogram::default();
        assert_eq!((delays.quantile(0.5), delays.max()), (Duration::ZERO, Duration::ZERO));
        delays.record(Duration::ZERO);
        assert_eq!((delays.count(), delays.quantile(1.0), delays.max()), (1, Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn merging_counts_both_and_longest_delays_saturate() {
        let (mut one, mut two) = (DelayHistogram::default(), DelayHistogram::default());
        one.record(ms(1));
        two.record(Duration::MAX);
        one.merge(&two);
        assert_eq!(one.count(), 2);
        assert!(near(one.max(), Duration::from_secs(3_600)), "{one:?}");
    }
}
