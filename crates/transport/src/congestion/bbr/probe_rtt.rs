//! "ProbeRTT": halves the data in flight for 200 ms to measure the RTT of an empty path. Also
//! "Restarting From Idle", since an idle period empties the path, too.
//!
//! Deviation: the probe also tests whether loss depends on the rate. It is made for that alone if
//! over 1/8 is lost (`base_loss.rs`).

use std::time::{Duration, Instant};

use super::{Ack, Bbr, RateSample, State};

/// `BBR.ProbeRTTDuration`.
const DURATION: Duration = Duration::from_millis(200);

/// State of the current probe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProbeRtt {
    /// `BBR.probe_rtt_done_stamp`.
    done_at: Option<Instant>,
    round_done: bool,
    /// Samples up to this value of `delivered` are limited by the probe.
    limited_until: u64,
    /// True from a restart after an idle period, which empties the path, too, to the next sample.
    idle_restart: bool,
}

impl ProbeRtt {
    /// True if the sampled packet was sent during a probe (`MarkConnectionAppLimited`).
    pub(super) fn limits(&self, sample: &RateSample) -> bool {
        self.limited_until > 0 && sample.prior_delivered <= self.limited_until
    }
}

impl Bbr {
    pub(super) fn check_probe_rtt(&mut self, ack: &Ack<'_>) {
        let tests = self.full_bw.reached && self.wants_loss_test(ack.event.now);
        if self.state != State::ProbeRtt && (self.min_rtt.probe_due || tests) && !self.probe_rtt.idle_restart
        {
            self.base_loss.on_test_begins(ack.event.now, self.config.mss);
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt.done_at = None;
            self.probe_rtt.round_done = false;
            self.cycle.stop_probing();
            self.rounds.restart();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if self.probe_rtt.round_done && self.probe_rtt.limits(&ack.sample) {
            self.base_loss.on_test_ack(ack.event.acked, ack.event.lost, self.config.mss);
        }
        if ack.sample.delivered > 0 {
            self.probe_rtt.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ack: &Ack<'_>) {
        self.probe_rtt.limited_until = (self.rounds.delivered + ack.event.in_flight).max(1);
        if self.probe_rtt.done_at.is_none() {
            if ack.event.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt.done_at = Some(ack.event.now + DURATION);
                self.probe_rtt.round_done = false;
                self.rounds.restart();
            }
            return;
        }
        self.probe_rtt.round_done |= self.rounds.starts;
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done(ack.event.now);
        }
    }

    /// `CheckProbeRTTDone`, `ExitProbeRTT`.
    fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.done_at.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.probed(now);
        self.restore_cwnd();
        self.bounds.reset_short_term();
        if self.full_bw.reached {
            self.start_probe_bw_down(now);
            self.state = State::ProbeBwCruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// `HandleRestartFromIdle`.
    pub(super) fn restart_from_idle(&mut self, now: Instant) {
        self.probe_rtt.idle_restart = true;
        self.extra_acked.restart(now);
        if self.state.in_probe_bw() {
            self.set_pacing_rate_with_gain(1000);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
}
