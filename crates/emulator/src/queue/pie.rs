//! PIE, Proportional Integral controller Enhanced: RFC 8033.
//!
//! The link knows the queueing delay exactly, so the estimation of section 5.2 is not needed.
//!
//! Of the optional elements of section 5, ECN marks (5.1) and the cap on the adjustment (5.5) are
//! implemented. The controller is always active (not 5.3). Draws are independent (not 5.4), so that
//! the share of dropped packets equals the probability.

use std::time::{Duration, Instant};

use crate::Ecn;
use crate::packet::Service;
use crate::probability::Probability;
use crate::queue::Signal;
use crate::queue::aqm::{Aqm, Arrival};
use crate::queue::notation::Parameters;
use crate::time::{nanos, saturating_add};
use crate::units::{NotationError, UnitError, parse_duration, write_duration};

/// Settings of PIE. The defaults are those of RFC 8033.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PieConfig {
    /// Target queueing delay, `QDELAY_REF` in the RFC: 15 ms by default.
    pub target: Duration,
    /// Interval between updates of the drop probability, `T_UPDATE` in the RFC: 15 ms by default,
    /// at least [`PieConfig::MIN_TUPDATE`].
    pub tupdate: Duration,
    /// Time for which a burst into an uncongested queue is not dropped, `MAX_BURST`: 150 ms by
    /// default.
    pub max_burst: Duration,
    /// Increase of the drop probability at each update for each second of queueing delay above the
    /// target, in 1/s: 1/8 by default.
    pub alpha: f64,
    /// Increase of the drop probability at each update for each second by which the queueing delay
    /// increased since the last update, in 1/s: 1 + 1/4 by default.
    pub beta: f64,
    /// True if ECN-capable packets are marked instead while the drop probability is below 10 %.
    pub ecn: bool,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(15),
            max_burst: Duration::from_millis(150),
            alpha: 0.125,
            beta: 1.25,
            ecn: false,
        }
    }
}

impl PieConfig {
    /// Shortest interval between updates: 100 us.
    pub const MIN_TUPDATE: Duration = Duration::from_micros(100);
}

impl PieConfig {
    /// Returns these settings changed by `parameters`.
    pub(super) fn read(mut self, parameters: &mut Parameters<'_>) -> Result<Self, NotationError> {
        parameters.quantity("target", parse_duration, &mut self.target)?;
        parameters.quantity("tupdate", parse_duration, &mut self.tupdate)?;
        parameters.quantity("burst", parse_duration, &mut self.max_burst)?;
        parameters.quantity("alpha", parse_gain, &mut self.alpha)?;
        parameters.quantity("beta", parse_gain, &mut self.beta)?;
        parameters.flag("ecn", &mut self.ecn)?;
        if self.tupdate < Self::MIN_TUPDATE {
            let reason = format!("it must be at least {}", write_duration(Self::MIN_TUPDATE));
            return Err(parameters.refuse("tupdate", reason));
        }
        Ok(self)
    }

    /// Returns the text of all parameters.
    pub(super) fn write(&self) -> String {
        let Self { alpha, beta, .. } = self;
        let [target, tupdate, burst] = [self.target, self.tupdate, self.max_burst].map(write_duration);
        let ecn = if self.ecn { ",ecn" } else { "" };
        format!("target={target},tupdate={tupdate},burst={burst},alpha={alpha},beta={beta}{ecn}")
    }
}

/// Parses a gain in 1/s: a finite number of at least zero.
fn parse_gain(input: &str) -> Result<f64, UnitError> {
    let malformed = || UnitError::Malformed { input: input.to_owned(), expected: "a number such as 0.125" };
    let value: f64 = input.trim().parse().map_err(|_| malformed())?;
    if value.is_finite() && value >= 0.0 { Ok(value.abs()) } else { Err(malformed()) }
}

/// State variables of RFC 8033, section 4, under their names there.
#[derive(Debug)]
pub(super) struct Pie {
    config: PieConfig,
    /// Drop probability, from 0 to 1.
    drop_prob: f64,
    /// Queueing delay at the last update.
    qdelay_old: Duration,
    burst_allowance: Duration,
    /// Time of the next update. `None` before the first packet.
    next_update: Option<Instant>,
    /// Start and end of service of the last admitted packet. `None` before the first.
    last_service: Option<(Instant, Instant)>,
}

/// Below this drop probability ECN-capable packets are marked: `mark_ecnth` in section 5.1.
const MARK_ECNTH: f64 = 0.1;
/// If the backlog is not more than two packets of this size, no packet is dropped: `MEAN_PKTSIZE`
/// in section 4.1. RFC 8033 gives no value; this one is from RFC 8034, appendix A.
const MEAN_PKTSIZE_BYTES: u64 = 1_024;
/// Limit on the updates made at once after a pause between packets. This number of updates with
/// an empty queue decays the probability to zero, so earlier ones have no effect.
const MAX_CATCH_UP_UPDATES: u64 = 4_096;

impl Pie {
    pub(super) fn new(config: PieConfig) -> Self {
        let tupdate = config.tupdate.max(PieConfig::MIN_TUPDATE);
        Self {
            config: PieConfig { tupdate, ..config },
            drop_prob: 0.0,
            qdelay_old: Duration::ZERO,
            burst_allowance: config.max_burst,
            next_update: None,
            last_service: None,
        }
    }

    /// Returns the signal for a packet that arrives at `now` behind `backlog` waiting bytes. `None`
    /// if the packet is neither dropped nor marked.
    fn signal(&mut self, now: Instant, backlog: u64, ecn: Ecn, draw: u64) -> Option<Signal> {
        self.catch_up(now);
        if !self.burst_allowance.is_zero() || !self.drops_early(backlog, draw) {
            return None;
        }
        let is_marked = self.config.ecn && ecn.is_capable() && self.drop_prob < MARK_ECNTH;
        Some(if is_marked { Signal::Mark } else { Signal::Drop })
    }

    /// Decides at random whether to drop a packet: not if delay or backlog is small (section 4.1).
    fn drops_early(&self, backlog: u64, draw: u64) -> bool {
        let is_short = self.qdelay_old < self.config.target / 2 && self.drop_prob < 0.2;
        if is_short || backlog <= 2 * MEAN_PKTSIZE_BYTES {
            return false;
        }
        Probability::new(self.drop_prob).is_some_and(|probability| probability.happens(draw))
    }

    /// Makes all updates due by `now`, each with the queueing delay at its own time. The first is
    /// due an interval after the first packet.
    fn catch_up(&mut self, now: Instant) {
        let tupdate = self.config.tupdate;
        let mut at = self.next_update.unwrap_or_else(|| saturating_add(now, tupdate));
        let due = nanos(now.saturating_duration_since(at)) / nanos(tupdate);
        if let Some(skipped) = due.checked_sub(MAX_CATCH_UP_UPDATES) {
            at = saturating_add(at, Duration::from_nanos(skipped * nanos(tupdate)));
        }
        while at <= now {
            self.update(self.waiting_time(at));
            let next = saturating_add(at, tupdate);
            if next == at {
                // `at` is the platform's last instant: the loop would not end.
                break;
            }
            at = next;
        }
        self.next_update = Some(at);
    }

    /// Returns the queueing delay of a packet arriving at `at`. Zero if no packet waits then.
    fn waiting_time(&self, at: Instant) -> Duration {
        match self.last_service {
            Some((start, end)) if start > at => end.saturating_duration_since(at),
            _ => Duration::ZERO,
        }
    }

    /// Updates drop probability and burst allowance (sections 4.2, 4.4 and 5.5).
    fn update(&mut self, qdelay: Duration) {
        let PieConfig { target, tupdate, max_burst, alpha, beta, .. } = self.config;
        let difference = |a: Duration, b: Duration| a.as_secs_f64() - b.as_secs_f64();
        let mut change = alpha * difference(qdelay, target) + beta * difference(qdelay, self.qdelay_old);
        change *= scale(self.drop_prob);
        if self.drop_prob >= 0.1 {
            change = change.min(0.02);
        }
        self.drop_prob += change;
        if qdelay.is_zero() && self.qdelay_old.is_zero() {
            self.drop_prob *= 0.98;
        }
        // A gain of NaN makes the probability NaN, which this line turns into 0.
        self.drop_prob = if self.drop_prob > 0.0 { self.drop_prob.min(1.0) } else { 0.0 };

        let is_calm = qdelay < target / 2 && self.qdelay_old < target / 2;
        self.burst_allowance = if self.drop_prob <= 0.0 && is_calm {
            max_burst
        } else {
            self.burst_allowance.saturating_sub(tupdate)
        };
        self.qdelay_old = qdelay;
    }
}

impl Aqm for Pie {
    fn on_enqueue(&mut self, arrival: &Arrival) -> Option<Signal> {
        self.signal(arrival.now, arrival.backlog, arrival.ecn, arrival.draw())
    }

    fn on_scheduled(&mut self, service: Service) {
        self.last_service = Some((service.start, service.end));
    }
}

/// Returns the factor on the adjustment, below 1 while the probability is small (section 4.2).
fn scale(drop_prob: f64) -> f64 {
    let steps =
        [(0.000_001, 2_048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];
    steps.iter().find(|(below, _)| drop_prob < *below).map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

#[cfg(test)]
mod tests;
