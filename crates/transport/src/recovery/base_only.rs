//! Which packet to send again and when: the base only, by timeout or on exactly the third duplicate
//! ACK. Owns the retransmission timer, the duplicate count and the decision that waits to be
//! carried out. Knows no bytes, no window and no estimator: the timeout in force is handed in.

use std::time::{Duration, Instant};

use super::Resend;
use crate::congestion::Cause;
use crate::recovery::Segment;

/// The duplicate ACK that triggers a retransmission (RFC 5681, section 3.2), and no later one.
const DUP_ACK_THRESHOLD: u32 = 3;

/// What an expired timer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// The base will be sent again.
    Resend,
    /// It was sent as often as it may be.
    Exhausted,
    /// Nothing was in flight.
    Nothing,
}

/// Base-only recovery.
#[derive(Debug, Default)]
pub(crate) struct BaseOnly {
    deadline: Option<Instant>,
    dup_acks: u32,
    /// How often the base was sent since the receiver last said that it has no room for it.
    since_no_room: Option<u32>,
    pending: Option<Resend>,
    episode: Option<Episode>,
    suspect: Option<Suspect>,
    /// Transmission of a segment that was cut into pieces when it was lost. The pieces but the
    /// first have this number still.
    recut: Option<u64>,
}

/// Losses of one flight.
#[derive(Debug, Clone, Copy)]
struct Episode {
    /// One past the highest byte sent when the first was found.
    recover: u64,
    /// The timer found it.
    timeout: bool,
}

/// A base whose loss began an episode, until an ACK moves it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    /// Number of the first transmission after it was taken for lost.
    first_tx: u64,
    /// When its only transmission until then had left.
    sent_at: Option<Instant>,
    /// The timer found it.
    pub(crate) timeout: bool,
}

impl Suspect {
    /// How long the transmission took that was taken for lost, if it was its only one.
    pub(crate) fn late_rtt(&self, now: Instant) -> Option<Duration> {
        self.sent_at.map(|sent_at| now.saturating_duration_since(sent_at))
    }
}

impl BaseOnly {
    /// The retransmission to make next, if any.
    pub(crate) fn pending(&self) -> Option<Resend> {
        self.pending
    }

    /// When the timer fires.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Starts the timer: a packet left an empty window, or a SYN or FIN left.
    pub(crate) fn arm(&mut self, now: Instant, rto: Duration) {
        self.deadline = Some(now + rto);
    }

    /// Nothing waits for an answer any more.
    pub(crate) fn stop(&mut self) {
        let Self { episode, suspect, recut, .. } = *self;
        *self = Self { episode, suspect, recut, ..Self::default() };
    }

    /// The base is lost, with everything below `recover` sent; `next_tx` leaves next. True if that
    /// is a congestion of its own: by the timer, or the first loss of a flight.
    pub(crate) fn begin_episode(
        &mut self,
        base: &Segment,
        recover: u64,
        next_tx: u64,
        timeout: bool,
    ) -> bool {
        let begins = timeout || self.episode.is_none();
        if begins {
            self.episode = Some(Episode { recover, timeout });
            let sent_at = (base.sent_count == 1).then_some(base.sent_at);
            self.suspect.get_or_insert(Suspect { first_tx: next_tx, sent_at, timeout });
        }
        begins
    }

    /// An ACK moves the base, of a receiver that has nothing newer than `largest_tx`. Gives the
    /// loss that began the episode if it was none: the receiver has nothing that left since (RFC
    /// 3522).
    pub(crate) fn disproved(&mut self, largest_tx: Option<u64>) -> Option<Suspect> {
        let suspect = self.suspect.take()?;
        let disproved = largest_tx.is_some_and(|largest| largest < suspect.first_tx);
        if disproved {
            self.episode = None;
        }
        Some(suspect).filter(|_| disproved)
    }

    /// What the recovery that is on began with.
    pub(crate) fn episode(&self) -> Option<Cause> {
        self.episode.map(|episode| if episode.timeout { Cause::Timeout } else { Cause::Loss })
    }

    /// Everything below `una` is acknowledged; true if that ends an episode.
    pub(crate) fn end_episode(&mut self, una: u64) -> bool {
        self.episode.take_if(|episode| episode.recover <= una).is_some()
    }

    /// An ACK moved the base; what was decided for the old one is void.
    pub(crate) fn on_base_moved(&mut self, now: Instant, rto: Duration, in_flight: bool) {
        self.stop();
        if in_flight {
            self.arm(now, rto);
        }
    }

    /// The segment that transmission `tx` carried is lost and leaves in pieces.
    pub(crate) fn on_recut(&mut self, tx: u64) {
        self.recut = Some(tx);
    }

    /// An ACK moved the base to what transmission `tx` carried. If the piece before it was a part
    /// of the same, it is lost as well, and no timer has to say so.
    pub(crate) fn on_next_piece(&mut self, tx: u64) {
        if self.recut == Some(tx) {
            self.repeat();
        }
    }

    /// An ACK repeated the base; gives how often that happened.
    pub(crate) fn on_dup_ack(&mut self, base: &Segment, attempts: u32) -> u32 {
        self.dup_acks = self.dup_acks.saturating_add(1);
        if self.dup_acks == DUP_ACK_THRESHOLD && self.attempts(base) < attempts {
            self.pending.get_or_insert(Resend::DupAcks);
        }
        self.dup_acks
    }

    /// The receiver is there and has no room, so what was sent of the base was not in vain (RFC
    /// 9293, section 3.8.6.1).
    pub(crate) fn on_no_room(&mut self) {
        self.since_no_room = Some(0);
    }

    /// The base is to leave again, although it is not lost.
    pub(crate) fn repeat(&mut self) {
        self.pending.get_or_insert(Resend::Lost);
    }

    /// How often ACKs repeated the base.
    pub(crate) fn dup_acks(&self) -> u32 {
        self.dup_acks
    }

    /// The pending retransmission was made.
    pub(crate) fn on_resent(&mut self, now: Instant, rto: Duration) {
        self.pending = None;
        self.since_no_room = self.since_no_room.map(|sent| sent.saturating_add(1));
        self.arm(now, rto);
    }

    /// True, once, if the timer is due.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let due = self.deadline.is_some_and(|deadline| deadline <= now);
        if due {
            self.deadline = None;
        }
        due
    }

    /// Decides what the timer of a data packet, having expired, means.
    pub(crate) fn on_timeout(&mut self, base: Option<&Segment>, attempts: u32) -> Expiry {
        match base {
            None => Expiry::Nothing,
            Some(base) if self.attempts(base) >= attempts => Expiry::Exhausted,
            Some(_) => {
                self.pending = Some(Resend::Timeout);
                Expiry::Resend
            }
        }
    }

    /// How often the base was sent in vain.
    fn attempts(&self, base: &Segment) -> u32 {
        self.since_no_room.unwrap_or(u32::from(base.sent_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Fate;

    fn base(sent_count: u16) -> Segment {
        let sent_at = crate::testing::epoch();
        Segment { offset: 0, sent_at, tx: 0, len: 1, sent_count, fate: Fate::InFlight }
    }

    #[test]
    fn only_the_third_duplicate_decides_anything() {
        let mut recovery = BaseOnly::default();
        let base = base(1);
        for (count, pending) in [(1, None), (2, None), (3, Some(Resend::DupAcks))] {
            assert_eq!((recovery.on_dup_ack(&base, 50), recovery.pending()), (count, pending));
        }
        recovery.on_resent(base.sent_at, Duration::ZERO);
        for _ in 0..96 {
            recovery.on_dup_ack(&base, 50);
        }
        assert_eq!(recovery.pending(), None, "once per base");
    }

    #[test]
    fn the_losses_of_a_flight_are_one_congestion_and_each_timeout_is_one() {
        let mut recovery = BaseOnly::default();
        let base = base(1);
        let begin =
            |recovery: &mut BaseOnly, recover, timeout| recovery.begin_episode(&base, recover, 7, timeout);
        assert!(begin(&mut recovery, 1000, false) && recovery.episode() == Some(Cause::Loss));
        recovery.on_base_moved(base.sent_at, Duration::ZERO, true);
        assert!(!begin(&mut recovery, 2000, false) && !recovery.end_episode(999));
        assert!(recovery.end_episode(1000) && !recovery.end_episode(1000));
        assert!(begin(&mut recovery, 2000, false) && begin(&mut recovery, 3000, true));
        assert!(begin(&mut recovery, 4000, true) && recovery.episode() == Some(Cause::Timeout));
        assert!(!begin(&mut recovery, 5000, false) && recovery.end_episode(4000));
    }

    #[test]
    fn attempts_are_counted_from_the_last_time_that_there_was_no_room() {
        let mut recovery = BaseOnly::default();
        let base = base(50);
        recovery.on_no_room();
        for _ in 0..50 {
            assert_eq!(recovery.on_timeout(Some(&base), 50), Expiry::Resend);
            recovery.on_resent(base.sent_at, Duration::ZERO);
        }
        assert_eq!(recovery.on_timeout(Some(&base), 50), Expiry::Exhausted);
        recovery.on_base_moved(base.sent_at, Duration::ZERO, true);
        assert_eq!(recovery.on_timeout(Some(&base), 50), Expiry::Exhausted, "another base, another count");
    }

    #[test]
    fn an_echo_from_before_the_loss_disproves_it() {
        for (largest, disproved) in [(None, false), (Some(6), true), (Some(7), false)] {
            let mut recovery = BaseOnly::default();
            let base = base(1);
            assert!(recovery.begin_episode(&base, 1000, 7, true));
            // Another timeout of the same base: what counts is the first.
            assert!(recovery.begin_episode(&base, 1000, 8, true));
            let suspect = recovery.disproved(largest);
            assert_eq!(suspect.is_some(), disproved, "{largest:?}");
            assert_eq!(recovery.episode().is_none(), disproved, "{largest:?}");
            let later = base.sent_at + Duration::from_millis(300);
            let rtt = suspect.and_then(|suspect| suspect.late_rtt(later));
            assert_eq!(rtt.is_some(), disproved, "{largest:?}");
        }
    }

    #[test]
    fn the_attempt_limit_holds_for_both_reasons() {
        let mut recovery = BaseOnly::default();
        for _ in 0..3 {
            recovery.on_dup_ack(&base(50), 50);
        }
        assert_eq!(recovery.pending(), None);
        assert_eq!(recovery.on_timeout(Some(&base(50)), 50), Expiry::Exhausted);
        assert_eq!(recovery.on_timeout(Some(&base(49)), 50), Expiry::Resend);
        assert_eq!(recovery.on_timeout(None, 50), Expiry::Nothing);
    }
}
