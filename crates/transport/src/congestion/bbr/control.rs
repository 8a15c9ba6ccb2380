//! "Updating Control Parameters": computes pacing rate, send quantum and window from the model.

use std::time::Duration;

use super::math::{PPM, UNBOUNDED, gain, mul_div, volume};
use super::{AckEvent, Bbr, State};

/// 1 - `BBR.PacingMarginPercent`, in thousandths.
const PACING_MARGIN: u64 = 990;
/// Half of the margin in [`PACING_MARGIN`]: a deviation. The margin drains the queue that the
/// bandwidth estimate, a maximum, would keep. `ProbeBW_DOWN` and `Drain` end without a queue, so
/// little is left to drain in `CRUISE`, most of a transfer. Without ACK aggregation the estimate is
/// 0.1 % too high.
const NARROW_PACING_MARGIN: u64 = 995;
/// `BBR.StartupPacingGain`, in thousandths: doubles the rate each round.
const STARTUP_PACING_GAIN: u64 = 2770;
/// Triples the rate each round, in thousandths; see `startup.rs`.
const TRIPLE_PACING_GAIN: u64 = 6000;
/// Window gain while the rate triples, in thousandths.
const TRIPLE_CWND_GAIN: u64 = 4000;
/// Pacing gain of `ProbeBW_DOWN`, in thousandths.
pub(super) const DOWN_PACING_GAIN: u64 = 900;
/// `BBR.ProbeRTTCwndGain`, in thousandths.
const PROBE_RTT_CWND_GAIN: u64 = 500;
/// RTT assumed before the first sample.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// Largest send quantum, bytes.
const MAX_QUANTUM: u64 = 64 << 10;

/// `InitPacingRate`: bytes per second.
pub(super) fn initial_pacing_rate(initial_cwnd: u64, rtt: Option<Duration>) -> u64 {
    let rtt = rtt.filter(|rtt| !rtt.is_zero()).unwrap_or(NOMINAL_RTT);
    let nanos = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
    mul_div(gain(initial_cwnd, STARTUP_PACING_GAIN), 1_000_000_000, nanos)
}

impl Bbr {
    /// `BBR.pacing_gain` of the phase, thousandths.
    fn pacing_gain(&self) -> u64 {
        match self.state {
            State::Startup if self.triples() => TRIPLE_PACING_GAIN,
            State::Startup => STARTUP_PACING_GAIN,
            State::Drain => 500,
            State::ProbeBwDown => DOWN_PACING_GAIN,
            State::ProbeBwCruise | State::ProbeBwRefill | State::ProbeRtt => 1000,
            State::ProbeBwUp => 1250,
        }
    }

    /// `BBR.cwnd_gain` of the phase, thousandths.
    fn cwnd_gain(&self) -> u64 {
        match self.state {
            State::Startup if self.triples() => TRIPLE_CWND_GAIN,
            State::ProbeBwUp => 2250,
            State::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => 2000,
        }
    }

    /// Replaces the assumed RTT in the initial pacing rate by the first sample.
    pub(super) fn on_rtt_known(&mut self, event: &AckEvent) {
        if self.config.initial_rtt.is_none() && !event.srtt.is_zero() {
            self.config.initial_rtt = Some(event.srtt);
            self.pacing_rate = initial_pacing_rate(self.config.initial_cwnd, Some(event.srtt));
        }
    }

    pub(super) fn set_pacing_rate(&mut self) {
        self.set_pacing_rate_with_gain(self.pacing_gain());
    }

    /// `SetPacingRateWithGain`. The rate only rises until the pipe has been full once.
    pub(super) fn set_pacing_rate_with_gain(&mut self, pacing_gain: u64) {
        let below = if self.config.narrow_pacing_margin { NARROW_PACING_MARGIN } else { PACING_MARGIN };
        let rate = self.before_base_loss(mul_div(self.bw, pacing_gain * below, 1_000_000));
        if let Some(rate) = self.clamp_to_trains(rate) {
            self.pacing_rate = rate;
        } else if self.bw > 0 && (self.full_bw.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// Raises the pacing rate to at least one segment per RTT. The bandwidth measured across
    /// timeout back-offs is close to zero and would delay retransmissions.
    pub(super) fn apply_min_pacing_rate(&mut self, srtt: Duration) {
        let nanos = u64::try_from(srtt.as_nanos()).unwrap_or(u64::MAX);
        if nanos > 0 {
            self.pacing_rate = self.pacing_rate.max(mul_div(self.config.mss, 1_000_000_000, nanos));
        }
    }

    /// Returns the bytes to send so that `delivered` bytes arrive. The model's bandwidth counts
    /// delivered bytes only; to fill the link, the base loss is added.
    fn before_base_loss(&self, delivered: u64) -> u64 {
        mul_div(delivered, PPM, PPM - self.base_loss_ppm())
    }

    /// Returns the largest batch, bytes (`SetSendQuantum`): 1 ms of the pacing rate.
    pub(crate) fn send_quantum(&self) -> u64 {
        (self.pacing_rate / 1000).min(MAX_QUANTUM).max(2 * self.config.mss)
    }

    /// Returns the bandwidth-delay product at `bw`, bytes (`BDPMultiple(1.0)`), including the
    /// expected base loss.
    pub(super) fn bdp(&self, bw: u64) -> u64 {
        match self.min_rtt.get() {
            Some(min_rtt) => self.before_base_loss(volume(bw, min_rtt)),
            None => self.config.initial_cwnd,
        }
    }

    /// Returns the bytes that arrived and whose ACKs wait on their way back. They fill no queue
    /// before the receiver. Only the largest window counts them: where the ends of `Drain` and
    /// `ProbeBW_DOWN` did, too, a connection with data both ways over 100 and 1 Mbit/s at 10 ms had
    /// 59 Mbit/s forward instead of 67.
    fn acknowledged_on_way_back(&self, bw: u64) -> u64 {
        self.before_base_loss(volume(bw, self.extra_acked.way_back))
    }

    /// Returns `Inflight(1.0)` at `bw`, bytes.
    pub(super) fn inflight(&self, bw: u64) -> u64 {
        self.quantization_budget(self.bdp(bw))
    }

    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(self.bw).min(self.cwnd)
    }

    pub(super) fn inflight_with_headroom(&self) -> u64 {
        self.bounds.with_headroom(self.config.mss, self.min_pipe_cwnd())
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        gain(self.bdp(self.bw), PROBE_RTT_CWND_GAIN).max(self.min_pipe_cwnd())
    }

    fn quantization_budget(&self, inflight_cap: u64) -> u64 {
        let cap = inflight_cap.max(self.send_quantum()).max(self.min_pipe_cwnd());
        if self.state == State::ProbeBwUp { cap + 2 * self.config.mss } else { cap }
    }

    /// `UpdateMaxInflight`.
    pub(super) fn max_inflight(&self) -> u64 {
        let multiple = gain(self.bdp(self.bw), self.cwnd_gain());
        self.quantization_budget(
            multiple + self.acknowledged_on_way_back(self.bw) + self.extra_acked.bytes(self.full_bw.reached),
        )
    }

    pub(super) fn set_cwnd(&mut self, event: &AckEvent) {
        let max_inflight = self.max_inflight();
        if self.full_bw.reached {
            self.cwnd = (self.cwnd + event.acked).min(max_inflight);
        } else if self.cwnd < max_inflight || event.delivered < self.config.initial_cwnd {
            let growth = if self.triples() { 2 } else { 1 };
            self.cwnd += event.acked * growth;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd()).max(self.train_window());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            State::ProbeBwCruise | State::ProbeRtt => self.inflight_with_headroom(),
            state if state.in_probe_bw() => self.bounds.inflight_longterm,
            _ => UNBOUNDED,
        };
        let cap = cap.min(self.bounds.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap);
    }
}
