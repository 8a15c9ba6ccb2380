//! ECN of a transfer: validation that the path carries the codepoints and the receiver reports them
//! (RFC 9000, section 13.4.2 and appendix A.4), and one reduction per RTT for CE marks (RFC 3168,
//! section 6.1.2).
//!
//! Every data packet, retransmissions and probes included, is sent with ECT(0) until validation
//! fails, and the receiver reports counts of packets and of codepoints. So every received packet
//! must have a codepoint, and the sender needs no record per packet. Validation begins again on a
//! new path. The counts go on there, and packets of the old path may still arrive. A path that
//! changes ECT(0) to ECT(1) is not detected: the receiver reports one count for both, and a sender
//! that treats CE as loss need not tell them apart.

use crate::Ecn;
use crate::congestion::Cause;
use crate::wire::Marks;

/// Packets sent with ECT(0) of which at least one must be acknowledged (RFC 9000, section 13.4.2).
const VALIDATION_PACKETS: u64 = 10;
/// Consecutive timeouts after which the path presumably drops packets with ECT(0).
const BLACK_HOLE_TIMEOUTS: u32 = 3;

/// State of ECN validation of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EcnState {
    /// Not used: disabled, or not supported by the receiver.
    #[default]
    Off,
    /// Packets are sent with ECT(0), and none is acknowledged yet.
    Testing,
    /// Validated: the codepoints arrive and are reported.
    On,
    /// Validation failed; ECN is not used on this path.
    Failed(EcnFailure),
}

impl EcnState {
    /// Returns the state as one word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Testing => "testing",
            Self::On => "on",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the reason if validation failed.
    pub fn failure(self) -> Option<EcnFailure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// Reason why ECN validation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EcnFailure {
    /// Packets arrived without their codepoint.
    #[error("packets arrive without the codepoint that they were sent with")]
    Bleached,
    /// The reported counts are impossible: they exceed the packets sent, or decrease.
    #[error("the receiver's counts cannot be right")]
    Counts,
    /// Packets with a codepoint presumably do not arrive.
    #[error("packets with a codepoint seem not to arrive")]
    BlackHole,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct PathEcn {
    pub(super) state: EcnState,
    /// Newest counts reported by the receiver.
    counts: Marks,
    /// Number of the first transmission on this path.
    first_number: u64,
    /// Packets without a codepoint that the receiver had reported when the path began.
    plain_before: u32,
    /// Limit of further packets without one: those of the path before that were not acknowledged.
    late: u32,
    /// Timeouts since counts were last reported.
    timeouts: u32,
    answered: Answered,
}

/// Transmissions to whose congestion the sender has already responded.
#[derive(Debug, Default, Clone, Copy)]
struct Answered {
    /// All transmissions below this number.
    below: u64,
    /// True if the response was to a CE mark.
    to_mark: bool,
}

impl PathEcn {
    /// Returns the initial state; `wanted` if ECN is enabled.
    pub(super) fn new(wanted: bool) -> Self {
        Self { state: if wanted { EcnState::Testing } else { EcnState::Off }, ..Self::default() }
    }

    /// Returns the codepoint of data packets.
    pub(super) fn codepoint(&self) -> Ecn {
        if self.is_used() { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// Begins validation again, on a new path. Its first transmission is `first_number`, and
    /// `largest_acked` is the newest one that is acknowledged.
    pub(super) fn restart(&mut self, first_number: u64, largest_acked: Option<u64>) {
        if self.state == EcnState::Off {
            return;
        }
        let late = first_number - largest_acked.map_or(0, |number| number + 1);
        self.state = EcnState::Testing;
        self.first_number = first_number;
        self.plain_before = plain(self.counts);
        self.late = u32::try_from(late).unwrap_or(u32::MAX / 2);
        self.timeouts = 0;
        // Marks of the old path say nothing about the new one.
        self.answered = Answered { below: first_number, to_mark: false };
    }

    /// Disables ECN, for a receiver that reports no marks.
    pub(super) fn refuse(&mut self) {
        self.state = EcnState::Off;
    }

    /// Processes the counts of an ACK whose newest transmission is `packet_number`. Returns the
    /// number of packets marked CE since the last report, and true if they require a reduction.
    pub(super) fn on_ack(&mut self, counts: Marks, packet_number: Option<u64>) -> (u32, bool) {
        let arrived = counts.packets.wrapping_sub(self.counts.packets);
        let marked = self.on_report(counts);
        (marked, packet_number.is_some_and(|number| self.is_news(number, arrived, marked)))
    }

    /// Validates new counts. Returns the number of packets marked CE since the last report.
    fn on_report(&mut self, counts: Marks) -> u32 {
        let arrived = counts.packets.wrapping_sub(self.counts.packets);
        // A reordered ACK has old counts.
        if arrived == 0 || arrived > u32::MAX / 2 {
            return 0;
        }
        let marked = counts.ce.wrapping_sub(self.counts.ce);
        self.counts = counts;
        if !self.is_used() {
            return 0;
        }
        let plain = plain(counts).wrapping_sub(self.plain_before);
        self.timeouts = 0;
        self.state = if marked > arrived || plain > u32::MAX / 2 {
            EcnState::Failed(EcnFailure::Counts)
        } else if plain > self.late {
            EcnState::Failed(EcnFailure::Bleached)
        } else {
            EcnState::On
        };
        if self.is_used() { marked } else { 0 }
    }

    /// Handles a retransmission timeout; `next_number` is the number of the next transmission.
    pub(super) fn on_timeout(&mut self, next_number: u64) {
        self.timeouts += 1;
        let sent = next_number.saturating_sub(self.first_number);
        let none_arrived = self.state == EcnState::Testing && sent >= VALIDATION_PACKETS;
        if self.is_used() && (none_arrived || self.timeouts >= BLACK_HOLE_TIMEOUTS) {
            self.state = EcnState::Failed(EcnFailure::BlackHole);
        }
    }

    /// True if an ACK of `arrived` packets up to transmission `packet_number`, of which `marked`
    /// have CE, requires a reduction: at least one mark must belong to a packet sent after the last
    /// response.
    fn is_news(&self, packet_number: u64, arrived: u32, marked: u32) -> bool {
        let new = (packet_number + 1).saturating_sub(self.answered.below);
        u64::from(marked) > u64::from(arrived).saturating_sub(new)
    }

    /// True if the sender has already responded, because of a CE mark, to the congestion in which
    /// packet `packet_number` was lost.
    pub(super) fn covers_loss(&self, packet_number: u64) -> bool {
        self.answered.to_mark && packet_number < self.answered.below
    }

    /// Records a response to the congestion of all transmissions below `next_number`.
    pub(super) fn on_answered(&mut self, cause: Cause, next_number: u64) {
        self.answered = Answered { below: next_number, to_mark: cause == Cause::Ecn };
    }

    fn is_used(&self) -> bool {
        matches!(self.state, EcnState::Testing | EcnState::On)
    }
}

/// Returns the number of packets without a codepoint.
fn plain(counts: Marks) -> u32 {
    counts.packets.wrapping_sub(counts.ect).wrapping_sub(counts.ce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: u32, ce: u32, ect: u32) -> Marks {
        Marks { packets, ce, ect }
    }

    #[test]
    fn consistent_counts_validate_path() {
        let mut ecn = PathEcn::new(true);
        assert_eq!((ecn.state, ecn.codepoint()), (EcnState::Testing, Ecn::Ect0));
        assert_eq!(ecn.on_report(counts(0, 0, 0)), 0);
        assert_eq!(ecn.state, EcnState::Testing, "nothing arrived");
        assert_eq!(ecn.on_report(counts(5, 1, 4)), 1);
        assert_eq!(ecn.on_report(counts(9, 3, 6)), 2);
        assert_eq!(ecn.on_report(counts(7, 1, 6)), 0, "overtaken by the one before");
        assert_eq!(ecn.on_report(counts(10, 3, 7)), 0);
        assert_eq!((ecn.state, ecn.codepoint()), (EcnState::On, Ecn::Ect0));
    }

    #[test]
    fn counts_wrap() {
        let mut ecn = PathEcn { counts: counts(u32::MAX - 1, u32::MAX, u32::MAX), ..PathEcn::new(true) };
        assert_eq!(ecn.on_report(counts(2, 1, 1)), 2);
        assert_eq!(ecn.state, EcnState::On);
    }

    #[test]
    fn inconsistent_counts_disable_ecn_for_good() {
        for (then, failure) in [
            (counts(12, 1, 10), EcnFailure::Bleached),
            (counts(12, 0, 0), EcnFailure::Counts),
            (counts(12, 1, 12), EcnFailure::Counts),
            (counts(12, 4, 8), EcnFailure::Counts),
        ] {
            let mut ecn = PathEcn::new(true);
            ecn.on_report(counts(10, 1, 9));
            assert_eq!(ecn.on_report(then), 0, "{then:?}");
            assert_eq!((ecn.state.failure(), ecn.codepoint()), (Some(failure), Ecn::NotEct), "{then:?}");
            assert_eq!(ecn.on_report(counts(20, 9, 11)), 0, "{then:?}");
            assert_eq!(ecn.state.name(), "failed");
        }
        let mut ecn = PathEcn::new(true);
        ecn.on_report(counts(1, 0, 0));
        assert_eq!(ecn.state, EcnState::Failed(EcnFailure::Bleached), "from the first");
    }

    #[test]
    fn ten_unheard_packets_or_three_timeouts_disable_ecn() {
        let black_hole = EcnState::Failed(EcnFailure::BlackHole);
        let mut ecn = PathEcn::new(true);
        ecn.on_timeout(10);
        assert_eq!(ecn.state, black_hole);
        let mut ecn = PathEcn::new(true);
        ecn.on_timeout(2);
        ecn.on_timeout(3);
        assert_eq!(ecn.state, EcnState::Testing);
        ecn.on_timeout(4);
        assert_eq!(ecn.state, black_hole);
        let mut ecn = PathEcn::new(true);
        for n in 1..5 {
            ecn.on_report(counts(n, 0, n));
            ecn.on_timeout(100);
            ecn.on_timeout(200);
            assert_eq!(ecn.state, EcnState::On, "it has been heard of since");
        }
        ecn.on_timeout(300);
        assert_eq!(ecn.state, black_hole);
    }

    #[test]
    fn new_path_is_validated_again() {
        let mut ecn = PathEcn::new(true);
        ecn.on_report(counts(10, 0, 0));
        assert_eq!(ecn.state, EcnState::Failed(EcnFailure::Bleached));
        ecn.on_report(counts(20, 0, 0));
        // Numbers 20 to 24 may still arrive, and they left without a codepoint.
        ecn.restart(25, Some(19));
        assert_eq!((ecn.state, ecn.codepoint()), (EcnState::Testing, Ecn::Ect0));
        let mut moved = ecn;
        assert_eq!(ecn.on_report(counts(35, 2, 8)), 2);
        assert_eq!(ecn.state, EcnState::On);
        assert_eq!(ecn.on_report(counts(36, 2, 8)), 0);
        assert_eq!(ecn.state, EcnState::Failed(EcnFailure::Bleached), "one more than may be late");
        moved.on_timeout(34);
        assert_eq!(moved.state, EcnState::Testing, "9 packets of the new path");
        moved.on_timeout(35);
        assert_eq!(moved.state, EcnState::Failed(EcnFailure::BlackHole));
    }

    #[test]
    fn marks_of_old_path_are_no_news() {
        let mut ecn = PathEcn::new(true);
        ecn.restart(25, Some(19));
        assert!(!ecn.is_news(24, 5, 5) && ecn.is_news(25, 1, 1));
    }

    #[test]
    fn unwanted_or_refused_ecn_stays_off() {
        let mut refused = PathEcn::new(true);
        refused.refuse();
        let mut moved = refused;
        moved.restart(7, None);
        for mut ecn in [refused, moved, PathEcn::new(false)] {
            assert_eq!(ecn.on_report(counts(9, 1, 8)), 0);
            for _ in 0..9 {
                ecn.on_timeout(99);
            }
            assert_eq!((ecn.state, ecn.codepoint()), (EcnState::Off, Ecn::NotEct));
        }
    }

    #[test]
    fn mark_is_answered_once_per_round_trip() {
        let mut ecn = PathEcn::new(true);
        assert!(ecn.is_news(0, 1, 1));
        ecn.on_answered(Cause::Ecn, 20);
        assert!(!ecn.is_news(19, 1, 1) && ecn.is_news(20, 1, 1) && !ecn.is_news(20, 1, 0));
        assert!(!ecn.is_news(24, 16, 11), "eleven of them had left before the answer");
        assert!(ecn.is_news(24, 16, 12), "and one of the marks is of another");
        assert!(ecn.covers_loss(19) && !ecn.covers_loss(20));
        ecn.on_answered(Cause::Loss, 40);
        assert!(!ecn.is_news(39, 1, 1) && ecn.is_news(40, 1, 1));
        assert!(!ecn.covers_loss(39), "losses are told apart by the rules that find them");
    }

    #[test]
    fn every_failure_has_its_words() {
        let failures = [EcnFailure::Bleached, EcnFailure::Counts, EcnFailure::BlackHole];
        let words = failures.map(|failure| failure.to_string());
        assert!(words.iter().all(|word| !word.is_empty()));
        assert!(words[0] != words[1] && words[1] != words[2] && words[0] != words[2]);
        let names = [EcnState::Off, EcnState::Testing, EcnState::On].map(EcnState::name);
        assert_eq!(names, ["off", "testing", "on"]);
    }
}
