//! What it means that nothing was heard of what is outstanding until the retransmission timer
//! fired, and what follows from that: when the sender slows down, and when it gives up.

use std::time::{Duration, Instant};

use super::ack::Prior;
use super::path_mtu::PathMtu;
use super::{Segment, Sender, State};
use crate::TransferError;
use crate::congestion::Cause;
use crate::recovery::Recovery;
use crate::wire::Ack;

/// An open transfer ends when the network reported for so long that nobody listens, so often at
/// least, and nothing came from the receiver meanwhile. It is a hard error (RFC 1122, section
/// 4.2.3.9), but one that anybody can forge who guesses the ports; and a path may reject for a
/// moment what it lets through again.
const REFUSED_FOR: Duration = Duration::from_secs(5);
const REFUSED_TIMES: u64 = 5;

/// Reports that nobody listens where the receiver was, since it was heard of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusals {
    since: Instant,
    reports: u64,
}

/// Longest time between an answer without room and the next zero-window probe (RFC 6298, rule 2.5).
const MAX_PERSIST: Duration = Duration::from_secs(60);

/// Zero-window probes that were answered without room since the window closed: the time to the next
/// one doubles with each (RFC 9293, section 3.8.6.1). One that is not answered is repeated as any
/// other segment is.
#[derive(Debug, Default)]
pub(super) struct Persist {
    answered: u32,
    /// Number of the last one.
    tx: Option<u64>,
}

/// Why a packet was not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LostTo {
    /// It was one more than the receiver takes: it asked for room, and nothing is lost.
    NoRoom,
    /// It tried a size that the path may not carry, which says nothing of congestion.
    Size,
    /// The network, as far as anybody can tell.
    Network,
}

impl Sender {
    /// What the silence until now is put down to.
    pub(super) fn silent_for(&self) -> LostTo {
        if !self.has_room() {
            return LostTo::NoRoom;
        }
        let tried = self.mtu.as_ref().and_then(PathMtu::probe);
        let Some(base) = self.board.base().filter(|base| tried == Some(base.tx)) else {
            return LostTo::Network;
        };
        // What left after it was heard of.
        let alone = match &self.recovery {
            Recovery::BaseOnly(rules) if rules.dup_acks() > 0 => true,
            _ => self.board.in_flight() <= u64::from(base.len),
        };
        if alone { LostTo::Size } else { LostTo::Network }
    }

    /// The receiver takes a full packet.
    pub(super) fn has_room(&self) -> bool {
        self.snd_wnd.size() >= self.board.span(self.mss)
    }

    /// Before this ACK the window was `prior_wnd`. If that was no room, a probe that is out asked
    /// for some, and whatever its answer says, it repaired no loss (RFC 9293, section 3.8.6.1,
    /// against RFC 8985, section 7.4.2).
    pub(super) fn excuse_probe(&mut self, prior_wnd: u64) {
        if prior_wnd < self.board.span(self.mss)
            && let Recovery::Engine(rules) = &mut self.recovery
        {
            rules.forget_probe();
        }
    }

    /// If this ACK refuses the base once more, the next probe waits for twice as long, but not for
    /// so long that the receiver would forget the sender.
    pub(super) fn back_off_probes(&mut self, now: Instant, ack: &Ack<'_>) {
        if self.has_room() {
            self.persist = Persist::default();
            return;
        }
        let heard = |base: &&Segment| ack.echo.is_some_and(|echo| echo.tx >= base.tx);
        let Some(tx) = self.board.base().filter(heard).map(|base| base.tx) else { return };
        if self.persist.tx.replace(tx) == Some(tx) {
            return;
        }
        let factor = 1_u32.checked_shl(self.persist.answered).unwrap_or(u32::MAX);
        self.persist.answered = self.persist.answered.saturating_add(1);
        let idle = Duration::from_millis(u64::from(self.peer.unwrap_or_default().idle_timeout_ms));
        let rto = self.rtt.rto();
        let wait = rto.saturating_mul(factor).min(MAX_PERSIST.min(idle / 3).max(rto));
        match &mut self.recovery {
            Recovery::BaseOnly(rules) => rules.arm(now, wait),
            Recovery::Engine(rules) => rules.wait_until(now + wait),
        }
    }

    /// A timer of data is due. If that is the time of a zero-window probe, and the one before was
    /// answered, nothing was owed until now.
    pub(super) fn note_probe_due(&mut self, now: Instant) {
        if self.persist.tx.is_some() && self.persist.tx == self.board.base().map(|base| base.tx) {
            self.heard_at = Some(now);
        }
    }

    /// Before this ACK the window was `prior_wnd`. If it opens now, what the receiver had and did
    /// not take leaves again at once, like anything else that waited for room: it is not lost, and
    /// no timer has to say so.
    pub(super) fn repeat_refused(&mut self, now: Instant, ack: &Ack<'_>, prior_wnd: u64) {
        let opens = prior_wnd < self.board.span(self.mss) && self.has_room();
        // After the last segment comes nothing but the FIN. Where that was heard of and the segment
        // is missing, it was refused, too, or lost; either way it may leave now.
        let last = |base: &Segment| base.end() == self.board.next_offset();
        let heard = |base: &Segment| {
            ack.echo.is_some_and(|echo| echo.tx == base.tx || echo.tx > base.tx && last(base))
        };
        let Some(base) = self.board.base().copied().filter(|base| opens && heard(base)) else { return };
        let timing = self.timing();
        match &mut self.recovery {
            Recovery::BaseOnly(rules) => rules.repeat(),
            Recovery::Engine(rules) => {
                self.board.mark_lost(base.offset);
                self.sent_packets.forget_resolved(&self.board);
                rules.reopen();
                rules.rearm(now, &timing, &self.board);
            }
        }
    }

    /// Answers a retransmission timeout, before which things stood at `prior`.
    pub(super) fn back_down(&mut self, now: Instant, prior: Prior, lost_to: LostTo) {
        self.give_up_or_go_on(now);
        if lost_to != LostTo::Network {
            return;
        }
        self.ecn.on_timeout(self.sent_packets.next_tx());
        if self.mtu.as_mut().is_some_and(PathMtu::on_timeout) {
            self.resize();
        }
        self.slow_down(now, Cause::Timeout, prior);
    }

    pub(super) fn give_up_or_go_on(&mut self, now: Instant) {
        if self.patience(now).is_zero() {
            let attempts = self.board.base().map_or(0, |base| u32::from(base.sent_count));
            self.exhaust(now, attempts);
        }
    }

    /// Before the receiver was heard of at all it may be about to start, and the patience decides.
    pub(super) fn on_refused(&mut self, now: Instant, reports: u64) {
        if self.state != State::Open {
            return;
        }
        // In a pause nothing is awaited, so it says nothing that nothing came.
        if self.board.is_empty() && self.closing.is_none() {
            self.refusals = None;
            return;
        }
        let refusals = self.refusals.get_or_insert(Refusals { since: now, reports: 0 });
        refusals.reports += reports;
        let long = now.saturating_duration_since(refusals.since) >= REFUSED_FOR;
        if long && refusals.reports >= REFUSED_TIMES {
            self.fail(self.phase(), TransferError::Gone);
        }
    }

    /// For how much longer a silent receiver is waited for: no timer of data is later.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let silence = self.heard_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.config.give_up.saturating_sub(silence)
    }
}
