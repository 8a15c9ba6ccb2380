//! RTT and retransmission timeout by one of two rules: RFC 6298 ([`RtoEstimator`]), or that of the
//! classic format's reference sender ([`ReferenceRtt`]), which updates `srtt` before `rttvar` and
//! uses an `rttvar` of at least 10 ms after the first sample.
//!
//! The scoreboard decides which samples are valid (Karn's algorithm).

use std::time::Duration;

use super::rto::{RtoConfig, RtoEstimator, RtoPolicy};

/// Lower limit of `rttvar` in the timeout after the first data sample, nanoseconds.
const RTTVAR_FLOOR: u64 = 10_000_000;

/// Lower limit of the timeout before the first valid sample (RFC 6298, rule 2.1).
const RTO_UNSAMPLED: Duration = Duration::from_secs(1);
/// Lower limit of the timeout before the first valid sample if the SYN was retransmitted (RFC 6298,
/// rule 5.7).
const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Estimator of the reference sender. Values are nanoseconds: there may be a sample for each
/// packet, and integers cost less than `Duration`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReferenceRtt {
    srtt: u64,
    rttvar: u64,
    rto: u64,
}

/// Upper limit of a time, nanoseconds (36 years), so that no sum overflows.
const LONGEST: u64 = u64::MAX / 16;

impl ReferenceRtt {
    /// Starts with the handshake RTT R: `srtt` = R, `rttvar` = R / 2, so the RTO is 3 R, at least
    /// `min_rto`.
    pub(crate) fn on_handshake(&mut self, rtt: Duration, min_rto: Duration) {
        self.srtt = nanos(rtt);
        self.rttvar = self.srtt / 2;
        self.rto = (self.srtt * 3).max(nanos(min_rto));
    }

    pub(crate) fn on_sample(&mut self, rtt: Duration) {
        let rtt = nanos(rtt);
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.rttvar = (self.rttvar * 3 + rtt.abs_diff(self.srtt)) / 4;
        self.rto = self.srtt + self.rttvar.max(RTTVAR_FLOOR) * 4;
    }

    pub(crate) fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(LONGEST, |nanos| nanos.min(LONGEST))
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_field_names, reason = "the names are the RFCs'")]
pub(crate) struct Rtt {
    policy: Policy,
    pub(crate) min_rtt: Option<Duration>,
    quality: RttQuality,
}

/// Reliability of the RTT estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RttQuality {
    /// No estimate: no answer arrived yet.
    Nothing,
    /// At least one valid sample.
    Sampled,
    /// One sample from a handshake without the emulated link that the receiver adds afterwards, or
    /// the RTT assumed for a new path. The next sample replaces it.
    Provisional,
    /// The RTT that an earlier connection measured. Good for timers; the next sample replaces it.
    Remembered,
    /// One ambiguous sample: the SYN was retransmitted, and the answer may belong to any of its
    /// transmissions (Karn). The next sample replaces this one.
    Guessed,
}

#[derive(Debug, Clone)]
enum Policy {
    Reference(ReferenceRtt),
    Rfc6298(RtoEstimator),
}

impl Rtt {
    pub(crate) fn new(policy: RtoPolicy) -> Self {
        let policy = match policy {
            RtoPolicy::Reference => Policy::Reference(ReferenceRtt::default()),
            RtoPolicy::Rfc6298 { min, backoff_max } => {
                Policy::Rfc6298(RtoEstimator::new(RtoConfig { min, backoff_max, ..RtoConfig::default() }))
            }
        };
        Self { policy, min_rtt: None, quality: RttQuality::Nothing }
    }

    /// Starts with the handshake RTT, measured from the last SYN.
    pub(crate) fn on_handshake(&mut self, rtt: Duration, min_rto: Duration, quality: RttQuality) {
        self.min_rtt = (quality == RttQuality::Sampled).then_some(rtt);
        match &mut self.policy {
            Policy::Reference(estimator) => {
                self.quality = RttQuality::Sampled;
                estimator.on_handshake(rtt, min_rto);
            }
            Policy::Rfc6298(estimator) => {
                self.quality = quality;
                estimator.on_sample(rtt);
            }
        }
    }

    /// Adopts the longest delay of the receiver's ACKs: the least margin of timeouts over `srtt`.
    pub(crate) fn set_max_ack_delay(&mut self, delay: Duration) {
        if let Policy::Rfc6298(estimator) = &mut self.policy {
            estimator.set_max_ack_delay(delay);
        }
    }

    /// Processes a valid sample, one of about `samples` per RTT.
    pub(crate) fn on_sample(&mut self, rtt: Duration, samples: u32) {
        if std::mem::replace(&mut self.quality, RttQuality::Sampled) != RttQuality::Sampled
            && let Policy::Rfc6298(estimator) = &mut self.policy
        {
            estimator.forget();
        }
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        match &mut self.policy {
            Policy::Reference(estimator) => estimator.on_sample(rtt),
            Policy::Rfc6298(estimator) => estimator.on_sample_of_many(rtt, samples),
        }
    }

    /// Handles a spurious timeout: the original's ACK arrived after `rtt`.
    pub(crate) fn on_spurious_timeout(&mut self, rtt: Duration) {
        if let Policy::Rfc6298(estimator) = &mut self.policy {
            estimator.on_spurious_timeout(rtt);
        }
    }

    /// Backs off after a timeout; the reference sender does not.
    pub(crate) fn on_timeout(&mut self) {
        if let Policy::Rfc6298(estimator) = &mut self.policy {
            estimator.on_timeout();
        }
    }

    /// Returns the mean deviation of the RTT; zero before the handshake.
    pub(crate) fn rttvar(&self) -> Duration {
        match &self.policy {
            Policy::Reference(estimator) => Duration::from_nanos(estimator.rttvar),
            Policy::Rfc6298(estimator) => estimator.rttvar().unwrap_or_default(),
        }
    }

    /// Returns the smoothed RTT; zero before the handshake.
    pub(crate) fn srtt(&self) -> Duration {
        match &self.policy {
            Policy::Reference(estimator) => Duration::from_nanos(estimator.srtt),
            Policy::Rfc6298(estimator) => estimator.srtt().unwrap_or_default(),
        }
    }

    /// Returns the smoothed RTT; `None` before the first valid sample, unless an earlier connection
    /// measured it.
    pub(crate) fn sampled(&self) -> Option<Duration> {
        matches!(self.quality, RttQuality::Sampled | RttQuality::Remembered).then(|| self.srtt())
    }

    /// True after the first valid sample of this connection.
    pub(crate) fn is_measured(&self) -> bool {
        self.quality == RttQuality::Sampled
    }

    /// Returns the timeout after one more back-off.
    pub(crate) fn backed_off(&self) -> Duration {
        let mut next = self.clone();
        next.on_timeout();
        next.rto()
    }

    pub(crate) fn rto(&self) -> Duration {
        match &self.policy {
            Policy::Reference(estimator) => estimator.rto(),
            Policy::Rfc6298(estimator) => self.at_least(estimator.rto()),
        }
    }

    /// Raises `rto` to the lower limit that holds before the first valid sample.
    fn at_least(&self, rto: Duration) -> Duration {
        rto.max(match self.quality {
            RttQuality::Nothing | RttQuality::Sampled | RttQuality::Remembered => Duration::ZERO,
            RttQuality::Provisional => RTO_UNSAMPLED,
            RttQuality::Guessed => RTO_AFTER_LOST_SYN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked from the formulas in the module's header: sequence, sample in us, srtt, rttvar and
    /// RTO in us.
    const ORACLE: &str = include_str!("../../tests/oracles/rto-reference-sender.csv");

    #[test]
    fn rto_follows_the_reference_senders_table() {
        let mut estimator = ReferenceRtt::default();
        let mut rows = 0;
        for line in ORACLE.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let us = |i: usize| cells[i].parse::<f64>().unwrap() * 1e6;
            let sample = Duration::from_secs_f64(cells[2].parse().unwrap());
            match cells[1] {
                "1" => estimator.on_handshake(sample, Duration::ZERO),
                _ => estimator.on_sample(sample),
            }
            let rto = estimator.rto().as_secs_f64() * 1e6;
            assert!((rto - us(3)).abs() <= 2.0, "{line}: got {rto} us");
            rows += 1;
        }
        assert!(rows > 60, "the table has {rows} rows");
    }

    #[test]
    fn ambiguous_handshake_rtt_is_replaced() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new(RtoPolicy::Rfc6298 { min: ms(200), backoff_max: ms(6000) });
        rtt.on_handshake(ms(20), Duration::ZERO, RttQuality::Guessed);
        assert_eq!((rtt.srtt(), rtt.rto()), (ms(20), RTO_AFTER_LOST_SYN));
        rtt.on_sample(ms(1400), 1);
        assert_eq!((rtt.srtt(), rtt.min_rtt, rtt.rto()), (ms(1400), Some(ms(1400)), ms(4200)));
        let mut rtt = Rtt::new(RtoPolicy::Rfc6298 { min: ms(200), backoff_max: ms(6000) });
        rtt.on_handshake(ms(200), Duration::ZERO, RttQuality::Sampled);
        rtt.on_sample(ms(280), 1);
        assert_eq!((rtt.srtt(), rtt.min_rtt), (ms(210), Some(ms(200))));
    }

    #[test]
    fn provisional_rtt_is_no_sample() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::new(RtoPolicy::Rfc6298 { min: ms(200), backoff_max: ms(6000) });
        rtt.on_handshake(ms(1), Duration::ZERO, RttQuality::Provisional);
        assert_eq!((rtt.srtt(), rtt.min_rtt, rtt.rto()), (ms(1), None, RTO_UNSAMPLED));
        assert_eq!(rtt.sampled(), None);
        rtt.on_sample(ms(600), 1);
        assert_eq!(rtt.sampled(), Some(ms(600)));
        assert_eq!((rtt.srtt(), rtt.min_rtt, rtt.rto()), (ms(600), Some(ms(600)), ms(1800)));
    }

    #[test]
    fn smallest_sample_is_kept() {
        let mut rtt = Rtt::new(RtoPolicy::Reference);
        assert_eq!(rtt.min_rtt, None);
        for ms in [30, 20, 40] {
            rtt.on_sample(Duration::from_millis(ms), 1);
        }
        assert_eq!(rtt.min_rtt, Some(Duration::from_millis(20)));
    }

    #[test]
    fn tiny_handshake_rtt_is_raised_to_minimum() {
        let mut estimator = ReferenceRtt::default();
        estimator.on_handshake(Duration::from_micros(200), Duration::from_millis(40));
        assert_eq!(estimator.rto(), Duration::from_millis(40));
    }
}
