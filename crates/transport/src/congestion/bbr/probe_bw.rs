//! "ProbeBW": DOWN, CRUISE, REFILL, UP, and the long-term bound found by probing.
//!
//! Deviation, switched by `skip_refill_loss` of [`BbrConfig`](super::BbrConfig): loss detected in
//! the first round of `UP` does not end the probe. The ACKs of that round are of packets that
//! `REFILL` sent at the estimated bandwidth. The draft counts their loss, too ("`REFILL` or
//! `UP`"). Beside a flow that keeps the queue full, as `BBRv1` does, packets are lost at any
//! rate. By the draft a probe then ends before one packet sent at 1.25 of the bandwidth is
//! acknowledged, and the estimate cannot rise. A probe into a full queue thus lasts at most one
//! round longer.

use std::time::{Duration, Instant};

use super::bounds::BETA;
use super::math::{PPM, UNBOUNDED, draw, gain, mul_div};
use super::{Ack, AckEvent, Bbr, CongestionEvent, LOSS_THRESH, LostPacket, State};

/// Smallest wall-clock time between probes; a random time of up to 1 s is added.
const MIN_PROBE_WAIT: Duration = Duration::from_secs(2);
/// Upper limit of the wait in rounds that matches Reno's growth.
const MAX_RENO_ROUNDS: u64 = 63;
/// Largest number of doublings of the long-term bound's growth.
const MAX_UP_ROUNDS: u32 = 30;

/// Probing phase that the arriving ACKs belong to (`BBR.ack_phase`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// `BBR.cycle_stamp`.
    began: Option<Instant>,
    /// `BBR.bw_probe_wait`.
    wait: Duration,
    rounds_since_probe_up: u64,
    draws: u64,
    /// True if ACKs may still cover data of a probe that has had no excessive loss
    /// (`is_bw_probe_sample`).
    probe_sample: bool,
    prev_too_high: bool,
    prev_precautionary: bool,
    up_rounds: u32,
    up_acked: u64,
    up_acked_per_inc: u64,
}

impl Cycle {
    pub(super) fn on_round(&mut self) {
        self.rounds_since_probe_up += 1;
    }

    /// True if the acknowledged data may have been sent above the bandwidth.
    pub(super) fn awaits_feedback(&self) -> bool {
        !matches!(self.ack_phase, AckPhase::Init | AckPhase::Refilling)
    }

    /// Ends the probe; its ACKs may still arrive.
    pub(super) fn stop_probing(&mut self) {
        self.ack_phase = AckPhase::ProbeStopping;
    }

    /// `PickProbeWait`: 2 to 3 s, and a random offset of 0 or 1 rounds.
    fn pick_wait(&mut self, seed: u64) {
        self.rounds_since_probe_up = draw(seed, self.draws, 2);
        self.wait = MIN_PROBE_WAIT + Duration::from_micros(draw(seed, self.draws + 1, 1_000_001));
        self.draws += 2;
    }
}

impl Bbr {
    pub(super) fn start_probe_bw_down(&mut self, now: Instant) {
        self.loss_round.reset();
        self.cycle.up_acked_per_inc = UNBOUNDED;
        self.cycle.pick_wait(self.config.seed);
        self.cycle.began = Some(now);
        self.cycle.stop_probing();
        self.base_loss.on_cycle(self.config.mss);
        self.rounds.restart();
        self.state = State::ProbeBwDown;
    }

    pub(super) fn start_probe_bw_refill(&mut self) {
        self.bounds.reset_short_term();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.prev_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.restart();
        self.state = State::ProbeBwRefill;
    }

    fn start_probe_bw_up(&mut self, ack: &Ack<'_>) {
        self.cycle.probe_sample = true;
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.rounds.restart();
        self.full_bw.reset(ack.sample.delivery_rate);
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self, ack: &Ack<'_>) {
        if !self.full_bw.reached || self.adapt_long_term_model(ack) {
            return;
        }
        let AckEvent { now, in_flight, .. } = *ack.event;
        let state = self.state;
        match state {
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_probe_bw(now) => {
                self.start_probe_bw_refill();
            }
            State::ProbeBwDown if self.is_time_to_cruise(in_flight) => self.state = State::ProbeBwCruise,
            State::ProbeBwRefill if self.rounds.starts => self.start_probe_bw_up(ack),
            State::ProbeBwUp if self.is_time_to_go_down(ack) => {
                self.cycle.prev_too_high = false;
                self.start_probe_bw_down(now);
            }
            _ => {}
        }
    }

    fn is_time_to_probe_bw(&self, now: Instant) -> bool {
        let waited = self.cycle.began.is_none_or(|began| now > began + self.cycle.wait);
        let reno_rounds = (self.target_inflight() / self.config.mss).min(MAX_RENO_ROUNDS);
        waited || self.cycle.rounds_since_probe_up >= reno_rounds
    }

    fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_bw.max())
    }

    fn is_time_to_go_down(&mut self, ack: &Ack<'_>) -> bool {
        if self.cycle.prev_too_high && ack.event.in_flight >= self.bounds.inflight_longterm {
            self.cycle.prev_precautionary = true;
            return true;
        }
        if ack.event.cwnd_limited && self.cwnd >= self.bounds.inflight_longterm {
            self.full_bw.reset(ack.sample.delivery_rate);
        }
        self.full_bw.now
    }

    /// Adapts the upper bounds to the result of a bandwidth probe (`AdaptLongTermModel`). Returns
    /// true if the phase changed.
    fn adapt_long_term_model(&mut self, ack: &Ack<'_>) -> bool {
        let round_starts = self.rounds.starts;
        if self.cycle.ack_phase == AckPhase::ProbeStarting && round_starts {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && round_starts {
            self.cycle.probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.state.in_probe_bw() {
                if !ack.sample.app_limited {
                    self.max_bw.advance();
                }
                if self.cycle.prev_precautionary && !self.cycle.prev_too_high {
                    self.start_probe_bw_refill();
                    return true;
                }
            }
        }
        if self.bounds.inflight_longterm != UNBOUNDED
            && !self.is_inflight_too_high(ack.sample.lost, ack.sample.tx_in_flight)
        {
            self.bounds.inflight_longterm = self.bounds.inflight_longterm.max(ack.sample.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward(ack.event);
            }
        }
        false
    }

    fn probe_inflight_longterm_upward(&mut self, event: &AckEvent) {
        if !event.cwnd_limited || self.cwnd < self.bounds.inflight_longterm {
            return;
        }
        self.cycle.up_acked += event.acked;
        let steps = self.cycle.up_acked / self.cycle.up_acked_per_inc;
        self.cycle.up_acked -= steps * self.cycle.up_acked_per_inc;
        self.bounds.inflight_longterm += steps * self.config.mss;
        if self.rounds.starts {
            self.raise_inflight_longterm_slope();
        }
    }

    /// `RaiseInflightLongtermSlope`: one segment in the first round, two in the next, four, ...
    fn raise_inflight_longterm_slope(&mut self) {
        self.cycle.up_acked_per_inc = (self.cwnd >> self.cycle.up_rounds).max(self.config.mss);
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_UP_ROUNDS);
    }

    /// `HandleLostPacket`, "Probing for Bandwidth In `ProbeBW`".
    pub(super) fn probe_met_loss(&mut self, lost: &LostPacket) {
        if !self.cycle.probe_sample
            || self.skips_refill_loss()
            || !self.is_inflight_too_high(lost.lost_since_sent, lost.tx_in_flight)
        {
            return;
        }
        self.cycle.prev_too_high = true;
        self.cycle.probe_sample = false;
        if !lost.app_limited {
            self.bounds.inflight_longterm =
                self.inflight_at_loss(lost).max(gain(self.target_inflight(), BETA));
        }
        if self.state == State::ProbeBwUp {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down(lost.now);
        }
    }

    /// True while loss is of packets sent in `REFILL`, which does not end the probe.
    fn skips_refill_loss(&self) -> bool {
        self.config.skip_refill_loss && self.cycle.ack_phase == AckPhase::ProbeStarting
    }

    /// Ends a probe on a CE mark, as excessive loss does, at most once per RTT. The draft does not
    /// specify this; a marking queue has no room for the data in flight. `Startup` continues until
    /// the pipe is full, because a queue may mark the first bursts, but stops tripling
    /// (`startup.rs`).
    pub(super) fn probe_met_mark(&mut self, event: &CongestionEvent) {
        if self.state == State::ProbeBwUp && self.cycle.probe_sample {
            self.cycle.prev_too_high = true;
            self.cycle.probe_sample = false;
            self.bounds.inflight_longterm = event.flight_size.max(gain(self.target_inflight(), BETA));
            self.start_probe_bw_down(event.now);
        }
    }

    /// `InflightAtLoss`: bytes in flight at which loss exceeded the tolerance, interpolated within
    /// the lost packet.
    pub(super) fn inflight_at_loss(&self, lost: &LostPacket) -> u64 {
        let inflight_prev = lost.tx_in_flight.saturating_sub(lost.bytes);
        let lost_prev = lost.lost_since_sent.saturating_sub(lost.bytes);
        let budget = self.tolerated_loss(inflight_prev).saturating_sub(lost_prev);
        inflight_prev + mul_div(budget, PPM, PPM - LOSS_THRESH).min(lost.bytes)
    }
}

#[cfg(test)]
impl Cycle {
    /// Postpones the next probe.
    pub(super) fn delay(&mut self, now: Instant) {
        self.began = Some(now);
        self.rounds_since_probe_up = 0;
    }
}
