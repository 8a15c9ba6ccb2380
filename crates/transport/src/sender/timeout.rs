//! Timeouts: classifies the cause of a retransmission timeout (congestion, path MTU, closed
//! window), backs off, and aborts the transfer after the give-up time.

use std::time::{Duration, Instant};

use super::congestion::Prior;
use super::path_mtu::PathMtu;
use super::{Sender, State};
use crate::congestion::Cause;
use crate::recovery::{AckOutcome, Expired, LostTo, Timeout};
use crate::wire::native::CloseReason;
use crate::{Trace, TransferError};

/// Time of nothing but ICMP "port unreachable" after which a transfer fails. The error is hard (RFC
/// 1122, section 4.2.3.9), but it can be forged by a host that guesses the ports, and the cause may
/// be temporary.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Smallest number of ICMP errors within [`REFUSED_FOR`].
const MIN_REFUSALS: u64 = 5;

/// Give-up timer: time without an answer from the receiver, and time without progress.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    /// Limit on the time without progress although answers arrive.
    no_progress: Duration,
    /// Time of the last answer that counts, or of the first packet that needs one.
    heard_at: Option<Instant>,
    /// Time of the last delivery, or of the first packet that was not delivered.
    progress_at: Option<Instant>,
    /// ICMP errors since the last packet from the receiver.
    refusals: Option<Refusals>,
}

/// Series of ICMP "port unreachable" errors without a packet from the receiver in between.
#[derive(Debug, Clone, Copy)]
struct Refusals {
    since: Instant,
    reports: u64,
}

impl Patience {
    /// Returns a stopped timer; the transfer is aborted after `limit` without an answer, or after
    /// `no_progress` with answers that acknowledge nothing.
    pub(super) fn new(limit: Duration, no_progress: Duration) -> Self {
        Self { limit, no_progress, heard_at: None, progress_at: None, refusals: None }
    }

    /// Restarts both times: data was delivered, or nothing was outstanding until now.
    pub(super) fn restart(&mut self, now: Instant) {
        self.heard_at = Some(now);
        self.progress_at = Some(now);
    }

    /// Restarts the give-up time: the receiver answered.
    pub(super) fn on_answer(&mut self, now: Instant) {
        self.heard_at = Some(now);
    }

    /// True if nothing was delivered for longer than allowed.
    fn lacks_progress(&self, now: Instant) -> bool {
        self.progress_at.is_some_and(|at| now.saturating_duration_since(at) >= self.no_progress)
    }

    /// Forgets the ICMP errors: a packet arrived from the receiver, or no answer is due.
    pub(super) fn forget_refusals(&mut self) {
        self.refusals = None;
    }

    #[cfg(test)]
    pub(super) fn has_refusals(&self) -> bool {
        self.refusals.is_some()
    }

    /// Returns the time left until the transfer is aborted. No timer of data runs longer.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let silence = self.heard_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.limit.saturating_sub(silence)
    }

    /// Counts `reports` of ICMP errors. Returns true if the transfer must fail.
    fn on_refused(&mut self, now: Instant, reports: u64) -> bool {
        let refusals = self.refusals.get_or_insert(Refusals { since: now, reports: 0 });
        refusals.reports += reports;
        let long = now.saturating_duration_since(refusals.since) >= REFUSED_FOR;
        long && refusals.reports >= MIN_REFUSALS
    }
}

impl Sender {
    /// Returns the presumed cause of a retransmission timeout that fires now.
    fn timeout_cause(&self) -> LostTo {
        if !self.has_room() {
            return LostTo::NoRoom;
        }
        let (board, tried) = (&self.flight.board, self.path.mtu_probe());
        let Some(base) = board.base().filter(|base| tried == Some(base.packet_number)) else {
            return LostTo::Network;
        };
        // Only the probe is missing: data sent after it arrived, or none was sent.
        let alone = self.recovery.repeats_base() || board.in_flight() <= u64::from(base.len);
        if alone { LostTo::Size } else { LostTo::Network }
    }

    pub(super) fn on_data_timeout(&mut self, now: Instant) {
        if self.peer.answered_probe(&self.flight.board) {
            // The last zero-window probe was answered, so the give-up time starts with the next
            // one.
            self.patience.on_answer(now);
        }
        let (lost_to, prior) = (self.timeout_cause(), Prior::of(&self.flight.board, self.peer.window.size()));
        // The back-off ends at the give-up time.
        let next_rto = self.path.rtt.backed_off().min(self.patience.left(now));
        let quiet = AckOutcome::quiet(now, self.path.mss as u64, self.peer.duplicates, self.has_room());
        let timeout = Timeout { rtt: &self.path.rtt, quiet, next_rto, lost_to };
        let (expired, lost) = self.recovery.on_timeout(&timeout, &mut self.flight);
        let refused = lost_to == LostTo::NoRoom && matches!(expired, Expired::Timeout { .. });
        self.on_losses(now, lost, refused);
        match expired {
            Expired::Nothing => {}
            Expired::Episode => self.on_episode(now, Cause::Loss, prior),
            Expired::Exhausted => self.exhaust(now, self.config.attempts.data),
            Expired::Timeout { episode } => {
                self.stats.timeouts += u64::from(self.recovery.marks_losses());
                if episode {
                    self.observers.on(now, &Trace::RecoveryBegan { cause: Cause::Timeout });
                }
                self.path.rtt.on_timeout();
                self.congestion.prr = None;
                self.congestion.undoable = false;
                self.give_up_or_go_on(now);
                if episode && lost_to == LostTo::Network {
                    self.back_down(now, prior);
                }
            }
        }
    }

    /// Responds to a retransmission timeout caused by loss in the network.
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

    /// Fails the transfer after an answer that acknowledged nothing, if none has for too long.
    pub(super) fn limit_no_progress(&mut self, now: Instant) {
        if self.patience.lacks_progress(now) {
            let error = TransferError::NoProgress(self.config.no_progress);
            self.fail_and_close(error, CloseReason::Aborted);
        }
    }

    /// Fails the transfer: the base has reached its limit of attempts or of time.
    fn exhaust(&mut self, now: Instant, attempts: u32) {
        let seq = self.flight.board.snd_una();
        self.observers.on(now, &Trace::AttemptsExhausted { seq });
        self.fail(self.phase(), TransferError::Timeout { packet: seq, attempts });
    }

    /// Handles `reports` of ICMP "port unreachable". Ignored before the handshake, when the
    /// receiver may be about to start, and in a pause, when no answer is due.
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

    /// Handles the timeout of a SYN or FIN.
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
