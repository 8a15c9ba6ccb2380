//! Base-only recovery: only the oldest outstanding segment (the base) is retransmitted, on timeout
//! or on exactly the third duplicate ACK. Owns the retransmission timer, the count of duplicate
//! ACKs and the pending retransmission.
//!
//! The variant of the classic format's reference sender (`reference`) has no congestion control, so
//! it declares nothing lost. It counts every ACK that repeats the base as a duplicate, even if its
//! window changed.

use std::time::{Duration, Instant};

use super::events::{AckOutcome, Ended, Expired, Lost, LostTo, Resent, Timeout, Timing, Verdict};
use super::{Flight, Leave, LossRecovery, Pending, Repeat, Resend, Scoreboard, Segment};
use crate::LossTrigger;
use crate::congestion::Cause;

/// Number of the duplicate ACK that triggers a retransmission (RFC 5681, section 3.2). Later ones
/// do not.
const DUP_ACK_THRESHOLD: u32 = 3;

#[derive(Debug, Default)]
pub(crate) struct BaseOnly {
    /// True for the variant of the reference sender.
    reference: bool,
    /// Limit of transmissions of one segment.
    max_attempts: u32,
    deadline: Option<Instant>,
    dup_acks: u32,
    /// Transmissions of the base since the last ACK with a closed window; `None` if there was no
    /// such ACK for this base.
    since_no_room: Option<u32>,
    pending: Option<Resend>,
    episode: Option<Episode>,
    suspect: Option<Suspect>,
    /// Packet number of a lost segment that was divided. All pieces but the first still have this
    /// number.
    recut: Option<u64>,
    /// Packet number of a path MTU probe, whose loss is no sign of congestion.
    excused: Option<u64>,
}

/// Recovery episode: the losses of one window of data.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// End of the data sent when the first loss was detected: the episode ends when it is
    /// acknowledged.
    recover: u64,
    /// True if the first loss was a timeout.
    timeout: bool,
}

/// Base whose presumed loss began an episode, until an ACK acknowledges it.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    /// First packet number sent after the loss was declared.
    first_number: u64,
    /// Time of the base's only earlier transmission; `None` if there were several.
    sent_at: Option<Instant>,
    /// True if the loss was a timeout.
    timeout: bool,
}

impl LossRecovery for BaseOnly {
    fn on_sent(&mut self, now: Instant, timing: &Timing<'_>) {
        if timing.may_wait {
            self.deadline = Some(now + timing.rtt.rto());
        }
    }

    fn on_recut(&mut self, packet_number: u64) {
        self.recut = Some(packet_number);
    }

    fn on_resent(&mut self, resent: &Resent<'_>) {
        self.pending = None;
        self.since_no_room = self.since_no_room.map(|sent| sent.saturating_add(1));
        self.deadline = Some(resent.now + resent.timing.rtt.rto().min(resent.time_left));
    }

    fn excuse(&mut self, packet_number: Option<u64>) {
        self.excused = packet_number;
    }

    fn on_ack(&mut self, ack: &AckOutcome, _: &Timing<'_>, flight: &mut Flight) -> Verdict {
        flight.forget_resolved();
        let mut verdict = Verdict::default();
        if ack.moved {
            verdict.episode = self.cause();
            verdict.ended = self.on_repaired(ack, flight.board.una_offset());
            return verdict;
        }
        if !ack.window.has_room {
            // The receiver is alive with a closed window, so earlier attempts do not count (RFC
            // 9293, section 3.8.6.1).
            self.since_no_room = Some(0);
        }
        if let Some(base) = flight.board.base().filter(|_| self.reference || ack.repeats) {
            let before = self.pending;
            verdict.dup_acks = Some(self.on_dup_ack(base));
            if before.is_none() && self.pending.is_some() && !self.reference {
                verdict.lost.push(lost(base, flight, LossTrigger::DupAcks));
                let congestion = self.excused != Some(base.packet_number);
                verdict.begins = congestion && self.begin_episode(base, flight, false);
            }
        }
        verdict.episode = self.cause();
        verdict
    }

    fn rearm(&mut self, ack: &AckOutcome, timing: &Timing<'_>, board: &Scoreboard) {
        if ack.moved {
            self.on_base_moved(ack.now, timing.rtt.rto(), board.base().map(|base| base.packet_number));
        }
        // After `on_base_moved`, which resets the timer.
        if let Some(wait) = ack.window.persist {
            self.deadline = Some(ack.now + wait);
        }
        if ack.window.reopened {
            self.repeat();
        }
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>, flight: &mut Flight) -> (Expired, Vec<Lost>) {
        if self.deadline.is_none_or(|deadline| deadline > timeout.no_ack.now) {
            return (Expired::Nothing, Vec::new());
        }
        self.deadline = None;
        let Some(base) = flight.board.base().copied() else { return (Expired::Nothing, Vec::new()) };
        if self.attempts(&base) >= self.max_attempts {
            return (Expired::Exhausted, Vec::new());
        }
        self.pending = Some(Resend::Timeout);
        if self.reference {
            return (Expired::Timeout { episode: false }, Vec::new());
        }
        let episode = timeout.lost_to == LostTo::Network && self.begin_episode(&base, flight, true);
        (Expired::Timeout { episode }, vec![lost(&base, flight, LossTrigger::Timeout)])
    }

    fn next(&self, board: &Scoreboard) -> Option<Pending> {
        let (reason, base) = (self.pending?, board.base()?);
        Some(Pending::Repeat(Repeat { offset: base.offset, reason, leave: Leave::Forced }))
    }

    fn timers(&self) -> [Option<Instant>; 3] {
        [self.deadline, None, None]
    }

    fn stop(&mut self) {
        self.deadline = None;
        self.dup_acks = 0;
        self.since_no_room = None;
        self.pending = None;
    }

    fn marks_losses(&self) -> bool {
        false
    }

    fn coalesces_acks(&self) -> bool {
        self.reference
    }

    fn repeats_base(&self) -> bool {
        self.dup_acks > 0
    }
}

impl BaseOnly {
    /// Returns the initial state; one segment is sent at most `max_attempts` times.
    pub(crate) fn new(reference: bool, max_attempts: u32) -> Self {
        Self { reference, max_attempts, ..Self::default() }
    }

    /// Records the loss of the base. Returns true if it is a new congestion event: a timeout (RFC
    /// 5681, section 3.1), or the first loss of a window of data.
    fn begin_episode(&mut self, base: &Segment, flight: &Flight, timeout: bool) -> bool {
        let begins = timeout || self.episode.is_none();
        if begins {
            self.episode = Some(Episode { recover: flight.board.next_offset(), timeout });
            let sent_at = (base.sent_count == 1).then_some(base.sent_at);
            self.suspect.get_or_insert(Suspect { first_number: flight.next_number(), sent_at, timeout });
        }
        begins
    }

    /// Handles an ACK that advances `snd_una` to offset `una`. Returns how it ended the episode.
    fn on_repaired(&mut self, ack: &AckOutcome, una: u64) -> Option<Ended> {
        let disproved = self.disproved(ack.largest_acked);
        let recovered = self.end_episode(una);
        match disproved {
            Some(Suspect { timeout, sent_at, .. }) => {
                let late_rtt = sent_at.map(|sent_at| ack.now.saturating_duration_since(sent_at));
                Some(Ended::Spurious { timeout, late_rtt })
            }
            None => recovered.then_some(Ended::Recovered),
        }
    }

    /// Handles an ACK that acknowledges the base. `largest_acked` is the newest transmission that
    /// arrived. Returns the loss that began the episode if it was spurious: nothing sent since then
    /// has arrived (RFC 3522).
    fn disproved(&mut self, largest_acked: Option<u64>) -> Option<Suspect> {
        let suspect = self.suspect.take()?;
        let disproved = largest_acked.is_some_and(|largest| largest < suspect.first_number);
        if disproved {
            self.episode = None;
        }
        Some(suspect).filter(|_| disproved)
    }

    fn cause(&self) -> Option<Cause> {
        self.episode.map(|episode| if episode.timeout { Cause::Timeout } else { Cause::Loss })
    }

    /// Ends the episode if `una` has reached its end. Returns true if it ended.
    fn end_episode(&mut self, una: u64) -> bool {
        self.episode.take_if(|episode| episode.recover <= una).is_some()
    }

    /// Handles a new base, sent by transmission `base_number` (`None` if nothing is in flight):
    /// resets the state of the old base. If both are pieces of one lost segment, the new base is
    /// lost as well and is retransmitted at once.
    fn on_base_moved(&mut self, now: Instant, rto: Duration, base_number: Option<u64>) {
        self.stop();
        if base_number.is_some() {
            self.deadline = Some(now + rto);
            if self.recut == base_number {
                self.repeat();
            }
        }
    }

    /// Counts a duplicate ACK of the base. Returns the number of duplicates so far.
    fn on_dup_ack(&mut self, base: &Segment) -> u32 {
        self.dup_acks = self.dup_acks.saturating_add(1);
        if self.dup_acks == DUP_ACK_THRESHOLD && self.attempts(base) < self.max_attempts {
            self.pending.get_or_insert(Resend::DupAcks);
        }
        self.dup_acks
    }

    /// Requests a retransmission of the base without a new loss event.
    fn repeat(&mut self) {
        self.pending.get_or_insert(Resend::Lost);
    }

    /// Returns the number of unanswered transmissions of the base.
    fn attempts(&self, base: &Segment) -> u32 {
        self.since_no_room.unwrap_or(u32::from(base.sent_count))
    }
}

fn lost(base: &Segment, flight: &Flight, trigger: LossTrigger) -> Lost {
    Lost::new(base, flight.sent.state_of(base.packet_number), trigger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::{RtoPolicy, Rtt};
    use crate::wire::Numbering;

    /// Rules of at most 50 attempts, and a flight of one segment that was sent `sent_count` times.
    struct Case {
        rules: BaseOnly,
        rtt: Rtt,
        flight: Flight,
        now: Instant,
    }

    impl Case {
        fn new(reference: bool, sent_count: u64) -> Self {
            let now = rdt_testing::epoch();
            let mut flight = Flight::new(Numbering::Bytes, 0);
            flight.measure_from(now);
            flight.push_run(now, 1000, 1);
            let rtt = Rtt::new(RtoPolicy::Reference);
            let mut case = Self { rules: BaseOnly::new(reference, 50), rtt, flight, now };
            (1..sent_count).for_each(|_| case.resend());
            case
        }

        fn base(&self) -> Segment {
            *self.flight.board.base().unwrap()
        }

        fn resend(&mut self) {
            let (before, packet_number) = (self.base(), self.flight.next_number());
            self.flight.on_transmitted(self.now, Some(0), 1000, 1);
            self.flight.board.resend(self.now, 0, packet_number);
            let timing = Timing { rtt: &self.rtt, may_wait: true };
            let resent = Resent { now: self.now, timing, has_room: true, time_left: Duration::MAX, before };
            self.rules.on_resent(&resent);
        }

        fn outcome(&self) -> AckOutcome {
            AckOutcome::none(self.now, 1000, 0, true)
        }

        fn judge(&mut self, ack: &AckOutcome) -> Verdict {
            let timing = Timing { rtt: &self.rtt, may_wait: true };
            self.rules.on_ack(ack, &timing, &mut self.flight)
        }

        fn repeat_ack(&mut self) -> Verdict {
            let ack = AckOutcome { repeats: true, ..self.outcome() };
            self.judge(&ack)
        }

        /// The timer fires now.
        fn time_out(&mut self) -> Expired {
            self.rules.deadline = Some(self.now);
            let no_ack = self.outcome();
            let timeout =
                Timeout { rtt: &self.rtt, no_ack, next_rto: Duration::ZERO, lost_to: LostTo::Network };
            self.rules.on_timeout(&timeout, &mut self.flight).0
        }
    }

    #[test]
    fn third_duplicate_alone_resends_base() {
        for reference in [true, false] {
            let mut case = Case::new(reference, 1);
            for (count, pending) in [(1, None), (2, None), (3, Some(Resend::DupAcks))] {
                let verdict = case.repeat_ack();
                assert_eq!((verdict.dup_acks, case.rules.pending), (Some(count), pending));
                assert_eq!(verdict.begins, count == 3 && !reference);
            }
            case.resend();
            for _ in 0..96 {
                case.repeat_ack();
            }
            assert_eq!(case.rules.pending, None, "once per base");
        }
    }

    #[test]
    fn reference_counts_window_updates_as_duplicates() {
        for (reference, counted) in [(true, Some(1)), (false, None)] {
            let mut case = Case::new(reference, 1);
            let ack = case.outcome();
            assert_eq!(case.judge(&ack).dup_acks, counted);
        }
    }

    #[test]
    fn losses_of_one_flight_are_one_congestion() {
        let mut case = Case::new(false, 1);
        let base = case.base();
        let Case { rules, flight, now, .. } = &mut case;
        assert!(rules.begin_episode(&base, flight, false) && rules.cause() == Some(Cause::Loss));
        rules.on_base_moved(*now, Duration::ZERO, Some(9));
        flight.push_run(*now, 1000, 1);
        assert!(!rules.begin_episode(&base, flight, false) && !rules.end_episode(999));
        assert!(rules.end_episode(1000) && !rules.end_episode(1000));
        assert!(rules.begin_episode(&base, flight, false) && rules.begin_episode(&base, flight, true));
        flight.push_run(*now, 1000, 1);
        assert!(rules.begin_episode(&base, flight, true) && rules.cause() == Some(Cause::Timeout));
        assert!(!rules.begin_episode(&base, flight, false) && rules.end_episode(3000));
    }

    #[test]
    fn attempts_restart_when_receiver_has_no_room() {
        let mut case = Case::new(false, 50);
        let mut ack = case.outcome();
        ack.window.has_room = false;
        case.judge(&ack);
        for _ in 0..50 {
            assert_eq!(case.time_out(), Expired::Timeout { episode: true });
            case.resend();
        }
        assert_eq!(case.time_out(), Expired::Exhausted);
        case.rules.on_base_moved(case.now, Duration::ZERO, Some(9));
        assert_eq!(case.time_out(), Expired::Exhausted, "another base, another count");
    }

    #[test]
    fn echo_from_before_loss_disproves_it() {
        for (largest, disproved) in [(None, false), (Some(0), true), (Some(1), false)] {
            let mut case = Case::new(false, 1);
            let base = case.base();
            assert!(case.rules.begin_episode(&base, &case.flight, true));
            case.resend();
            // After another timeout of the same base, the time of the first one counts.
            assert!(case.rules.begin_episode(&base, &case.flight, true));
            let later = case.now + Duration::from_millis(300);
            let ack = AckOutcome { now: later, moved: true, largest_acked: largest, ..case.outcome() };
            let ended = case.judge(&ack).ended;
            let late_rtt = Some(Duration::from_millis(300));
            assert_eq!(
                ended,
                disproved.then_some(Ended::Spurious { timeout: true, late_rtt }),
                "{largest:?}"
            );
            assert_eq!(case.rules.cause().is_none(), disproved, "{largest:?}");
        }
    }

    #[test]
    fn attempt_limit_holds_for_both_reasons() {
        let mut case = Case::new(false, 50);
        for _ in 0..3 {
            case.repeat_ack();
        }
        assert_eq!((case.rules.pending, case.time_out()), (None, Expired::Exhausted));
        assert_eq!(Case::new(false, 49).time_out(), Expired::Timeout { episode: true });
        let mut empty = Case::new(false, 1);
        empty.flight.acknowledge(empty.now, 1000, |_| {});
        assert_eq!(empty.time_out(), Expired::Nothing);
    }

    #[test]
    fn excused_loss_is_no_congestion() {
        for (excused, begins) in [(Some(0), false), (Some(1), true), (None, true)] {
            let mut case = Case::new(false, 1);
            case.rules.excuse(excused);
            assert!(!case.rules.repeats_base());
            case.repeat_ack();
            assert!(case.rules.repeats_base());
            case.repeat_ack();
            let verdict = case.repeat_ack();
            assert_eq!((verdict.lost.len(), verdict.begins), (1, begins), "{excused:?}");
        }
    }
}
