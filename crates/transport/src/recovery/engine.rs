//! Recovery that marks segments lost and sends them again as the congestion window allows. Owns the
//! timers and the episode; which segments are lost is said by the detector.

use std::time::{Duration, Instant};

use super::dup_acks::{DupAcks, SackThreshold};
use super::events::{AckOutcome, Delivered, Ended, Expired, Lost, Timing};
use super::rack::{Rack, Times};
use super::receiver_drops::ReceiverDrops;
use super::tail_loss_probe::{Ending, TailLossProbe};
use super::{Leave, LossDetection, Reordering, Repeat, Resend};
use crate::LossTrigger;
use crate::congestion::Cause;
use crate::planted::{self, Bug};
use crate::recovery::{Fate, Scoreboard, Segment, SentPackets};

/// Longest delay of the ACK of a single segment, unless the receiver announces another one.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// Holes repaired after one timeout without SACK, from which on a repetition of what the receiver
/// had makes room for another one.
const MANY_HOLES: u32 = 16;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a sender has one, and asks it per ACK")]
enum Detector {
    Rack(Rack),
    Sack(SackThreshold),
    NewReno(DupAcks),
}

/// A recovery that is on: until everything sent before it is acknowledged (RFC 6675, section 5).
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// `RecoveryPoint`: one past the highest byte sent when it began.
    recover: u64,
    /// Number of the first transmission after it began.
    first_tx: u64,
    /// `first_tx` of the first of several timeouts in a row: segments sent again since then are not
    /// judged by counts.
    judged_tx: u64,
    resent: u32,
    /// Segments whose repetition was what arrived.
    repaired: u32,
    spurious: u32,
    /// The timer began it.
    timeout: bool,
    /// Number of the first transmission after the first of the timeouts in a row, of which this one
    /// is the last.
    series_tx: u64,
    /// Something was delivered since it began.
    answered: bool,
    /// Offset of the first segment that was sent again after that timeout, and when its only
    /// transmission before had left.
    original: Option<(u64, Instant)>,
    /// The round trip of that transmission, which arrived after all.
    late_rtt: Option<Duration>,
    /// Its first segment goes whatever the window says (RFC 6675, section 5, step 4.3).
    forced: bool,
    /// Segments that may be sent again until more answers come. Limits a timeout without selective
    /// ACKs, and one that follows another without an answer.
    credit: Option<u32>,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    detector: Detector,
    probe: TailLossProbe,
    /// How long the receiver may wait before it acknowledges a single segment.
    max_ack_delay: Duration,
    episode: Option<Episode>,
    rto_at: Option<Instant>,
    /// The timer fired, and nothing was delivered since.
    silent: bool,
    probe_at: Option<Instant>,
    reordering_at: Option<Instant>,
    /// A transmission whose loss says nothing of congestion: it tried a size that the path may not
    /// carry.
    excused: Option<u64>,
    /// What the receiver's socket had no room for: its loss says nothing of the network.
    socket: ReceiverDrops,
    /// Losses that the machine has not heard of.
    lost: Vec<Lost>,
}

impl Engine {
    pub(crate) fn new(rule: LossDetection, reordering: Reordering) -> Self {
        let detector = match rule {
            LossDetection::Rack => Detector::Rack(Rack::new(reordering)),
            LossDetection::Sack => Detector::Sack(SackThreshold::default()),
            LossDetection::NewReno | LossDetection::BaseOnly => Detector::NewReno(DupAcks::default()),
        };
        Self {
            detector,
            probe: TailLossProbe::default(),
            max_ack_delay: MAX_ACK_DELAY,
            episode: None,
            rto_at: None,
            silent: false,
            probe_at: None,
            reordering_at: None,
            excused: None,
            socket: ReceiverDrops::default(),
            lost: Vec::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.rto_at, self.probe_at, self.reordering_at].into_iter().flatten().min()
    }

    /// In the order of [`Timer::ALL`](crate::Timer); the last one is not of data.
    pub(crate) fn timers(&self) -> [Option<Instant>; 4] {
        [self.rto_at, self.probe_at, self.reordering_at, None]
    }

    pub(crate) fn stop(&mut self) {
        self.rto_at = None;
        self.probe_at = None;
        self.reordering_at = None;
        self.probe.cancel();
    }

    /// The receiver says how long it may wait.
    pub(crate) fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    /// What the recovery that is on began with.
    pub(crate) fn episode(&self) -> Option<Cause> {
        self.episode.map(|episode| if episode.timeout { Cause::Timeout } else { Cause::Loss })
    }

    /// See [`Rack::reorders`].
    pub(crate) fn reorders(&self) -> bool {
        matches!(&self.detector, Detector::Rack(rack) if rack.reorders())
    }

    /// Takes the losses found since the last call.
    pub(crate) fn take_lost(&mut self) -> impl Iterator<Item = Lost> + use<> {
        std::mem::take(&mut self.lost).into_iter()
    }

    /// The loss of this transmission, and of no other, says nothing of congestion.
    pub(crate) fn excuse(&mut self, tx: Option<u64>) {
        self.excused = tx;
    }

    /// The socket of the receiver had no room for so many messages so far, and `next_tx` leaves
    /// next.
    pub(crate) fn on_overflow(&mut self, messages: u32, next_tx: u64) {
        self.socket.on_told(messages, next_tx);
    }

    /// A new segment left.
    pub(crate) fn on_sent(&mut self, now: Instant, timing: &Timing) {
        if self.rto_at.is_none() {
            self.rto_at = Some(now + timing.rto);
        }
        self.arm_probe(now, timing);
    }

    /// A segment left again, of which `before` was known until then.
    pub(crate) fn on_resent(&mut self, now: Instant, timing: &Timing, before: &Segment) {
        if let Some(episode) = &mut self.episode {
            if episode.resent == 0 && before.sent_count == 1 {
                episode.original.get_or_insert((before.offset, before.sent_at));
            }
            if std::mem::take(&mut episode.forced) && !episode.timeout {
                // Its answer is due a round trip from now, whatever was waited for before.
                self.rto_at = Some(now + timing.rto);
            }
            episode.resent += 1;
            episode.credit = episode.credit.map(|credit| credit.saturating_sub(1));
        }
        self.rto_at.get_or_insert(now + timing.rto);
        if self.episode.is_some() {
            self.arm_probe(now, timing);
        }
    }

    /// A probe left: segment `tx`, new or repeated.
    pub(crate) fn on_probe_sent(&mut self, tx: u64, end: u64, repeated: bool, duplicates: u32) {
        self.probe.on_sent(tx, end, repeated, duplicates);
        self.probe_at = None;
    }

    /// The probe that is out, if there is one, was sent for another reason than that something may
    /// be lost.
    pub(crate) fn forget_probe(&mut self) {
        self.probe.cancel();
    }

    /// A segment is newly delivered.
    pub(crate) fn on_delivered(&mut self, delivered: &Delivered<'_>) {
        let Delivered { now, segment, largest_tx, next_tx, srtt } = *delivered;
        self.silent = false;
        let later = largest_tx.filter(|largest| segment.sent_count > 1 && *largest < segment.tx);
        let again = segment.fate == Fate::InFlight;
        if let Some(episode) = self.episode.as_mut().filter(|episode| again && segment.tx >= episode.first_tx)
        {
            // As in slow start, a repaired hole makes room for two. A repetition that the receiver
            // did not need makes room for none at first, which keeps repetitions few. With many
            // holes that would repair one a round trip.
            let more = match later {
                None => 2,
                Some(_) if episode.repaired >= MANY_HOLES => 1,
                Some(_) => 0,
            };
            episode.repaired += u32::from(later.is_none());
            episode.credit = episode.credit.map(|credit| credit.saturating_add(more));
        }
        if let Some(episode) = &mut self.episode {
            episode.answered = true;
            // What arrived instead may be what an earlier timeout of the series sent again: that
            // one was none too early.
            let of_series = |largest: u64| (episode.series_tx..episode.first_tx).contains(&largest);
            if later.is_some_and(|largest| segment.fate == Fate::InFlight && !of_series(largest)) {
                episode.spurious += 1;
                let original = episode.original.filter(|(offset, _)| *offset == segment.offset);
                episode.late_rtt =
                    episode.late_rtt.or(original.map(|(_, sent_at)| now.saturating_duration_since(sent_at)));
            }
        }
        let Detector::Rack(rack) = &mut self.detector else { return };
        match later {
            None => rack.on_delivered(now, segment, srtt),
            Some(_) if segment.fate == Fate::InFlight => rack.on_spurious(now, segment, next_tx),
            Some(_) => {}
        }
    }

    /// See [`Rack::on_ack_begins`].
    pub(crate) fn on_ack_begins(&mut self, now: Instant, srtt: Duration, full: bool, next_tx: u64) {
        if let Detector::Rack(rack) = &mut self.detector {
            rack.on_ack_begins(now, srtt, full, next_tx);
        }
    }

    /// Judges what is outstanding after an ACK; gives true if an episode begins.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckOutcome,
        board: &mut Scoreboard,
        sent_packets: &mut SentPackets,
    ) -> bool {
        let was_lost = self.lost.len();
        self.detect(ack, board, sent_packets);
        let congestion = self.is_congestion(was_lost);
        self.socket.settle(board.base().map(|base| base.tx));
        congestion && self.on_loss(board, sent_packets)
    }

    /// Losses that count as congestion were found; gives true if an episode begins.
    fn on_loss(&mut self, board: &Scoreboard, sent_packets: &SentPackets) -> bool {
        if let Detector::Rack(rack) = &mut self.detector {
            rack.on_loss();
        }
        self.begin(board, sent_packets, false)
    }

    /// True if of the losses found since there were `before` any is the network's and not excused.
    fn is_congestion(&mut self, before: usize) -> bool {
        let mut found = false;
        for lost in &mut self.lost[before..] {
            // NewReno finds one hole after the other within an episode, which a loss that begins
            // none would not give it.
            let asks = !matches!(self.detector, Detector::NewReno(_));
            lost.to_socket = asks && self.socket.covers(lost.tx);
            found |= !lost.to_socket && Some(lost.tx) != self.excused;
            if let (Detector::Rack(rack), true) = (&mut self.detector, lost.to_socket) {
                // It was not late: those after it need no longer be waited for than after any other
                // loss.
                rack.on_loss();
            }
        }
        found
    }

    /// What the ACK ended, to be asked after [`Engine::on_ack`].
    pub(crate) fn ended(&mut self, ack: &AckOutcome, board: &mut Scoreboard) -> Option<Ended> {
        if let Some(episode) = self.episode {
            let done = board.una_offset() >= episode.recover;
            // Where all arrived before anything was sent again, nothing was lost.
            let proven = episode.resent > 0 || (done && !episode.timeout);
            let spurious = proven && episode.spurious >= episode.resent;
            // Everything sent again so far had arrived before: what is still marked was judged as
            // hastily.
            if spurious && (done || proves_all(ack, &episode)) {
                board.unmark_lost();
                self.end_episode(true);
                return Some(Ended::Spurious { timeout: episode.timeout, late_rtt: episode.late_rtt });
            }
            if done {
                self.end_episode(false);
                return Some(Ended::Recovered);
            }
        }
        let largest = ack.largest_tx?;
        if self.episode.is_some() {
            self.probe.on_ack_in_recovery(largest);
            return None;
        }
        match self.probe.on_ack(board.una_offset(), largest, ack.duplicates)? {
            Ending::Repaired if self.socket.covers_repaired() => None,
            Ending::Repaired => Some(Ended::RepairedByProbe),
            Ending::Harmless => None,
        }
    }

    /// Restarts the timers after an ACK that delivered something. An ACK that leaves the base where
    /// it was restarts the retransmission timer only if the base left again after all that the
    /// receiver has. Else selective ACKs of later data would put off the timeout of a lost
    /// retransmission for as long as data flows (RFC 6298, rule 5.3).
    pub(crate) fn on_progress(&mut self, ack: &AckOutcome, timing: &Timing, board: &Scoreboard) {
        let overtaken =
            board.base().is_some_and(|base| ack.largest_tx.is_none_or(|largest| base.tx <= largest));
        let running = self.rto_at.filter(|_| !ack.moved && overtaken);
        self.rearm(ack.now, timing, board);
        if running.is_some() {
            self.rto_at = running;
            self.probe_at = None;
            self.arm_probe(ack.now, timing);
        }
    }

    /// Restarts the timers.
    pub(crate) fn rearm(&mut self, now: Instant, timing: &Timing, board: &Scoreboard) {
        if board.is_empty() {
            let reordering_at = self.reordering_at.take();
            debug_assert!(reordering_at.is_none_or(|_| board.in_flight() == 0));
            self.rto_at = None;
            self.probe_at = None;
            return;
        }
        let blind = matches!(self.detector, Detector::NewReno(_));
        let repairs =
            self.episode.is_some_and(|episode| !episode.timeout && episode.resent >= 4 * MANY_HOLES);
        if !(blind && repairs && self.rto_at.is_some()) {
            self.rto_at = (!planted::is(Bug::TimerNotRearmed)).then(|| now + timing.rto);
        }
        self.probe_at = None;
        self.arm_probe(now, timing);
    }

    /// Nothing but this time makes anything leave again.
    pub(crate) fn wait_until(&mut self, at: Instant) {
        self.rto_at = Some(at);
        self.probe_at = None;
    }

    /// The receiver was silent for want of room and has some now: what it refused may leave.
    pub(crate) fn reopen(&mut self) {
        self.silent = false;
        if let Some(episode) =
            self.episode.as_mut().filter(|_| !matches!(self.detector, Detector::NewReno(_)))
        {
            episode.credit = None;
        }
    }

    /// The segment to send again next.
    pub(crate) fn next(&self, board: &Scoreboard) -> Option<Repeat> {
        if let Some(lost) = board.first_lost() {
            let (reason, leave) = match self.episode {
                Some(Episode { timeout: true, credit: Some(0), .. }) if board.in_flight() > 0 => {
                    (Resend::Timeout, Leave::AfterAnswer)
                }
                Some(Episode { timeout: true, forced: true, .. }) => (Resend::Timeout, Leave::Forced),
                Some(Episode { timeout: true, .. }) => (Resend::Timeout, Leave::InWindow),
                Some(Episode { forced: true, .. }) => (Resend::Lost, Leave::Forced),
                _ => (Resend::Lost, Leave::InWindow),
            };
            return Some(Repeat { offset: lost.offset, reason, leave });
        }
        None
    }

    /// A probe wants to leave: new data if there is any that the peer's window allows, else the
    /// last segment.
    pub(crate) fn probe_pending(&self) -> bool {
        self.probe.pending
    }

    /// Fires what is due. After a probe the retransmission timer waits for `rto`, and once it fired
    /// for `next_rto`.
    pub(crate) fn expire(
        &mut self,
        ack: &AckOutcome,
        rto: Duration,
        next_rto: Duration,
        board: &mut Scoreboard,
        sent_packets: &mut SentPackets,
    ) -> Expired {
        let now = ack.now;
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        // The probe first: where both are due, it goes in place of a timeout.
        if due(self.probe_at) {
            self.probe_at = None;
            self.probe.pending = !board.is_empty();
            // Within a recovery, a probe comes before the timer and does not move it.
            if self.episode.is_none() {
                self.rto_at = Some(now + rto);
            }
        }
        if due(self.rto_at) {
            self.stop();
            self.mark_timed_out(ack, board, sent_packets);
            self.begin(board, sent_packets, true);
            self.silent = true;
            self.rto_at = Some(now + next_rto);
            return Expired::Timeout;
        }
        if due(self.reordering_at) {
            self.reordering_at = None;
            let was_lost = self.lost.len();
            self.detect(ack, board, sent_packets);
            if self.is_congestion(was_lost) && self.on_loss(board, sent_packets) {
                return Expired::Episode;
            }
        }
        Expired::Nothing
    }

    fn detect(&mut self, ack: &AckOutcome, board: &mut Scoreboard, sent_packets: &mut SentPackets) {
        let lost = &mut self.lost;
        let in_recovery = self.episode.is_some();
        match &mut self.detector {
            Detector::Rack(rack) => {
                let times = Times {
                    now: ack.now,
                    srtt: ack.srtt,
                    rttvar: ack.rttvar,
                    min_rtt: ack.min_rtt,
                    mss: ack.mss,
                    in_recovery,
                };
                self.reordering_at = rack.detect(&times, board, sent_packets, |segment, state| {
                    lost.push(Lost::new(segment, state, LossTrigger::TimeThreshold));
                });
            }
            Detector::Sack(rule) => {
                let before = self.episode.map_or(u64::MAX, |episode| episode.judged_tx);
                rule.detect(board, ack.mss, before, ack.largest_tx.unwrap_or(u64::MAX), |segment| {
                    let state = sent_packets.get(segment.tx).map(|packet| packet.state);
                    lost.push(Lost::new(segment, state, LossTrigger::SackThreshold));
                });
                sent_packets.forget_resolved(board);
            }
            Detector::NewReno(dup_acks) => {
                // After a timeout nothing is told of the holes but by another one (RFC 6582,
                // section 4).
                let repairs = self.episode.is_some_and(|episode| !episode.timeout);
                let partial = ack.moved && repairs && !planted::is(Bug::PartialAck);
                if ack.moved {
                    dup_acks.reset();
                    board.forget_assumed(ack.bytes.saturating_sub(ack.mss));
                } else if ack.repeats && !board.is_empty() && !self.episode.is_some_and(|e| e.timeout) {
                    // After a timeout they tell of what was sent before it, and nothing of that is
                    // counted any more.
                    board.assume_delivered(ack.mss);
                }
                let third = ack.repeats && dup_acks.on_duplicate() && !in_recovery;
                let hole = board.base().copied().filter(|base| base.fate == Fate::InFlight);
                let recover = self.episode.map_or(0, |episode| episode.recover);
                if let Some(base) = hole.filter(|base| third || (partial && base.offset < recover)) {
                    let state = sent_packets.get(base.tx).map(|packet| packet.state);
                    lost.push(Lost::new(&base, state, LossTrigger::DupAcks));
                    board.mark_lost(base.offset);
                }
                sent_packets.forget_resolved(board);
            }
        }
    }

    /// Begins an episode unless one is on; a timeout begins a new one always.
    fn begin(&mut self, board: &Scoreboard, sent_packets: &SentPackets, timeout: bool) -> bool {
        if self.episode.is_some() && !timeout {
            return false;
        }
        self.probe.cancel();
        self.probe_at = None;
        // The timer backs off to a second only: what leaves by it must not load a path that carries
        // nothing.
        let blind = timeout && (self.silent || matches!(self.detector, Detector::NewReno(_)));
        let series = self.episode.filter(|before| timeout && before.timeout && !before.answered);
        self.episode = Some(Episode {
            recover: board.next_offset(),
            first_tx: sent_packets.next_tx(),
            judged_tx: self.episode.map_or(sent_packets.next_tx(), |before| before.judged_tx),
            series_tx: series.map_or(sent_packets.next_tx(), |series| series.series_tx),
            answered: false,
            original: series.and_then(|series| series.original),
            late_rtt: None,
            resent: 0,
            repaired: 0,
            spurious: 0,
            timeout,
            forced: true,
            credit: blind.then_some(1),
        });
        true
    }

    fn end_episode(&mut self, spurious: bool) {
        self.episode = None;
        match &mut self.detector {
            Detector::Rack(rack) => rack.on_recovered(spurious),
            Detector::Sack(rule) => rule.reset(),
            Detector::NewReno(dup_acks) => dup_acks.reset(),
        }
    }

    /// Marks the base lost, and each segment that has been in flight for longer than a round trip.
    /// Later ones may still be answered, and selective ACKs tell of their loss (RFC 8985, section
    /// 6.3). Without selective ACKs, or before there is a sample, all are marked.
    ///
    /// Selectively acknowledged segments stay so: receivers may not take them back (PROTOCOL.md,
    /// N3), and RFC 6675, section 5.1, clears the marks for no other reason.
    fn mark_timed_out(&mut self, ack: &AckOutcome, board: &mut Scoreboard, sent_packets: &mut SentPackets) {
        let base = board.una_offset();
        let blind = matches!(self.detector, Detector::NewReno(_)) || ack.srtt.is_zero();
        let timed_out = |segment: &&Segment| {
            let late = blind || segment.offset == base || segment.sent_at + ack.srtt <= ack.now;
            segment.fate == Fate::InFlight && late
        };
        let segments: Vec<Segment> = board.segments().filter(timed_out).copied().collect();
        for segment in segments {
            let state = sent_packets.get(segment.tx).map(|packet| packet.state);
            self.lost.push(Lost::new(&segment, state, LossTrigger::Timeout));
            board.mark_lost(segment.offset);
        }
        board.forget_assumed(u64::MAX);
        if let Detector::Sack(rule) = &mut self.detector {
            rule.reset();
        }
        sent_packets.forget_resolved(board);
    }

    fn arm_probe(&mut self, now: Instant, timing: &Timing) {
        let probes = matches!(self.detector, Detector::Rack(_));
        // RFC 8985, section 7.2, would wait for 1 s where nothing was measured, which the first
        // timeout does, too.
        if let Some(srtt) = timing.srtt.filter(|_| probes && self.probe.is_ready()) {
            let timeout = TailLossProbe::timeout(srtt, timing.may_wait, self.max_ack_delay);
            // Never later than the timer, which it then goes in place of (RFC 8985, section 7.2).
            let at = now + timeout;
            self.probe_at = match self.rto_at {
                Some(rto_at) if rto_at <= at => Some(rto_at).filter(|_| self.episode.is_none()),
                _ => Some(at),
            };
        }
    }
}

/// The receiver has nothing that left since the episode began, and yet what was sent again arrived.
fn proves_all(ack: &AckOutcome, episode: &Episode) -> bool {
    ack.largest_tx.is_some_and(|largest| largest < episode.first_tx)
}
