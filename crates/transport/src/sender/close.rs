//! Ends of a stream: FIN and FIN-ACK, invalid ACKs, or timeouts. In
//! the native format the FIN follows the last data at once. While data is outstanding, the timers
//! of data cover the FIN, and ACKs show whether it arrived. When all data is acknowledged, the FIN
//! has its own timer.
//!
//! A retransmission timeout is classified by its cause (congestion, path MTU, closed window) and
//! backs off, or ends the transfer after the give-up time.

use std::time::{Duration, Instant};

use super::congestion::Prior;
use super::path_mtu::PathMtu;
use super::{Sender, SenderEvent, State};
use crate::congestion::Cause;
use crate::recovery::{AckOutcome, Expired, LostTo, Timeout};
use crate::wire::{Ack, DataHeader};
use crate::{PacketKind, Trace, TransferError, TransmitBuf};

/// Divisor of `srtt`. A FIN-ACK is late if it comes `srtt` / 4 after the last ACK: the initial
/// reordering window (RFC 8985, section 6.2).
const FIN_ACK_REORDERING_DIVISOR: u32 = 4;

/// Longest interval of FINs that the receiver answers, or the RTO if that is longer. The receiver
/// repeats a lost FIN-ACK for 2 s only, so four FINs must fit.
const ANSWERED_FIN_INTERVAL: Duration = Duration::from_millis(500);

/// Number of invalid ACKs after which a native sender ends the transfer. No path turns a valid ACK
/// into one that passes the check, but a defect of a receiver may.
const MAX_INVALID_ACKS: u64 = 100;

/// State of the FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closing {
    /// FINs sent since the receiver's last answer (or since all data is acknowledged). Compared
    /// with the attempt limit.
    pub(super) unanswered: u32,
    /// All FINs sent since all data is acknowledged. Sets the back-off, which answers do not reset.
    sent_count: u32,
    /// True if a FIN is due.
    pub(super) send: bool,
    sent: Option<SentFin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SentFin {
    packet_number: u64,
    at: Instant,
    /// True if an ACK echoed the FIN.
    arrived: bool,
}

impl Closing {
    /// True if an ACK echoed the newest FIN.
    pub(super) fn has_arrived(&self) -> bool {
        self.sent.is_some_and(|fin| fin.arrived)
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent.is_some()
    }
}

impl Sender {
    /// Ends the stream: the remaining data is sent, then the FIN.
    ///
    /// # Errors
    /// [`TransferError::NotConnected`] before [`Sender::open`].
    pub fn finish(&mut self) -> Result<(), TransferError> {
        if self.state == State::Idle {
            return Err(TransferError::NotConnected);
        }
        self.stream.finishing = true;
        self.close_if_done();
        Ok(())
    }

    /// Aborts the stream. No event follows.
    pub fn abort(&mut self) {
        self.close();
    }

    /// True if the peer has received the FIN and all data (native). Its application may not have
    /// read them.
    pub(crate) fn has_arrived(&self) -> bool {
        self.flight.board.is_empty() && self.closing.is_some_and(|closing| closing.has_arrived())
    }

    #[cold]
    pub(super) fn fail(&mut self, error: TransferError) {
        let phase = self.phase();
        self.close();
        self.events.push_back(SenderEvent::Failed { phase, error });
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.recovery.stop();
        self.control_at = None;
        self.keep_alive.cancel();
        self.blocked.cancel_pace();
    }

    /// Starts to close when the stream has ended and all data is sent (native) or acknowledged
    /// (classic).
    pub(super) fn close_if_done(&mut self) {
        if !self.stream.finishing || self.closing.is_some() || self.state != State::Open {
            return;
        }
        let sent = self.fresh_len() == 0;
        let idle = self.flight.board.is_empty();
        if sent && (idle || self.stream.fin_with_data) {
            self.closing = Some(Closing { unanswered: 0, sent_count: 0, send: true, sent: None });
            if idle {
                self.recovery.stop();
            }
            self.keep_alive.cancel();
        }
    }

    /// True if neither data nor a FIN is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.flight.board.is_empty() && self.closing.is_none()
    }

    pub(super) fn transmit_fin(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        let head = DataHeader {
            seq: self.flight.board.snd_nxt(),
            packet_number: self.flight.next_number(),
            ack_now: true,
            ack_every: 0,
        };
        let sent_count = self.closing.map_or(0, |closing| closing.sent_count) + 1;
        let again = self.closing.is_some_and(|closing| closing.is_sent());
        let slot = out.slot(self.codec.fin_len(again))?;
        self.codec.encode_fin(head, slot);
        self.flight.on_transmitted(now, None, 0, 1);
        let idle = self.flight.board.is_empty();
        if attempt == 1 && idle {
            // Nothing was unacknowledged until now, so the give-up time starts. A receiver that
            // answered the FIN without a FIN-ACK has made no progress.
            if again { self.give_up_timer.on_answer(now) } else { self.give_up_timer.restart(now) }
        }
        let mut rto = self.config.fin_timeout(self.path.rtt.rto(), sent_count);
        if again && attempt == 1 {
            rto = rto.min(self.path.rtt.rto().max(ANSWERED_FIN_INTERVAL));
        }
        let rto = rto.min(self.give_up_timer.time_left(now));
        let sent = SentFin { packet_number: head.packet_number, at: now, arrived: false };
        self.closing = Some(Closing { unanswered: attempt, sent_count, send: false, sent: Some(sent) });
        if idle {
            self.control_at = Some(now + rto);
        }
        let (offset, length) = (self.flight.board.next_offset(), self.codec.fin_len(again));
        self.observers.on_sent(now, PacketKind::Fin, (head.packet_number, head.seq), offset, length);
        self.observers.on(now, &Trace::FinSent { seq: head.seq, attempt, of: self.config.attempts.fin, rto });
        Some(())
    }

    /// Handles an ACK whose newest transmission is `packet_number`, sent at `at`. A FIN is
    /// acknowledged at once, so an echo of a transmission sent clearly later shows that the FIN is
    /// lost.
    pub(super) fn note_fin_echo(&mut self, packet_number: u64, at: Instant) {
        let slack = self.path.rtt.srtt() / FIN_ACK_REORDERING_DIVISOR;
        let Some(closing) = &mut self.closing else { return };
        let Some(fin) = closing.sent.as_mut().filter(|fin| !fin.arrived) else { return };
        fin.arrived = packet_number == fin.packet_number;
        closing.send |= packet_number > fin.packet_number && at > fin.at + slack;
    }

    /// Starts the timer of the FIN when all data is acknowledged: the usual timeout if the FIN is
    /// known to have arrived, because the receiver may be storing; else a short one, because it is
    /// probably lost.
    pub(super) fn expect_fin_ack(&mut self, now: Instant) {
        let Some(Closing { sent: Some(SentFin { arrived, .. }), send: false, .. }) = self.closing else {
            return;
        };
        if !self.flight.board.is_empty() {
            return;
        }
        self.recovery.stop();
        self.keep_alive.cancel();
        let wait = if arrived {
            self.config.fin_timeout(self.path.rtt.rto(), 1)
        } else {
            self.path.rtt.srtt() / FIN_ACK_REORDERING_DIVISOR
        };
        self.closing = self.closing.map(|closing| Closing { unanswered: 0, sent_count: 0, ..closing });
        self.control_at = Some(now + wait);
    }

    /// Handles an ACK after all data is acknowledged. An ACK that echoes the FIN, or a classic ACK
    /// with a window of 0, shows that the receiver is storing data: attempts and time count from
    /// now.
    pub(super) fn note_storing(&mut self, now: Instant, ack: &Ack<'_>) {
        let Some(closing) = &mut self.closing else { return };
        let Some(fin) = &mut closing.sent else { return };
        let has_echo = ack.echo.is_some_and(|echo| echo.packet_number == fin.packet_number);
        fin.arrived |= has_echo;
        if has_echo || ack.echo.is_none() && ack.window == 0 {
            closing.unanswered = 0;
            self.give_up_timer.on_answer(now);
            self.limit_no_progress(now);
        }
    }

    pub(super) fn on_fin_timeout(&mut self, now: Instant) {
        let has_time_left = !self.give_up_timer.time_left(now).is_zero();
        let Some(closing) = &mut self.closing else { return };
        if closing.unanswered < self.config.attempts.fin && has_time_left {
            closing.send = true;
            return;
        }
        let (packet, attempts) = (self.flight.board.snd_nxt(), closing.unanswered);
        self.fail(TransferError::Timeout { packet, attempts });
    }

    pub(super) fn on_fin_ack(&mut self, now: Instant, ack: u64, crc: u32) {
        let asked = self.closing.is_some_and(|closing| closing.is_sent());
        if !asked || self.state != State::Open || ack != self.flight.board.snd_nxt() {
            return self.stats.stale += 1;
        }
        if !self.flight.board.is_empty() {
            // The FIN-ACK acknowledges the data whose ACKs were lost.
            let observers = &mut self.observers;
            self.flight.board.acknowledge(ack, |_| false, |run| observers.on_acked(now, run));
            self.stats.bytes_acked = self.flight.board.una_offset();
            self.stats.last_ack_at = Some(now);
            self.blocked.count(now);
        }
        self.close();
        self.events.push_back(SenderEvent::Finished { crc });
        self.observers.on(now, &Trace::FinAckReceived { ack, crc });
    }

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
            self.give_up_timer.on_answer(now);
        }
        let (lost_to, prior) = (self.timeout_cause(), Prior::of(&self.flight.board, self.peer.window.size));
        // The back-off ends at the give-up time.
        let next_rto = self.path.rtt.backed_off().min(self.give_up_timer.time_left(now));
        let no_ack = AckOutcome::none(now, self.path.mss as u64, self.peer.duplicates, self.has_room());
        let timeout = Timeout { rtt: &self.path.rtt, no_ack, next_rto, lost_to };
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
                self.congestion.forget_recovery();
                if self.give_up_timer.time_left(now).is_zero() {
                    let attempts = self.flight.board.base().map_or(0, |base| u32::from(base.sent_count));
                    self.exhaust(now, attempts);
                }
                if episode && lost_to == LostTo::Network {
                    self.back_down(now, prior);
                }
            }
        }
    }

    /// Checks that the receiver can have what an ACK reports. Otherwise counts it as invalid, or
    /// ends the transfer.
    #[inline]
    pub(super) fn is_possible(&mut self, ack: &Ack<'_>) -> bool {
        if ack.echo.is_some_and(|echo| self.flight.sent.was_skipped(echo.packet_number)) {
            self.fail(TransferError::InvalidAcks);
            return false;
        }
        let unsent = ack.echo.is_some_and(|echo| echo.packet_number >= self.flight.next_number());
        let is_beyond = unsent || ack.ack > self.flight.board.snd_nxt();
        if is_beyond {
            self.stats.acks_beyond += 1;
            self.limit_invalid_acks();
        }
        !is_beyond
    }

    /// Ends a native transfer after too many invalid ACKs. Returns true if there were too many.
    pub(super) fn limit_invalid_acks(&mut self) -> bool {
        let too_many = self.stats.acks_beyond >= MAX_INVALID_ACKS && self.codec.has_packet_numbers();
        if too_many {
            self.fail(TransferError::InvalidAcks);
        }
        too_many
    }

    /// Responds to a retransmission timeout caused by loss in the network.
    fn back_down(&mut self, now: Instant, prior: Prior) {
        self.path.ecn.on_timeout(self.flight.next_number());
        if self.path.mtu.as_mut().is_some_and(PathMtu::on_timeout) {
            self.resize();
        }
        self.slow_down(now, Cause::Timeout, prior);
    }

    /// Fails the transfer after an answer that acknowledged nothing, if none has for too long.
    pub(super) fn limit_no_progress(&mut self, now: Instant) {
        if self.give_up_timer.lacks_progress(now) {
            self.fail(TransferError::NoProgress(self.config.no_progress));
        }
    }

    /// Fails the transfer: the base has reached its limit of attempts or of time.
    fn exhaust(&mut self, now: Instant, attempts: u32) {
        let seq = self.flight.board.snd_una();
        self.observers.on(now, &Trace::AttemptsExhausted { seq });
        self.fail(TransferError::Timeout { packet: seq, attempts });
    }

    /// Handles `reports` of ICMP "port unreachable". Ignored before the handshake, when the
    /// receiver may be about to start, and in a pause, when no answer is due.
    pub(super) fn on_refused(&mut self, now: Instant, reports: u64) {
        if self.state != State::Open {
            return;
        }
        if self.is_idle() {
            self.give_up_timer.unreachable = None;
        } else if self.give_up_timer.on_unreachable(now, reports) {
            self.fail(TransferError::Gone);
        }
    }

    /// Handles the timeout of a SYN or FIN.
    pub(super) fn on_control_timeout(&mut self, now: Instant) {
        let limit = self.config.attempts.syn;
        let opened_for = self.first_syn_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let silent = opened_for >= self.config.handshake_give_up;
        match self.state {
            State::Opening { attempts, .. } if attempts >= limit || silent => {
                self.fail(TransferError::Timeout { packet: 0, attempts });
            }
            State::Opening { attempts, sent_at, .. } => {
                self.state = State::Opening { attempts, sent_at, send: true };
            }
            State::Open => self.on_fin_timeout(now),
            State::Idle | State::Closed => {}
        }
    }
}
