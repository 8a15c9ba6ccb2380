//! BBR version 3 (draft-ietf-ccwg-bbr): a path model (bandwidth, minimum RTT, inflight bounds) and
//! a state machine of seven phases that sends by the model and keeps it current.
//!
//! Names (`set_cwnd` is the draft's `SetCwnd`) and order of steps are the draft's; each file quotes
//! the section it implements.
//!
//! | file | owns |
//! |---|---|
//! | `bbr.rs` | controller and order of steps |
//! | `startup.rs`, `resume.rs` | `Startup` and `Drain`; `Startup` that ended too early |
//! | `long_start.rs` | `Startup` on long paths (deviation) |
//! | `probe_bw.rs` | `ProbeBW_DOWN`, `CRUISE`, `REFILL`, `UP`, long-term bound |
//! | `probe_rtt.rs` | `ProbeRTT`, restart from idle |
//! | `control.rs` | pacing rate, send quantum and window computed from the model |
//! | `undo.rs` | state saved before a loss, restored if the loss was spurious |
//! | `rounds.rs` | packet-timed rounds and their loss signals |
//! | `full_bw.rs`, `max_filter.rs`, `min_rtt.rs` | full-pipe detection, windowed filters |
//! | `aggregation.rs`, `bounds.rs` | ACK aggregation; bounds set by loss |
//! | `base_loss.rs` | loss that is not congestion (deviation) |
//! | `math.rs` | integer arithmetic |
//!
//! The deviations from the draft, each with a switch in [`BbrConfig`] and its reasons in the file:
//!
//! | deviation | file |
//! |---|---|
//! | base loss rate | `base_loss.rs` |
//! | confirmation of the minimum RTT | `min_rtt.rs` |
//! | tripling in `Startup` | `startup.rs` |
//! | resumption of `Startup` | `resume.rs` |
//! | packet trains in `Startup` on long paths | `long_start.rs` |
//! | pacing-limited rounds do not lower the bandwidth | `bounds.rs` |
//! | loss in `ProbeBW_DOWN` is measured against its pace | `bounds.rs` |
//! | loss of `REFILL`'s packets does not end a probe | `probe_bw.rs` |
//! | half the pacing margin | `control.rs` |
//!
//! `take_over.rs` adds bandwidth that another connection has left.
//!
//! The draft does not specify a response to ECN. Here CE marks count as unexplained loss and end a
//! probe (`probe_bw.rs`).

mod aggregation;
mod base_loss;
mod bounds;
mod control;
mod full_bw;
mod long_start;
mod math;
mod max_filter;
mod min_rtt;
mod probe_bw;
mod probe_rtt;
mod resume;
mod rounds;
mod startup;
mod take_over;
mod undo;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::aggregation::ExtraAcked;
use self::base_loss::{BaseLoss, queue_is_empty};
use self::bounds::{Bounds, Latest};
use self::control::initial_pacing_rate;
use self::full_bw::FullBandwidth;
use self::math::mul_div;
use self::max_filter::MaxBwFilter;
use self::min_rtt::MinRtt;
use self::probe_bw::Cycle;
use self::probe_rtt::ProbeRtt;
use self::resume::Resume;
use self::rounds::{LossRound, Rounds};
use self::startup::Start;
use self::undo::{Recovery, Undo};
use super::{AckEvent, Cause, CongestionEvent, Controller, LostPacket, RateSample, TrainRate};

/// `BBR.LossThresh` = 2 %, in parts per million.
const LOSS_THRESH: u64 = 20_000;
/// `BBR.MinPipeCwnd`, in segments.
const MIN_PIPE_SEGMENTS: u64 = 4;

/// Initial values of a [`Bbr`], and switches of the deviations from the draft.
#[expect(clippy::struct_excessive_bools, reason = "each switches one deviation, apart from the others")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BbrConfig {
    /// Bytes of stream in a full segment.
    pub mss: u64,
    /// Initial window, bytes (RFC 6928: ten segments).
    pub initial_cwnd: u64,
    /// Window that an earlier connection found, bytes; 0 for none.
    pub known_window: u64,
    /// Handshake RTT, if known; paces the initial window.
    pub initial_rtt: Option<Duration>,
    /// Seed of the pseudo-random waits between probes.
    pub seed: u64,
    /// True to estimate the loss that does not depend on the rate; only the excess counts as
    /// congestion.
    pub base_loss: bool,
    /// True to skip `ProbeRTT` while samples confirm the minimum RTT.
    pub confirm_min_rtt: bool,
    /// True to triple (not double) the rate each round of `Startup` until there is a queue or loss.
    pub fast_startup: bool,
    /// True to estimate the bandwidth of a long path with packet trains.
    pub long_start: bool,
    /// True to keep the bandwidth after a lossy round that delivered as fast as it was paced.
    pub skip_pacing_limited: bool,
    /// True to divide what a lossy round of `ProbeBW_DOWN` delivered by its pacing gain.
    pub discount_down_gain: bool,
    /// True to keep a probe after loss detected in the first round of `ProbeBW_UP`.
    pub skip_refill_loss: bool,
    /// True to pace 0.5 % below the bandwidth instead of 1 %.
    pub narrow_pacing_margin: bool,
}

impl BbrConfig {
    /// Returns a configuration with all deviations on and the handshake RTT unknown.
    pub(crate) fn new(mss: u64, initial_cwnd: u64, seed: u64) -> Self {
        Self {
            mss,
            initial_cwnd,
            known_window: 0,
            initial_rtt: None,
            seed,
            base_loss: true,
            confirm_min_rtt: true,
            fast_startup: true,
            long_start: true,
            skip_pacing_limited: true,
            discount_down_gain: true,
            skip_refill_loss: true,
            narrow_pacing_margin: true,
        }
    }

    /// Returns this configuration with all deviations off.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn without_deviations(self) -> Self {
        Self {
            base_loss: false,
            confirm_min_rtt: false,
            fast_startup: false,
            long_start: false,
            skip_pacing_limited: false,
            discount_down_gain: false,
            skip_refill_loss: false,
            narrow_pacing_margin: false,
            ..self
        }
    }
}

/// Phases of the draft's "State Transition Diagram".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl State {
    fn in_probe_bw(self) -> bool {
        matches!(self, Self::ProbeBwDown | Self::ProbeBwCruise | Self::ProbeBwRefill | Self::ProbeBwUp)
    }

    /// `IsProbingBW`.
    fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::ProbeBwRefill | Self::ProbeBwUp)
    }
}

/// BBR controller.
#[derive(Debug)]
pub(crate) struct Bbr {
    config: BbrConfig,
    state: State,
    rounds: Rounds,
    max_bw: MaxBwFilter,
    /// `BBR.bw`, bytes per second: `max_bw` within the short-term bound.
    bw: u64,
    min_rtt: MinRtt,
    full_bw: FullBandwidth,
    extra_acked: ExtraAcked,
    loss_round: LossRound,
    bounds: Bounds,
    base_loss: BaseLoss,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    start: Start,
    undo: Undo,
    resume: Resume,
    recovery: Recovery,
    cwnd: u64,
    pacing_rate: u64,
}

/// ACK that delivered data.
struct Ack<'a> {
    event: &'a AckEvent,
    sample: RateSample,
}

impl Ack<'_> {
    fn latest(&self) -> Latest {
        Latest { bw: self.sample.delivery_rate, inflight: self.sample.delivered }
    }
}

impl Bbr {
    /// Returns a controller in `Startup` (`OnInit`).
    pub(crate) fn new(mut config: BbrConfig) -> Self {
        if config.long_start {
            config.initial_cwnd *= long_start::initial_windows(config.initial_rtt);
        }
        let first = config.initial_cwnd.max(config.known_window);
        Self {
            config,
            state: State::Startup,
            rounds: Rounds::default(),
            max_bw: MaxBwFilter::default(),
            bw: 0,
            min_rtt: MinRtt::new(config.confirm_min_rtt),
            full_bw: FullBandwidth::default(),
            extra_acked: ExtraAcked::default(),
            loss_round: LossRound::default(),
            bounds: Bounds::default(),
            base_loss: BaseLoss::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            start: Start::new(&config),
            undo: Undo::default(),
            resume: Resume::default(),
            recovery: Recovery::default(),
            cwnd: first,
            pacing_rate: initial_pacing_rate(first, config.initial_rtt),
        }
    }

    /// Returns the estimated bandwidth of the path, bytes per second (`BBR.max_bw`).
    #[cfg(test)]
    pub(crate) fn max_bw(&self) -> u64 {
        self.max_bw.max()
    }

    /// Returns the bound on the bytes in flight set by excessive loss (`BBR.inflight_longterm`).
    #[cfg(test)]
    pub(crate) fn inflight_longterm(&self) -> Option<u64> {
        Some(self.bounds.inflight_longterm).filter(|&bound| bound != math::UNBOUNDED)
    }

    /// Returns the base loss rate of the path, parts per million of the bytes sent.
    pub(crate) fn base_loss_ppm(&self) -> u64 {
        if self.config.base_loss { self.base_loss.ppm(self.config.mss) } else { 0 }
    }

    fn update_model_and_state(&mut self, ack: &Ack<'_>) {
        let AckEvent { now, acked, lost, delivered, .. } = *ack.event;
        self.loss_round.count(acked, lost, ack.event.in_recovery());
        self.loss_round.update(ack.latest(), ack.sample.prior_delivered, delivered);
        self.update_max_bw(ack);
        self.adapt_lower_bounds();
        self.observe_base_loss(ack);
        self.extra_acked.on_ack(now, acked, self.bw, self.cwnd, self.rounds.count);
        self.check_full_bw_reached(ack);
        self.check_startup_done(ack);
        self.check_drain_done(ack.event);
        self.check_end_of_startup(ack);
        self.update_probe_bw_cycle_phase(ack);
        self.min_rtt.update(now, ack.event.latest_rtt);
        self.check_probe_rtt(ack);
        self.loss_round.advance(ack.latest());
        self.bw = self.max_bw.max().min(self.bounds.bw_shortterm);
    }

    fn update_max_bw(&mut self, ack: &Ack<'_>) {
        if self.rounds.update(ack.sample.prior_delivered) {
            self.cycle.on_round();
        }
        let rate = ack.sample.delivery_rate;
        if rate > 0 && (rate >= self.max_bw.max() || !ack.sample.app_limited) {
            self.max_bw.update(rate);
        }
    }

    /// Responds to congestion once a round outside probes (`AdaptLowerBoundsFromCongestion`). CE
    /// marks always count; loss counts if the base loss rate does not explain it.
    fn adapt_lower_bounds(&mut self) {
        if !self.loss_round.over || !self.loss_round.congested || self.state.probes_bandwidth() {
            return;
        }
        let tally = self.loss_round.tally;
        if self.loss_round.marked || tally.lost > self.explained_loss(tally.acked + tally.lost) {
            let latest = self.discount_down_gain(self.discount_pacing_limited(self.loss_round.latest));
            self.bounds.lower(latest, self.max_bw.max(), self.cwnd);
        }
    }

    /// Samples the base loss rate while the queue is empty.
    fn observe_base_loss(&mut self, ack: &Ack<'_>) {
        let AckEvent { acked, lost, .. } = *ack.event;
        let startup = self.state == State::Startup;
        if self.loss_round.over && !startup {
            self.base_loss.on_round(self.config.mss);
        }
        let slow = !self.cycle.awaits_feedback() && self.state != State::ProbeBwUp;
        if let (Some(rtt), Some(min_rtt)) = (ack.event.latest_rtt, self.min_rtt.get())
            && (slow || startup)
            && queue_is_empty(rtt, min_rtt)
        {
            self.base_loss.on_empty_queue_ack(acked, lost);
        }
    }

    /// True if a test at half the rate should show whether loss depends on the rate.
    fn wants_loss_test(&self, now: Instant) -> bool {
        self.config.base_loss && self.base_loss.wants_test(now, self.config.mss)
    }

    /// Returns the bytes of loss among `sent` bytes that are no sign of congestion.
    fn explained_loss(&self, sent: u64) -> u64 {
        if self.config.base_loss { self.base_loss.explained(sent, self.config.mss) } else { 0 }
    }

    /// Returns the bytes of loss among `sent` bytes that a probe tolerates.
    fn tolerated_loss(&self, sent: u64) -> u64 {
        mul_div(sent, LOSS_THRESH, math::PPM) + self.explained_loss(sent)
    }

    fn is_inflight_too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        lost > self.tolerated_loss(tx_in_flight)
    }

    fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_SEGMENTS * self.config.mss
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64, app_limited: bool) {
        if in_flight <= bytes && app_limited {
            self.restart_from_idle(now);
        }
    }

    fn on_ack(&mut self, event: &AckEvent) {
        self.extra_acked.way_back = event.way_back;
        self.rounds.delivered = event.delivered;
        self.on_rtt_known(event);
        self.track_recovery(event);
        match event.rate {
            Some(sample) => {
                let mut ack = Ack { event, sample };
                ack.sample.app_limited |= self.probe_rtt.limits(&sample);
                self.update_model_and_state(&ack);
            }
            None => self.loss_round.count(event.acked, event.lost, event.in_recovery()),
        }
        self.set_pacing_rate();
        self.apply_min_pacing_rate(event.srtt);
        self.set_cwnd(event);
    }

    fn on_train(&mut self, rate: TrainRate) {
        self.take_train(rate);
    }

    fn on_packet_lost(&mut self, lost: &LostPacket) {
        // The draft's text saves the state when recovery begins, its pseudocode in each round of
        // recovery. The latter would overwrite the phase that the loss ended.
        if self.loss_round.note(self.rounds.delivered) && self.recovery == Recovery::None {
            self.save_state_upon_loss();
        }
        if self.state == State::Startup {
            self.resume.lost_in_startup += lost.bytes;
        }
        self.probe_met_loss(lost);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        if self.loss_round.note(self.rounds.delivered) || event.cause == Cause::Timeout {
            self.save_state_upon_loss();
        }
        match event.cause {
            Cause::Loss => {}
            Cause::Ecn => {
                self.loss_round.marked = true;
                self.probe_met_mark(event);
            }
            Cause::Timeout => self.on_timeout(),
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        self.handle_spurious_loss();
    }

    fn take_over(&mut self, rate: u64, srtt: Duration) {
        self.add_bandwidth(rate, srtt);
    }

    fn on_mss(&mut self, mss: u64) {
        self.config.mss = mss;
        self.cwnd = self.cwnd.max(mss);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn train(&self) -> u64 {
        self.train_bytes()
    }

    fn uses_prr(&self) -> bool {
        false
    }

    fn phase(&self) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::ProbeBwDown => "probe_bw_down",
            State::ProbeBwCruise => "probe_bw_cruise",
            State::ProbeBwRefill => "probe_bw_refill",
            State::ProbeBwUp => "probe_bw_up",
            State::ProbeRtt => "probe_rtt",
        }
    }
}
