//! The end: the FIN and its answer, or a receiver that will not go on. Where the format lets it,
//! the FIN leaves with the last of the data. While data is outstanding, the timers of data stand
//! for both, and ACKs tell whether the FIN arrived; once everything is acknowledged, it has a timer
//! of its own.

use std::time::Instant;

use super::{Sender, SenderEvent, State};
use crate::wire::native::CloseReason;
use crate::wire::{Ack, DataHead};
use crate::{PacketKind, Phase, Trace, TransferError, TransmitBuf};

/// The share of a round trip that the answer to the FIN may come later than that to the last data,
/// one over: as much as reordering is given (RFC 8985, section 6.2).
const FIN_ACK_DELAY: u32 = 4;

/// Everything was sent, and acknowledged where that is the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closing {
    /// FINs sent since everything is acknowledged.
    pub(super) attempts: u32,
    /// One is to leave.
    pub(super) send: bool,
    /// The newest one that left.
    sent: Option<SentFin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SentFin {
    /// Number of the transmission.
    tx: u64,
    at: Instant,
    /// The receiver has it.
    arrived: bool,
    /// It was not the first.
    again: bool,
}

impl Closing {
    /// A FIN left, so that there may be an answer.
    pub(super) fn is_sent(&self) -> bool {
        self.sent.is_some()
    }
}

impl Sender {
    /// Begins to close once every byte that will ever be written was sent or, where the FIN may not
    /// come before any of them, acknowledged.
    pub(super) fn close_if_done(&mut self) {
        if !self.stream.finishing || self.closing.is_some() || !self.data_flows() {
            return;
        }
        let sent = self.fresh_len() == 0;
        let idle = self.flight.board.is_empty();
        if sent && (idle || self.stream.fin_with_data) {
            self.stop_params_request();
            self.closing = Some(Closing { attempts: 0, send: true, sent: None });
            if idle {
                self.recovery.stop();
            }
            self.keep_alive.stop();
        }
    }

    /// True if neither data nor a FIN is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.flight.board.is_empty() && self.closing.is_none()
    }

    pub(super) fn transmit_fin(&mut self, now: Instant, attempt: u32, out: &mut TransmitBuf) -> Option<()> {
        let head = DataHead {
            seq: self.flight.board.snd_nxt(),
            tx: self.flight.next_tx(),
            asks: true,
            ack_every: 0,
        };
        let again = self.closing.is_some_and(|closing| closing.is_sent());
        let slot = out.slot(self.codec.fin_len(again))?;
        self.codec.encode_fin(head, self.stream.buffer.crc(), slot);
        self.flight.on_transmitted(now, None, 0, 1);
        let idle = self.flight.board.is_empty();
        if attempt == 1 && idle {
            // Nothing was owed until now.
            self.patience.restart(now);
        }
        let rto = self.config.fin_timeout(self.path.rtt.rto(), attempt).min(self.patience.left(now));
        let sent = SentFin { tx: head.tx, at: now, arrived: false, again };
        self.closing = Some(Closing { attempts: attempt, send: false, sent: Some(sent) });
        if self.state == State::Open && idle {
            self.control_at = Some(now + rto);
        }
        let (offset, length) = (self.flight.board.next_offset(), self.codec.fin_len(again));
        self.observers.on_sent(now, PacketKind::Fin, (head.tx, head.seq), offset, length);
        self.observers.on(now, &Trace::FinSent { seq: head.seq, attempt, of: self.config.attempts.fin, rto });
        Some(())
    }

    /// The receiver has transmission `tx`, which left at `at`, and none that is newer. It echoes a
    /// FIN at once, so if it echoes one that left clearly later, the FIN is lost.
    pub(super) fn note_fin_echo(&mut self, tx: u64, at: Instant) {
        let slack = self.path.rtt.srtt() / FIN_ACK_DELAY;
        let Some(closing) = &mut self.closing else { return };
        let Some(fin) = closing.sent.as_mut().filter(|fin| !fin.arrived) else { return };
        fin.arrived = tx == fin.tx;
        closing.send |= tx > fin.tx && at > fin.at + slack;
    }

    /// If everything is acknowledged while a FIN is out, its answer is due: a FIN that is known to
    /// have arrived is given the time that every FIN has, for the application stores what came; any
    /// other is taken for lost soon.
    pub(super) fn expect_fin_ack(&mut self, now: Instant) {
        let Some(Closing { sent: Some(SentFin { arrived, .. }), send: false, .. }) = self.closing else {
            return;
        };
        if !self.flight.board.is_empty() {
            return;
        }
        self.recovery.stop();
        self.keep_alive.stop();
        let wait = if arrived {
            self.config.fin_timeout(self.path.rtt.rto(), 1)
        } else {
            self.path.rtt.srtt() / FIN_ACK_DELAY
        };
        self.closing = self.closing.map(|closing| Closing { attempts: 0, ..closing });
        self.control_at = Some(now + wait);
    }

    /// Everything was acknowledged before. An ACK that echoes the FIN, or one without an echo that
    /// offers no window, comes from a receiver that is still storing data: the attempts start
    /// again.
    pub(super) fn note_storing(&mut self, now: Instant, ack: &Ack<'_>) {
        let Some(closing) = &mut self.closing else { return };
        let Some(fin) = &closing.sent else { return };
        if ack.echo.map_or(ack.wnd == 0, |echo| echo.tx == fin.tx) {
            closing.attempts = 0;
            self.patience.restart(now);
        }
    }

    /// The timer of the FIN is due.
    pub(super) fn on_fin_timeout(&mut self, now: Instant) {
        let patient = !self.patience.left(now).is_zero();
        let Some(closing) = &mut self.closing else { return };
        if closing.attempts < self.config.attempts.fin && patient {
            closing.send = true;
            return;
        }
        let (packet, attempts) = (self.flight.board.snd_nxt(), closing.attempts);
        self.fail(Phase::Close, TransferError::Timeout { packet, attempts });
    }

    /// The receiver will not go on, or has no such connection: that is what `answers` found, if it
    /// has a number.
    pub(super) fn on_close(&mut self, reason: CloseReason, answers: Option<u64>) {
        let over = matches!(self.state, State::Idle | State::Aborting { .. } | State::Closed);
        if over || answers.is_some_and(|tx| !self.proves_forgotten(tx)) {
            return self.stats.stale += 1;
        }
        self.fail(self.phase(), TransferError::Closed(reason));
    }

    /// True if the receiver forgot the connection, given that transmission `tx` did not find it
    /// there. What left before the receiver was heard of may have overtaken the SYN, or the SYN was
    /// lost. What left later arrives after the connection was there, whatever overtakes what. And a
    /// receiver that has a later one did not forget.
    fn proves_forgotten(&self, tx: u64) -> bool {
        self.state == State::Open
            && (self.handshake.opened_tx..self.flight.next_tx()).contains(&tx)
            && self.flight.largest_tx().is_none_or(|largest| largest < tx)
    }

    pub(super) fn on_fin_ack(&mut self, now: Instant, ack: u64, crc: u32) {
        let asked = self.closing.is_some_and(|closing| closing.is_sent());
        if !asked || !self.data_flows() || ack != self.flight.board.snd_nxt() {
            return self.stats.stale += 1;
        }
        self.open_by_answer(now);
        if !self.flight.board.is_empty() {
            // It acknowledges data that no ACK did.
            let observers = &mut self.observers;
            self.flight.board.acknowledge(ack, None, |run| observers.on_acked(now, run));
            self.stats.bytes_acked = self.flight.board.una_offset();
            self.stats.last_ack_at = Some(now);
        }
        self.close();
        self.events.push_back(SenderEvent::Finished { crc });
        self.observers.on(now, &Trace::FinAckReceived { ack, crc });
    }
}
