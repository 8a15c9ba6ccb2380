//! "Saving State Upon Loss Recovery", "Handling a Spurious Loss Recovery", "Modulating cwnd in Loss
//! Recovery".

use super::bounds::Bounds;
use super::{AckEvent, Bbr, State};

/// State restored after a spurious loss.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    /// Phase that the loss ended (`BBR.undo_state`).
    pub(super) state: Option<State>,
    bounds: Bounds,
    /// Window before the recovery or the probe of the RTT.
    prior_cwnd: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Recovery {
    /// No recovery.
    #[default]
    None,
    /// Fast recovery: ACKs revealed a loss.
    Fast,
    /// Recovery from a timeout; the window has not been restored yet.
    Timeout,
}

impl Bbr {
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo { state: None, bounds: self.bounds, ..self.undo };
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn handle_spurious_loss(&mut self) {
        self.recovery = Recovery::None;
        self.restore_cwnd();
        self.loss_round.congested = false;
        self.full_bw.reset(0);
        let Undo { state, bounds, prior_cwnd } = self.undo;
        self.undo = Undo { prior_cwnd, ..Undo::default() };
        self.bounds.restore(&bounds);
        match state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }

    pub(super) fn save_cwnd(&mut self) {
        self.undo.prior_cwnd = if self.recovery != Recovery::None || self.state == State::ProbeRtt {
            self.undo.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.undo.prior_cwnd);
    }

    /// `OnEnterRTO`: sets the window to one segment; after a timeout no data counts as in flight.
    /// The caller has saved the state.
    pub(super) fn on_timeout(&mut self) {
        self.cwnd = self.config.mss;
        self.recovery = Recovery::Timeout;
        self.rounds.restart();
    }

    /// Restores the window at the end of recovery. Recovery from a timeout lasts at least until a
    /// round ends, because only then has a packet sent after the timeout been delivered.
    pub(super) fn track_recovery(&mut self, event: &AckEvent) {
        let over = match self.recovery {
            Recovery::None => false,
            Recovery::Fast => !event.in_recovery(),
            Recovery::Timeout => !event.in_recovery() && self.rounds.starts && event.rate.is_some(),
        };
        if over {
            self.recovery = Recovery::None;
            self.restore_cwnd();
        } else if event.in_recovery() && self.recovery == Recovery::None {
            self.recovery = Recovery::Fast;
        }
    }
}
