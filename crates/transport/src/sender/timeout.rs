//! Timeouts: classifies the cause of a retransmission timeout (congestion, path MTU, full
//! receiver), backs off, and gives the receiver up.

use std::time::{Duration, Instant};

use super::path_mtu::PathMtu;
use super::{Prior, Sender, State};
use crate::congestion::Cause;
use crate::recovery::{Expired, LostTo, Timeout};
use crate::{Trace, TransferError};

/// An open transfer ends once ICMP reported for this long that the port is closed, with nothing
/// from the receiver meanwhile. The error is hard (RFC 1122, section 4.2.3.9), but anybody who
/// guesses the ports can forge it, and a path may reject for a moment what it lets through again.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Reports that this takes at least.
const MIN_REFUSALS: u64 = 5;

/// How long a silent receiver is waited for.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// When the receiver was last heard of, or began to owe an answer.
    heard_at: Option<Instant>,
    /// Refusals reported since then.
    refusals: Option<Refusals>,
}

/// ICMP reports that the port is closed.
#[derive(Debug, Clone, Copy)]
struct Refusals {
    since: Instant,
    reports: u64,
}

impl Patience {
    /// A receiver that owes an answer for `limit` is given up.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, heard_at: None, refusals: None }
    }

    /// The receiver was heard of, or begins to owe an answer.
    pub(super) fn restart(&mut self, now: Instant) {
        self.heard_at = Some(now);
    }

    /// A packet came from the receiver, or none is awaited.
    pub(super) fn forget_refusals(&mut self) {
        self.refusals = None;
    }

    #[cfg(test)]
    pub(super) fn has_refusals(&self) -> bool {
        self.refusals.is_some()
    }

    /// Time left until the receiver is given up: no timer of data is later.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let silence = self.heard_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.limit.saturating_sub(silence)
    }

    /// Takes `reports` that the port is closed; true if they end the transfer.
    fn on_refused(&mut self, now: Instant, reports: u64) -> bool {
        let refusals = self.refusals.get_or_insert(Refusals { since: now, reports: 0 });
        refusals.reports += reports;
        let long = now.saturating_duration_since(refusals.since) >= REFUSED_FOR;
        long && refusals.reports >= MIN_REFUSALS
    }
}

impl Sender {
    /// The cause of a retransmission timeout that fires now.
    fn timeout_cause(&self) -> LostTo {
        if !self.has_room() {
            return LostTo::NoRoom;
        }
        let (board, tried) = (&self.flight.board, self.path.mtu_probe());
        let Some(base) = board.base().filter(|base| tried == Some(base.packet_number)) else {
            return LostTo::Network;
        };
        // What left after it was heard of.
        let alone = self.recovery.repeats_base() || board.in_flight() <= u64::from(base.len);
        if alone { LostTo::Size } else { LostTo::Network }
    }

    /// A timer of data is due.
    pub(super) fn on_data_timeout(&mut self, now: Instant) {
        if self.peer.answered_probe(&self.flight.board) {
            // The next zero-window probe leaves: nothing was owed until now.
            self.patience.restart(now);
        }
        let (lost_to, prior) = (self.timeout_cause(), self.prior());
        // The timer backs off, but not beyond the time at which the receiver is given up.
        let next_rto = self.path.rtt.backed_off().min(self.patience.left(now));
        let timeout = Timeout { rtt: &self.path.rtt, quiet: self.quiet_outcome(now), next_rto, lost_to };
        let (expired, lost) = self.recovery.on_timeout(&timeout, &mut self.flight);
        let refused = lost_to == LostTo::NoRoom && matches!(expired, Expired::Timeout { .. });
        self.on_losses(now, lost, refused);
        match expired {
            Expired::Nothing => {}
            Expired::Episode => self.on_episode(now, prior),
            Expired::Exhausted => self.exhaust(now, self.config.attempts.data),
            Expired::Timeout { episode } => {
                self.stats.timeouts += u64::from(self.recovery.marks_losses());
                if episode {
                    self.observers.on(now, &Trace::RecoveryBegan { cause: Cause::Timeout });
                }
                self.path.rtt.on_timeout();
                self.congestion.prr = None;
                self.give_up_or_go_on(now);
                if episode && lost_to == LostTo::Network {
                    self.back_down(now, prior);
                }
            }
        }
    }

    /// Answers a retransmission timeout that the network is to blame for.
    fn back_down(&mut self, now: Instant, prior: Prior) {
        self.path.ecn.on_timeout(self.flight.next_number());
        if self.path.mtu.as_mut().is_some_and(PathMtu::on_timeout) {
            self.resize();
        }
        self.slow_down(now, Cause::Timeout, prior);
    }

    fn give_up_or_go_on(&mut self, now: Instant) {
        if self.patience.left(now).is_zero() {
            let attempts = self.flight.board.base().map_or(0, |base| u32::from(base.sent_count));
            self.exhaust(now, attempts);
        }
    }

    /// The base was sent as often, or for as long, as it may be.
    fn exhaust(&mut self, now: Instant, attempts: u32) {
        let seq = self.flight.board.snd_una();
        self.observers.on(now, &Trace::AttemptsExhausted { seq });
        self.fail(self.phase(), TransferError::Timeout { packet: seq, attempts });
    }

    /// The network reported so often that the receiver's port is closed. Before the receiver was
    /// heard of at all it may be about to start; in a pause nothing is awaited, so silence says
    /// nothing.
    pub(super) fn on_refused(&mut self, now: Instant, reports: u64) {
        if self.state != State::Open {
            return;
        }
        if self.is_idle() {
            self.patience.forget_refusals();
        } else if self.patience.on_refused(now, reports) {
            self.fail(self.phase(), TransferError::Gone);
        }
    }

    /// The timer of a SYN or FIN is due.
    pub(super) fn on_control_timeout(&mut self, now: Instant) {
        let limit = self.config.attempts.syn;
        let silent = self.handshake.elapsed(now) >= self.config.handshake_give_up;
        match self.state {
            State::Opening { attempts, .. } if attempts >= limit || silent => {
                self.fail(self.phase(), TransferError::Timeout { packet: 0, attempts });
            }
            State::Opening { attempts, sent_at, .. } => {
                self.state = State::Opening { attempts, sent_at, send: true };
            }
            State::Open if self.handshake.awaits_params() => self.handshake.on_params_timeout(),
            State::Open => self.on_fin_timeout(now),
            State::Idle | State::Aborting { .. } | State::Closed => {}
        }
    }
}
