//! Loss recovery by RACK-TLP, RFC 6675 or duplicate ACKs: marks segments lost and retransmits them
//! when the congestion window allows. Owns the timers and the episode; a detector decides which
//! segments are lost.

use std::time::{Duration, Instant};

use super::dup_acks::{DupAcks, SackThreshold};
use super::episode::{Episode, MANY_HOLES};
use super::events::{AckArrival, AckOutcome, Ended, Expired, Lost, Probe, Resent, Timeout, Timing, Verdict};
use super::rack::{Rack, Times};
use super::receiver_drops::ReceiverDrops;
use super::tail_loss_probe::TailLossProbe;
use super::{
    Fate, Flight, Leave, LossDetection, LossRecovery, LostTo, Pending, Reordering, Repeat, Resend, Rtt,
    Scoreboard, SegmentRun,
};
use crate::LossTrigger;
use crate::congestion::Cause;

/// Default of the receiver's maximum ACK delay.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a sender has one, and asks it per ACK")]
enum Detector {
    Rack(Rack),
    Sack(SackThreshold),
    DupAcks(DupAcks),
}

#[derive(Debug)]
pub(crate) struct Engine {
    rule: LossDetection,
    detector: Detector,
    probe: TailLossProbe,
    max_ack_delay: Duration,
    /// Retransmissions allowed after a timeout before the next delivery, packets.
    loss_window: u32,
    episode: Option<Episode>,
    rto_at: Option<Instant>,
    /// True if the retransmission timer fired and nothing was delivered since.
    silent: bool,
    probe_at: Option<Instant>,
    reordering_at: Option<Instant>,
    /// Packet number of a path MTU probe, whose loss is no sign of congestion.
    excused: Option<u64>,
    /// Drops in the receiver's socket, which are no sign of congestion.
    drops: ReceiverDrops,
    /// Losses detected since the last [`Verdict`].
    lost: Vec<Lost>,
}

impl Engine {
    pub(crate) fn new(rule: LossDetection, reordering: Reordering, loss_window: u32) -> Self {
        let detector = match rule {
            LossDetection::Rack => Detector::Rack(Rack::new(reordering)),
            LossDetection::Sack => Detector::Sack(SackThreshold::default()),
            _ => Detector::DupAcks(DupAcks::new(rule)),
        };
        Self {
            rule,
            detector,
            probe: TailLossProbe::default(),
            max_ack_delay: MAX_ACK_DELAY,
            loss_window,
            episode: None,
            rto_at: None,
            silent: false,
            probe_at: None,
            reordering_at: None,
            excused: None,
            drops: ReceiverDrops::default(),
            lost: Vec::new(),
        }
    }
}

impl LossRecovery for Engine {
    fn on_sent(&mut self, now: Instant, timing: &Timing<'_>) {
        if self.rto_at.is_none() {
            self.rto_at = Some(now + timing.rtt.rto());
        }
        self.arm_probe(now, timing);
    }

    fn on_resent(&mut self, resent: &Resent<'_>) {
        let Resent { now, timing, has_room, before, .. } = resent;
        if let Some(episode) = &mut self.episode {
            if episode.resent == 0 && before.sent_count == 1 {
                episode.original.get_or_insert((before.offset, before.sent_at));
            }
            if std::mem::take(&mut episode.forced) && episode.timed_out.is_none() {
                // The running timer belongs to the original, whose ACK will not arrive.
                self.rto_at = Some(*now + timing.rtt.rto());
            }
            episode.resent += 1;
            episode.credit = episode.credit.map(|credit| credit.saturating_sub(1));
        }
        self.rto_at.get_or_insert(*now + timing.rtt.rto());
        if self.episode.is_some() && *has_room {
            self.arm_probe(*now, timing);
        }
    }

    fn on_probe_sent(&mut self, probe: Probe) {
        self.probe.on_sent(probe);
        self.probe_at = None;
    }

    fn excuse(&mut self, packet_number: Option<u64>) {
        self.excused = packet_number;
    }

    fn on_open(&mut self, now: Instant, timing: &Timing<'_>, board: &Scoreboard) {
        self.restart(now, timing, board);
    }

    fn forget_episode(&mut self) {
        self.stop();
        self.episode = None;
    }

    fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    fn on_ack_begins(&mut self, ack: &AckArrival<'_>) {
        if let Detector::Rack(rack) = &mut self.detector {
            rack.on_ack_begins(ack.now, ack.rtt.srtt(), ack.full, ack.next_number);
        }
    }

    fn on_delivered(&mut self, run: &SegmentRun<'_>, ack: &AckArrival<'_>) {
        let AckArrival { now, rtt, largest_acked, next_number, .. } = *ack;
        let segment = run.first;
        self.silent = false;
        let later =
            largest_acked.filter(|largest| segment.sent_count > 1 && *largest < segment.packet_number);
        let in_flight = segment.fate == Fate::InFlight;
        if let Some(episode) = &mut self.episode {
            episode.on_delivered(now, run, later);
        }
        let Detector::Rack(rack) = &mut self.detector else { return };
        match later {
            None => {
                let srtt = rtt.srtt();
                rack.on_delivered(now, segment, srtt);
                if run.count > 1 {
                    // The first and the last segment suffice: the others lie between them in both
                    // offset and time.
                    rack.on_delivered(now, run.last, srtt);
                }
            }
            Some(_) if in_flight => rack.on_spurious(now, segment, next_number),
            Some(_) => {}
        }
    }

    fn on_ack(&mut self, ack: &AckOutcome, timing: &Timing<'_>, flight: &mut Flight) -> Verdict {
        if ack.window.was_closed {
            // The probe was a zero-window probe (RFC 9293, section 3.8.6.1), so its ACK reveals no
            // loss (RFC 8985, section 7.4.2).
            self.probe.cancel();
        }
        if let Some(wait) = ack.window.persist {
            self.rto_at = Some(ack.now + wait);
            self.probe_at = None;
        }
        if ack.window.reopened {
            self.reopen(ack.now, timing, flight);
        }
        self.drops.on_ack(ack.overflow, ack.largest_acked, flight.next_number());
        self.detect(ack, timing.rtt, flight);
        let congestion = self.is_congestion(0);
        self.drops.settle(flight.board.base().map(|base| base.packet_number));
        let begins = congestion && self.on_loss(flight);
        let episode = self.episode.map(|episode| episode.cause);
        let ended = self.ended(ack, &mut flight.board);
        Verdict { lost: std::mem::take(&mut self.lost), begins, dup_acks: None, episode, ended }
    }

    /// Restarts the timers after an ACK that delivered data. If `snd_una` did not advance, the
    /// retransmission timer restarts only if the base was sent after everything that arrived.
    /// Otherwise SACKs of later data would delay the timeout of a lost retransmission as long as
    /// data flows (RFC 6298, rule 5.3).
    fn rearm(&mut self, ack: &AckOutcome, timing: &Timing<'_>, board: &Scoreboard) {
        if ack.bytes == 0 && !ack.moved {
            return;
        }
        let overtaken = board
            .base()
            .is_some_and(|base| ack.largest_acked.is_none_or(|largest| base.packet_number <= largest));
        let running = self.rto_at.filter(|_| !ack.moved && overtaken);
        self.restart(ack.now, timing, board);
        if running.is_some() {
            self.rto_at = running;
            self.probe_at = None;
            self.arm_probe(ack.now, timing);
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>, flight: &mut Flight) -> (Expired, Vec<Lost>) {
        let expired = self.expire(timeout, flight);
        (expired, std::mem::take(&mut self.lost))
    }

    fn next(&self, board: &Scoreboard) -> Option<Pending> {
        if self.probe.pending {
            return Some(Pending::Probe);
        }
        let lost = board.first_lost()?;
        let of_episode = |episode: &Episode| episode.next_repeat(board.in_flight());
        let (reason, leave) = self.episode.as_ref().map_or((Resend::Lost, Leave::InWindow), of_episode);
        Some(Pending::Repeat(Repeat { offset: lost.offset, reason, leave }))
    }

    fn timers(&self) -> [Option<Instant>; 3] {
        [self.rto_at, self.probe_at, self.reordering_at]
    }

    fn stop(&mut self) {
        self.rto_at = None;
        self.probe_at = None;
        self.reordering_at = None;
        self.probe.cancel();
    }

    fn marks_losses(&self) -> bool {
        true
    }

    fn reorders(&self) -> bool {
        matches!(&self.detector, Detector::Rack(rack) if rack.reorders())
    }
}

impl Engine {
    /// Handles losses that count as congestion. Returns true if an episode begins.
    fn on_loss(&mut self, flight: &mut Flight) -> bool {
        if let Detector::Rack(rack) = &mut self.detector {
            rack.on_loss();
        }
        let begins = self.begin(flight, None);
        if begins && self.rule == LossDetection::Tahoe {
            self.lost.extend(flight.mark_all_lost(LossTrigger::DupAcks, |_| true));
        }
        begins
    }

    /// True if any loss from index `before` on counts as congestion: neither dropped by the
    /// receiver's socket nor a path MTU probe.
    fn is_congestion(&mut self, before: usize) -> bool {
        let mut found = false;
        // NewReno detects further holes only within an episode, so each loss must begin one.
        let asks = self.rule.uses_sack();
        for lost in &mut self.lost[before..] {
            lost.to_socket = asks && self.drops.covers(lost.packet_number);
            found |= !lost.to_socket && Some(lost.packet_number) != self.excused;
            if let (Detector::Rack(rack), true) = (&mut self.detector, lost.to_socket) {
                // The segment was dropped, not reordered: RACK waits no longer for reordering than
                // after other losses.
                rack.on_loss();
            }
        }
        found
    }

    /// Ends the episode or the tail loss probe if this ACK decides its outcome.
    fn ended(&mut self, ack: &AckOutcome, board: &mut Scoreboard) -> Option<Ended> {
        if let Some(episode) = self.episode {
            let first_ack = self.rule == LossDetection::Reno && ack.moved && !episode.slow_start();
            let done = board.una_offset() >= episode.recover || first_ack;
            // If all data arrived before any retransmission, nothing was lost. RFC 5681 (Reno,
            // Tahoe) does not define an undo.
            let proven = !matches!(self.rule, LossDetection::Reno | LossDetection::Tahoe)
                && (episode.resent > 0 || (done && episode.timed_out.is_none()));
            let spurious = proven && episode.spurious >= episode.resent;
            // The originals of all retransmissions arrived, so the segments still marked lost are
            // presumably in flight as well.
            if spurious && (done || episode.is_disproved(ack.largest_acked)) {
                board.unmark_lost();
                return self.end_episode(true);
            }
            if done {
                return self.end_episode(false);
            }
        }
        let largest = ack.largest_acked?;
        if self.episode.is_some() {
            self.probe.on_ack_in_recovery(largest);
            return None;
        }
        let has_repaired = self.probe.on_ack(board.una_offset(), largest, ack.duplicates);
        (has_repaired && !self.drops.covers_repaired()).then_some(Ended::RepairedByProbe)
    }

    fn restart(&mut self, now: Instant, timing: &Timing<'_>, board: &Scoreboard) {
        if board.is_empty() {
            let reordering_at = self.reordering_at.take();
            debug_assert!(reordering_at.is_none_or(|_| board.in_flight() == 0));
            self.rto_at = None;
            self.probe_at = None;
            return;
        }
        let blind = !self.rule.uses_sack();
        let repairs =
            self.episode.is_some_and(|episode| !episode.slow_start() && episode.resent >= 4 * MANY_HOLES);
        if !(blind && repairs && self.rto_at.is_some()) {
            self.rto_at = Some(now + timing.rtt.rto());
        }
        self.probe_at = None;
        self.arm_probe(now, timing);
    }

    /// Handles a window that reopened: retransmits the segment that the receiver dropped for lack
    /// of room.
    fn reopen(&mut self, now: Instant, timing: &Timing<'_>, flight: &mut Flight) {
        let Some(base) = flight.board.base().map(|base| base.offset) else { return };
        flight.board.mark_lost(base);
        flight.forget_resolved();
        self.silent = false;
        let blind = !self.rule.uses_sack();
        if let Some(episode) = self.episode.as_mut().filter(|_| !blind) {
            episode.credit = None;
        }
        self.restart(now, timing, &flight.board);
    }

    /// Handles due timers. A probe restarts the retransmission timer with the RTO, a timeout with
    /// the backed-off RTO.
    fn expire(&mut self, timeout: &Timeout<'_>, flight: &mut Flight) -> Expired {
        let Timeout { rtt, no_ack: ack, next_rto, lost_to } = timeout;
        let now = ack.now;
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        // If both are due, the probe replaces the timeout.
        if due(self.probe_at) {
            self.probe_at = None;
            self.probe.pending = !flight.board.is_empty();
            // During recovery a probe does not restart the retransmission timer.
            if self.episode.is_none() {
                self.rto_at = Some(now + rtt.rto());
            }
        }
        if due(self.rto_at) {
            self.stop();
            self.mark_timed_out(ack, rtt, flight);
            self.begin(flight, Some(*lost_to));
            self.silent = true;
            self.rto_at = Some(now + *next_rto);
            return Expired::Timeout { episode: *lost_to != LostTo::NoRoom };
        }
        if due(self.reordering_at) {
            self.reordering_at = None;
            let was_lost = self.lost.len();
            self.detect(ack, rtt, flight);
            if self.is_congestion(was_lost) && self.on_loss(flight) {
                return Expired::Episode;
            }
        }
        Expired::Nothing
    }

    fn detect(&mut self, ack: &AckOutcome, rtt: &Rtt, flight: &mut Flight) {
        let Flight { board, sent, .. } = flight;
        let lost = &mut self.lost;
        let in_recovery = self.episode.is_some();
        match &mut self.detector {
            Detector::Rack(rack) => {
                let times = Times::new(ack, rtt, in_recovery);
                self.reordering_at = rack.detect(&times, board, sent, |segment, state| {
                    lost.push(Lost::new(segment, state, LossTrigger::TimeThreshold));
                });
            }
            Detector::Sack(rule) => {
                let before = self.episode.map_or(u64::MAX, |episode| episode.judged_below);
                rule.detect(board, ack.mss, before, ack.largest_acked.unwrap_or(u64::MAX), |segment| {
                    let state = sent.state_of(segment.packet_number);
                    lost.push(Lost::new(segment, state, LossTrigger::SackThreshold));
                });
                sent.forget_resolved(board);
            }
            Detector::DupAcks(dup_acks) => {
                if let Some(base) = dup_acks.detect(ack, self.episode.as_ref(), board) {
                    lost.push(Lost::new(&base, sent.state_of(base.packet_number), LossTrigger::DupAcks));
                }
                sent.forget_resolved(board);
            }
        }
    }

    /// Begins an episode unless one is active. A timeout always begins one; `timed_out` is its
    /// presumed cause. Returns true if an episode began.
    fn begin(&mut self, flight: &Flight, timed_out: Option<LostTo>) -> bool {
        let timeout = timed_out.is_some();
        if self.episode.is_some() && !timeout {
            return false;
        }
        self.probe.cancel();
        self.probe_at = None;
        // The back-off is limited to one second, so retransmissions are limited too: they must not
        // load a path that delivers nothing.
        let blind = timeout && (self.silent || !self.rule.uses_sack());
        let slow_start = timeout || self.rule == LossDetection::Tahoe;
        let series = self.episode.filter(|before| timeout && before.timed_out.is_some() && !before.answered);
        let timed_out = match self.episode {
            // A recovery from loss goes on if a zero-window probe interrupts it.
            Some(before) if timeout && !before.asks_for_room() => Some(LostTo::Network),
            _ => timed_out,
        };
        self.episode = Some(Episode {
            recover: flight.board.next_offset(),
            first_number: flight.next_number(),
            judged_below: self.episode.map_or(flight.next_number(), |before| before.judged_below),
            series_start: series.map_or(flight.next_number(), |series| series.series_start),
            answered: false,
            original: series.and_then(|series| series.original),
            late_rtt: None,
            resent: 0,
            repaired: 0,
            spurious: 0,
            timed_out,
            cause: if slow_start { Cause::Timeout } else { Cause::Loss },
            forced: true,
            credit: blind.then_some(self.loss_window),
        });
        true
    }

    /// Ends the episode. Returns its end if that is reported.
    fn end_episode(&mut self, spurious: bool) -> Option<Ended> {
        let ended = self.episode.take().and_then(|episode| episode.ended(spurious));
        match &mut self.detector {
            Detector::Rack(rack) => rack.on_recovered(spurious),
            Detector::Sack(rule) => rule.reset(),
            Detector::DupAcks(dup_acks) => dup_acks.reset(),
        }
        ended
    }

    /// Marks the base lost, and every segment sent more than `srtt` ago (RACK: its RTT and the
    /// reordering window). Later ones may still be acknowledged, and SACKs reveal their loss (RFC
    /// 8985, section 6.3). Without SACK, or before the first RTT sample, all are marked.
    ///
    /// Selectively acknowledged segments stay acknowledged: RFC 6675, section 5.1, clears the marks
    /// only because receivers may renege, which native receivers may not (PROTOCOL.md, N3).
    fn mark_timed_out(&mut self, ack: &AckOutcome, rtt: &Rtt, flight: &mut Flight) {
        let base = flight.board.una_offset();
        let blind = !self.rule.uses_sack() || rtt.srtt().is_zero();
        let age = match &self.detector {
            Detector::Rack(rack) => {
                rack.timeout_age(&Times::new(ack, rtt, self.episode.is_some()), flight.board.sacked())
            }
            _ => None,
        };
        let age = age.unwrap_or(rtt.srtt());
        let now = ack.now;
        self.lost.extend(flight.mark_all_lost(LossTrigger::Timeout, |segment| {
            blind || segment.offset == base || segment.sent_at + age <= now
        }));
        if let Detector::Sack(rule) = &mut self.detector {
            rule.reset();
        }
    }

    fn arm_probe(&mut self, now: Instant, timing: &Timing<'_>) {
        let probes = matches!(self.detector, Detector::Rack(_));
        // RFC 8985, section 7.2, sends a probe after 1 s without an RTT sample, but the RTO is 1 s
        // as well.
        if let Some(srtt) = timing.rtt.sampled().filter(|_| probes && self.probe.is_ready()) {
            let rtt = (srtt, timing.rtt.rttvar());
            let timeout = TailLossProbe::timeout(rtt, timing.may_wait, self.max_ack_delay);
            // Not after the retransmission timer: a probe due at the same time replaces it (RFC
            // 8985, section 7.2).
            let at = now + timeout;
            self.probe_at = match self.rto_at {
                Some(rto_at) if rto_at <= at => Some(rto_at).filter(|_| self.episode.is_none()),
                _ => Some(at),
            };
        }
    }
}

#[cfg(test)]
mod tests;
