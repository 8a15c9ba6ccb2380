//! RTT estimator and retransmission timeout of RFC 6298.

use std::time::Duration;

/// Clock granularity `G`: lower limit of the term 4 * `rttvar`.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Rule for the retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtoPolicy {
    /// Rule of the classic format's reference sender: gains of RFC 6298, `rttvar` of at least 10
    /// ms, no back-off.
    Reference,
    /// RFC 6298 with its back-off, but other limits.
    Rfc6298 {
        /// Lower limit of the timeout; RFC 6298 has 1 s.
        min: Duration,
        /// Upper limit of the back-off; RFC 6298 has 60 s. A short limit finds a path soon after an
        /// outage.
        backoff_max: Duration,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RtoConfig {
    /// Timeout before the first sample (RFC 6298, rule 2.1).
    pub initial: Duration,
    /// Lower limit. RFC 6298 (rule 2.4) has 1 s; Linux uses 200 ms.
    pub min: Duration,
    /// Upper limit (rule 2.5).
    pub max: Duration,
    /// Upper limit of the back-off, unless the timeout without back-off is longer.
    pub backoff_max: Duration,
    /// Longest delay of an ACK, which the samples do not contain. The timeout exceeds `srtt` by at
    /// least this: otherwise delayed ACKs on a path without jitter are timeouts (RFC 9002, section
    /// 6.2.1, which adds it).
    pub max_ack_delay: Duration,
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(60),
            backoff_max: Duration::from_secs(60),
            max_ack_delay: Duration::ZERO,
        }
    }
}

/// RTT estimator with the number of consecutive timeouts.
#[derive(Debug, Clone)]
pub(crate) struct RtoEstimator {
    config: RtoConfig,
    /// `srtt` and `rttvar`; `None` before the first sample.
    smoothed: Option<(Duration, Duration)>,
    /// Number of timeouts since the last sample; each doubles the timeout.
    backoff: u32,
}

impl RtoEstimator {
    pub(crate) fn new(config: RtoConfig) -> Self {
        Self { config, smoothed: None, backoff: 0 }
    }

    /// Processes a valid sample with the full gains of RFC 6298. Ends the back-off.
    pub(crate) fn on_sample(&mut self, rtt: Duration) {
        self.on_sample_of_many(rtt, 1);
    }

    /// Processes a valid sample when there are about `samples` per RTT (0 counts as 1). The gains
    /// are divided by `samples`, so that the history is as long as with one sample (RFC 7323,
    /// appendix G). Ends the back-off.
    pub(crate) fn on_sample_of_many(&mut self, rtt: Duration, samples: u32) {
        self.backoff = 0;
        let samples = samples.max(1);
        self.smoothed = Some(match self.smoothed {
            None => (rtt, rtt / 2),
            // Rule 2.3: rttvar first, with the old srtt.
            Some((srtt, rttvar)) => {
                let rttvar = weighted(rttvar, rtt.abs_diff(srtt), samples.saturating_mul(4));
                (weighted(srtt, rtt, samples.saturating_mul(8)), rttvar)
            }
        });
    }

    /// Handles a spurious timeout: the original's ACK arrived after `rtt`. Raises the timeout above
    /// that (RFC 4015, section 3.2, step 9). Ends the back-off, as any sample does.
    pub(crate) fn on_spurious_timeout(&mut self, rtt: Duration) {
        self.smoothed = self.smoothed.map(|(srtt, rttvar)| (srtt.max(rtt), rttvar.max(rtt / 2)));
        self.backoff = 0;
    }

    /// Sets the longest delay of an ACK if the samples do not contain ACK delays.
    pub(crate) fn set_max_ack_delay(&mut self, delay: Duration) {
        self.config.max_ack_delay = delay;
    }

    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.config);
    }

    /// Doubles the timeout after it fired (rule 5.5).
    pub(crate) fn on_timeout(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Returns the timeout, back-off included.
    pub(crate) fn rto(&self) -> Duration {
        doubled(self.base_rto(), self.backoff, self.config.backoff_max).min(self.config.max)
    }

    /// Returns the timeout without back-off.
    pub(crate) fn base_rto(&self) -> Duration {
        let rto = match self.smoothed {
            None => self.config.initial,
            Some((srtt, rttvar)) => {
                let margin = (rttvar * 4).max(GRANULARITY).max(self.config.max_ack_delay);
                (srtt + margin).max(self.config.min)
            }
        };
        rto.min(self.config.max)
    }

    /// Returns the smoothed RTT; `None` before the first sample.
    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|(srtt, _)| srtt)
    }

    /// Returns the mean deviation of the RTT; `None` before the first sample.
    pub(crate) fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|(_, rttvar)| rttvar)
    }
}

/// Returns `first`, doubled this number of `times`, up to `longest` (but at least `first`).
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest.max(first))
}

/// Moves `old` towards `new` by 1 / `parts` of the difference.
fn weighted(old: Duration, new: Duration, parts: u32) -> Duration {
    let step = new.abs_diff(old) / parts;
    if new >= old { old + step } else { old.saturating_sub(step) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(text: &str) -> Duration {
        Duration::from_secs_f64(text.parse().unwrap())
    }

    fn near(got: Duration, expected: Duration, line: &str) {
        assert!(got.abs_diff(expected) <= Duration::from_micros(2), "{line}: got {got:?}");
    }

    fn standard() -> RtoEstimator {
        RtoEstimator::new(RtoConfig::default())
    }

    fn with_min(min: Duration) -> RtoEstimator {
        RtoEstimator::new(RtoConfig { min, ..RtoConfig::default() })
    }

    #[test]
    fn every_sequence_of_the_table() {
        const TABLE: &str = include_str!("../../tests/oracles/rto-rfc6298.csv");
        let floors = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1)];
        let mut estimators = floors.map(with_min);
        let mut rows = 0;
        for line in TABLE.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            if cells[1] == "1" {
                estimators = floors.map(with_min);
            }
            for (i, estimator) in estimators.iter_mut().enumerate() {
                estimator.on_sample(secs(cells[2]));
                near(estimator.srtt().unwrap(), secs(cells[3]), line);
                near(estimator.rttvar().unwrap(), secs(cells[4]), line);
                near(estimator.rto(), secs(cells[5 + i]), line);
            }
            rows += 1;
        }
        assert_eq!(rows, 86);
    }

    #[test]
    fn every_back_off_of_the_table() {
        const TABLE: &str = include_str!("../../tests/oracles/rto-backoff.csv");
        let mut estimator = standard();
        let mut rows = 0;
        for line in TABLE.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let (initial, max) = (secs(cells[0]), secs(cells[1]));
            if initial > max {
                // In the table the first wait may exceed its own bound; here the bound holds from
                // the start.
                continue;
            }
            if cells[2] == "1" {
                estimator = RtoEstimator::new(RtoConfig { initial, max, ..RtoConfig::default() });
            }
            near(estimator.rto(), secs(cells[3]), line);
            estimator.on_timeout();
            rows += 1;
        }
        assert_eq!(rows, 135);
    }

    #[test]
    fn timeout_doubles_up_to_sixty_seconds() {
        let mut estimator = standard();
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(estimator.rto(), Duration::from_secs(expected));
            estimator.on_timeout();
        }
        for _ in 0..100 {
            estimator.on_timeout();
        }
        assert_eq!((estimator.rto(), estimator.backoff), (Duration::from_secs(60), 108));
    }

    #[test]
    fn a_sample_ends_the_back_off() {
        let mut estimator = standard();
        let rtt = Duration::from_millis(100);
        estimator.on_sample(rtt);
        assert_eq!(estimator.rto(), Duration::from_millis(300));
        estimator.on_timeout();
        estimator.on_timeout();
        assert_eq!(estimator.rto(), Duration::from_millis(1200));
        assert_eq!(estimator.base_rto(), Duration::from_millis(300));
        estimator.on_sample(rtt);
        // rttvar is 37.5 ms now.
        assert_eq!(estimator.rto(), Duration::from_millis(250));
    }

    #[test]
    fn spurious_timeout_raises_timeout() {
        let mut estimator = standard();
        for _ in 0..50 {
            estimator.on_sample(Duration::from_millis(100));
        }
        assert_eq!(estimator.rto(), Duration::from_millis(200));
        let late = Duration::from_millis(400);
        estimator.on_timeout();
        // One of many samples per RTT hardly changes it.
        estimator.on_sample_of_many(late, 50);
        assert!(estimator.rto() < late);
        estimator.on_spurious_timeout(late);
        assert_eq!(estimator.rto(), Duration::from_millis(400 + 4 * 200));
        assert_eq!(estimator.backoff, 0);
    }

    /// Round trips of 996 ms without deviation, and ACKs that may be 25 ms late.
    #[test]
    fn timeout_covers_delay_of_acks() {
        let config = RtoConfig { backoff_max: Duration::from_secs(1), ..RtoConfig::default() };
        let mut estimator = RtoEstimator::new(config);
        (0..50).for_each(|_| estimator.on_sample(Duration::from_millis(996)));
        assert_eq!(estimator.rto(), Duration::from_millis(997));
        estimator.set_max_ack_delay(Duration::from_millis(25));
        assert_eq!(estimator.rto(), Duration::from_millis(1021));
        estimator.on_timeout();
        assert_eq!(estimator.rto(), Duration::from_millis(1021), "longer than the limit of the back-off");
    }

    #[test]
    fn timeout_is_capped_at_maximum() {
        let mut estimator = standard();
        estimator.on_sample(Duration::from_secs(50));
        assert_eq!(estimator.rto(), Duration::from_secs(60));
    }

    #[test]
    fn many_samples_per_rtt_weigh_as_one() {
        // From 100 to 200 ms: one sample moves srtt to 112.5 ms; n samples of 1/(8n) to
        // 200 - 100 * (1 - 1/(8n))^n, which is 111.8 ms for n = 50.
        let (mut one, mut many) = (standard(), standard());
        one.on_sample(Duration::from_millis(100));
        many.on_sample(Duration::from_millis(100));
        one.on_sample(Duration::from_millis(200));
        for _ in 0..50 {
            many.on_sample_of_many(Duration::from_millis(200), 50);
        }
        assert_eq!(one.srtt(), Some(Duration::from_micros(112_500)));
        let expected = 200.0 - 100.0 * (1.0 - 1.0 / 400_f64).powi(50);
        near(many.srtt().unwrap(), Duration::from_secs_f64(expected / 1000.0), "fifty samples");
    }
}
