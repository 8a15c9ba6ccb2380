//! What an answer, or none, means where nothing but the base is ever sent again: which loss it is,
//! and what the congestion controller hears of it. When the base is sent again is said by
//! `recovery/base_only.rs`.

use std::time::{Duration, Instant};

use super::Sender;
use super::ack::Prior;
use super::path_mtu::PathMtu;
use super::timeout::LostTo;
use crate::LossTrigger;
use crate::Trace;
use crate::congestion::Cause;
use crate::recovery::{AckOutcome, Lost, Recovery};
use crate::wire::Ack;

impl Sender {
    pub(super) fn on_base_ack(&mut self, now: Instant, ack: &Ack<'_>, prior: Prior) {
        if self.delivery.is_none() {
            return self.on_plain_base_ack(now, ack);
        }
        let facts = self.apply(now, ack, prior.wnd);
        self.sent_packets.forget_resolved(&self.board);
        self.note_progress(&facts);
        self.trace_ack(now, ack, &facts);
        if !facts.moved {
            self.note_no_room();
        }
        if facts.repeats && self.note_dup_ack(now, ack) {
            self.lose_base(now, LossTrigger::DupAcks, prior);
        }
        if let Some(marks) = ack.marks {
            self.heed_marks(now, marks, facts.largest_tx, prior);
        }
        let Recovery::BaseOnly(rules) = &mut self.recovery else { return };
        let episode = rules.episode();
        let disproved = if facts.moved { rules.disproved(facts.largest_tx) } else { None };
        let ended = rules.end_episode(self.board.una_offset());
        self.tell_of_ack(&facts, prior.in_flight, episode);
        if let Some(suspect) = disproved {
            self.respond_to_spurious(&facts, suspect.timeout, suspect.late_rtt(now));
        } else if ended {
            self.trace(now, &Trace::RecoveryEnded { spurious: false });
        }
        self.pace(now);
        if facts.moved {
            self.on_base_moved(now, ack, facts.latest_rtt);
        }
        // Last, for what was decided before is void once the base moved.
        self.back_off_probes(now, ack);
        self.repeat_refused(now, ack, prior.wnd);
    }

    /// There is no record of what left, so there is nothing to tell a controller.
    fn on_plain_base_ack(&mut self, now: Instant, ack: &Ack<'_>) {
        let acked = self.board.acknowledge_unmarked(ack.ack);
        let sample = acked.karn.map(|sent_at| now.saturating_duration_since(sent_at));
        if let Some(sample) = sample {
            self.rtt.on_sample(sample, 1);
        }
        if self.observer.is_some() {
            let (moved, bytes) = (acked.moved, acked.bytes);
            let facts = AckOutcome { moved, bytes, latest_rtt: sample, ..self.quiet_outcome(now) };
            self.trace_ack(now, ack, &facts);
        }
        if acked.moved {
            self.on_base_moved(now, ack, sample);
        } else {
            self.note_no_room();
            // The course's rule counts whatever the window says.
            self.note_dup_ack(now, ack);
        }
    }

    fn on_base_moved(&mut self, now: Instant, ack: &Ack<'_>, sample: Option<Duration>) {
        let Recovery::BaseOnly(rules) = &mut self.recovery else { return };
        rules.on_base_moved(now, self.rtt.rto(), !self.board.is_empty());
        if let Some(base) = self.board.base() {
            rules.on_next_piece(base.tx);
        }
        self.on_moved(now, ack, sample);
    }

    /// An ACK left the base where it was: perhaps because the receiver takes nothing now.
    fn note_no_room(&mut self) {
        if !self.has_room()
            && let Recovery::BaseOnly(rules) = &mut self.recovery
        {
            rules.on_no_room();
        }
    }

    /// The ACK repeats the base; true if it is the one that means loss.
    fn note_dup_ack(&mut self, now: Instant, ack: &Ack<'_>) -> bool {
        let (Recovery::BaseOnly(rules), Some(base)) = (&mut self.recovery, self.board.base()) else {
            return false;
        };
        let before = rules.pending();
        let dup_acks = rules.on_dup_ack(base, self.config.attempts.data);
        let found = before.is_none() && rules.pending().is_some();
        self.stats.dup_acks += 1;
        self.trace(now, &Trace::DupAckReceived { ack: ack.ack, wnd: ack.wnd, dup_acks });
        found
    }

    /// The timer of the base fired.
    pub(super) fn on_base_timeout(&mut self, now: Instant) {
        self.rtt.on_timeout();
        if self.delivery.is_none() {
            return self.give_up_or_go_on(now);
        }
        self.lose_base(now, LossTrigger::Timeout, self.prior());
    }

    /// The base is lost, the last time that it was sent. All losses of a flight that ACKs tell of
    /// are one congestion; each timeout is one of its own (RFC 5681, section 3.1).
    fn lose_base(&mut self, now: Instant, trigger: LossTrigger, prior: Prior) {
        let Some(base) = self.board.base().copied() else { return };
        let state = self.sent_packets.get(base.tx).map(|packet| packet.state);
        let timeout = trigger == LossTrigger::Timeout;
        let lost_to = match self.mtu.as_ref().and_then(PathMtu::probe) {
            _ if timeout => self.silent_for(),
            Some(tx) if tx == base.tx => LostTo::Size,
            _ => LostTo::Network,
        };
        if lost_to != LostTo::NoRoom {
            self.stats.lost += 1;
            if let Some(observer) = &mut self.observer {
                let lost = Lost {
                    offset: base.offset,
                    tx: base.tx,
                    bytes: base.len,
                    state,
                    trigger,
                    to_socket: false,
                };
                observer.on_lost(now, &lost, self.codec.numbers_transmissions());
            }
        }
        let congestion = lost_to == LostTo::Network;
        if congestion {
            self.note_lost(now, u64::from(base.len), state);
        }
        let Recovery::BaseOnly(rules) = &mut self.recovery else { return };
        let (recover, next_tx) = (self.board.next_offset(), self.sent_packets.next_tx());
        let begins = congestion && rules.begin_episode(&base, recover, next_tx, timeout);
        if begins {
            let cause = if timeout { Cause::Timeout } else { Cause::Loss };
            self.trace(now, &Trace::RecoveryBegan { cause });
        }
        if timeout {
            self.back_down(now, prior, lost_to);
        } else if begins {
            self.stats.recoveries += 1;
            self.slow_down(now, Cause::Loss, prior);
        }
    }
}
