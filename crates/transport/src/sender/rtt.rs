//! Round-trip estimator and retransmission timeout, as the reference sender keeps them: RFC 6298's gains,
//! but `srtt` is updated before `rttvar`, and `rttvar` counts as at least 10 ms from the first sample on.
//!
//! Knows no packets: which samples are valid (Karn) is the scoreboard's business.

use std::time::Duration;

/// `rttvar` counts as at least this much once data has been acknowledged.
const RTTVAR_FLOOR: Duration = Duration::from_millis(10);

/// `srtt`, `rttvar` and the timeout that follows from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RttEstimator {
    srtt: Duration,
    rttvar: Duration,
    rto: Duration,
}

impl RttEstimator {
    /// Starts from the handshake: `srtt` = R, `rttvar` = R / 2, hence an RTO of exactly 3 R, but not under
    /// `min_rto`.
    pub(crate) fn on_handshake(&mut self, rtt: Duration, min_rto: Duration) {
        self.srtt = rtt;
        self.rttvar = rtt / 2;
        self.rto = (rtt * 3).max(min_rto);
    }

    /// Takes one valid sample.
    pub(crate) fn on_sample(&mut self, rtt: Duration) {
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.rttvar = (self.rttvar * 3 + rtt.abs_diff(self.srtt)) / 4;
        self.rto = self.srtt + self.rttvar.max(RTTVAR_FLOOR) * 4;
    }

    /// Smoothed round-trip time; zero before the handshake.
    pub(crate) fn srtt(&self) -> Duration {
        self.srtt
    }

    /// The retransmission timeout in force.
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked from the formulas in the module's header: sequence, sample in us, srtt, rttvar and RTO in us.
    const ORACLE: &str = include_str!("../../tests/oracles/rto-reference-sender.csv");

    #[test]
    fn rto_follows_the_reference_senders_table() {
        let mut estimator = RttEstimator::default();
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
    fn a_tiny_handshake_rtt_is_raised_to_the_floor() {
        let mut estimator = RttEstimator::default();
        estimator.on_handshake(Duration::from_micros(200), Duration::from_millis(40));
        assert_eq!(estimator.rto(), Duration::from_millis(40));
    }
}
