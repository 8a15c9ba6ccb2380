//! "Saving State Upon Loss Recovery", "Handling a Spurious Loss Recovery", "Modulating cwnd in Loss Recovery".

use super::bounds::Bounds;
use super::{AckEvent, Bbr, State};

/// What a loss that was none gives back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    /// The phase that the loss ended (`BBR.undo_state`).
    pub(super) state: Option<State>,
    bounds: Bounds,
}

/// Where recovery from loss stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Nothing is to be recovered.
    #[default]
    None,
    /// Fast recovery.
    Fast,
    /// A timeout took the window, which is still to be given back.
    Timeout,
}

impl Bbr {
    /// `SaveStateUponLoss`.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo { state: None, bounds: self.bounds };
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn handle_spurious_loss(&mut self) {
        self.recovery = Recovery::None;
        self.restore_cwnd();
        self.loss_round.congested = false;
        self.full_bw.reset(0);
        let Undo { state, bounds } = std::mem::take(&mut self.undo);
        self.bounds.restore(&bounds);
        match state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw.set_reached(false);
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }

    /// `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery != Recovery::None || self.state == State::ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// `OnEnterRTO`: after a timeout nothing counts as in flight, so that one segment may go. The state was
    /// saved.
    pub(super) fn on_timeout(&mut self) {
        self.cwnd = self.config.mss;
        self.recovery = Recovery::Timeout;
        self.rounds.restart(self.delivered);
    }

    /// Gives the window from before back when recovery is over. After a timeout that takes a round: one
    /// segment was sent, and until something sent later has arrived there is no telling.
    pub(super) fn track_recovery(&mut self, event: &AckEvent) {
        let over = match self.recovery {
            Recovery::None => false,
            Recovery::Fast => !event.in_recovery(),
            Recovery::Timeout => !event.in_recovery() && self.rounds.starts() && event.rate.is_some(),
        };
        if over {
            self.recovery = Recovery::None;
            self.restore_cwnd();
        } else if event.in_recovery() && self.recovery == Recovery::None {
            self.recovery = Recovery::Fast;
        }
    }
}
