//! Loss detection by counting: segments that were selectively acknowledged above (RFC 6675,
//! `IsLost`), or duplicate and partial ACKs (RFC 5681, section 3.2; RFC 6582).

use super::episode::Episode;
use super::events::AckOutcome;
use crate::recovery::{Fate, LossDetection, Scoreboard, Segment};

/// `DupThresh` of both RFCs.
pub(crate) const DUP_THRESHOLD: u32 = 3;

/// `IsLost` of RFC 6675, section 4: a segment is lost if [`DUP_THRESHOLD`] segments above it, or
/// more bytes than `DUP_THRESHOLD` - 1 full segments have, were selectively acknowledged.
#[derive(Debug, Default)]
pub(crate) struct SackThreshold {
    /// End of the data that was already examined in the current episode, stream offset.
    judged: u64,
}

impl SackThreshold {
    /// Marks lost segments and calls `on_lost` for each. `largest_acked` is the newest transmission
    /// that arrived.
    ///
    /// A segment retransmitted by transmission `before` or later is not examined again in this
    /// episode (`HighRxt` of section 4). For one retransmitted in an earlier episode only SACKs of
    /// later transmissions count, because older SACKs say nothing of the retransmission.
    pub(crate) fn detect(
        &mut self,
        board: &mut Scoreboard,
        mss: u64,
        before: u64,
        largest_acked: u64,
        mut on_lost: impl FnMut(&Segment),
    ) {
        let Some(edge) = Self::edge(board, mss, 0, |_| true) else { return };
        let mut judged = edge;
        let mut lost = Vec::new();
        for segment in board.segments_from(self.judged).take_while(|segment| segment.offset < edge) {
            let again = segment.sent_count > 1;
            if segment.fate != Fate::InFlight || (again && segment.packet_number >= before) {
                continue;
            }
            let later = |above: &Segment| above.packet_number > segment.packet_number;
            let overtaken = || {
                segment.packet_number < largest_acked
                    && Self::edge(board, mss, segment.offset + 1, later).is_some()
            };
            if again && !overtaken() {
                judged = judged.min(segment.offset);
                continue;
            }
            lost.push(*segment);
        }
        for segment in lost {
            on_lost(&segment);
            board.mark_lost(segment.offset);
        }
        self.judged = self.judged.max(judged);
    }

    /// Examines all outstanding segments again, after an episode or a timeout.
    pub(crate) fn reset(&mut self) {
        self.judged = 0;
    }

    /// Returns the offset below which segments are lost, from the selectively acknowledged segments
    /// at `from` or above for which `counts` is true.
    fn edge(board: &Scoreboard, mss: u64, from: u64, counts: impl Fn(&Segment) -> bool) -> Option<u64> {
        let (mut count, mut bytes) = (0, 0);
        for segment in board.sacked_segments_down().take_while(|segment| segment.offset >= from) {
            if !counts(segment) {
                continue;
            }
            count += 1;
            bytes += u64::from(segment.len);
            if count >= DUP_THRESHOLD || bytes > u64::from(DUP_THRESHOLD - 1) * mss {
                return Some(segment.offset);
            }
        }
        None
    }
}

/// Count of duplicate ACKs (RFC 5681).
#[derive(Debug)]
pub(crate) struct DupAcks {
    /// True if fast recovery continues after partial ACKs, which reveal further holes (RFC 6582).
    is_newreno: bool,
    count: u32,
}

impl DupAcks {
    pub(crate) fn new(rule: LossDetection) -> Self {
        Self { is_newreno: rule == LossDetection::NewReno, count: 0 }
    }

    /// Processes an ACK. Returns the base if the ACK reveals its loss, and marks it.
    pub(crate) fn detect(
        &mut self,
        ack: &AckOutcome,
        episode: Option<&Episode>,
        board: &mut Scoreboard,
    ) -> Option<Segment> {
        // In slow start after a timeout, partial ACKs reveal no holes (RFC 6582, section 4).
        let repairs = episode.is_some_and(|episode| !episode.slow_start());
        let partial = ack.moved && repairs && self.is_newreno;
        if ack.moved {
            self.reset();
            // Otherwise the window deflates to ssthresh, and all outstanding data counts again.
            let covered = if self.is_newreno { ack.bytes.saturating_sub(ack.mss) } else { u64::MAX };
            board.forget_assumed(covered);
        } else if ack.repeats && !board.is_empty() && (repairs || episode.is_none()) {
            // In slow start after a timeout, duplicate ACKs are for data sent before it, which no
            // longer counts as in flight.
            board.assume_delivered(ack.mss);
        }
        self.count = self.count.saturating_add(u32::from(ack.repeats));
        let third = ack.repeats && self.count == DUP_THRESHOLD && episode.is_none();
        let recover = episode.map_or(0, |episode| episode.recover);
        let base = board.base().copied().filter(|base| base.fate == Fate::InFlight);
        let lost = base.filter(|base| third || (partial && base.offset < recover))?;
        board.mark_lost(lost.offset);
        Some(lost)
    }

    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::wire::Numbering;
    use rdt_testing::random;

    /// `IsLost` of RFC 6675, section 4, as written there.
    fn is_lost(board: &Scoreboard, offset: u64, mss: u64) -> bool {
        let above = |s: &&Segment| s.fate == Fate::Sacked && s.offset > offset;
        let bytes: u64 = board.segments().filter(above).map(|s| u64::from(s.len)).sum();
        board.segments().filter(above).count() >= DUP_THRESHOLD as usize
            || bytes > u64::from(DUP_THRESHOLD - 1) * mss
    }

    #[test]
    fn detection_follows_rfc6675_is_lost() {
        let now = rdt_testing::epoch();
        for seed in 0..500 {
            let mut random = random(seed);
            let mut board = Scoreboard::new(Numbering::Bytes);
            let mut rule = SackThreshold::default();
            for packet_number in 0..40 {
                board.push(now, 1 + u32::try_from(random(300)).unwrap(), packet_number);
            }
            for step in 0..20 {
                let start = random(board.next_offset());
                board.sack(&(start..start + random(900)), |_| {});
                let flying = board.segments().filter(|s| s.fate == Fate::InFlight);
                let expected: Vec<u64> =
                    flying.map(|s| s.offset).filter(|offset| is_lost(&board, *offset, 200)).collect();
                let mut lost = Vec::new();
                rule.detect(&mut board, 200, u64::MAX, u64::MAX, |segment| lost.push(segment.offset));
                assert_eq!(lost, expected, "seed {seed} step {step}");
            }
        }
    }
    #[test]
    fn repetition_is_judged_by_later_segments() {
        let now = rdt_testing::epoch();
        let mut board = Scoreboard::new(Numbering::Bytes);
        for packet_number in 0..5 {
            board.push(now, 100, packet_number);
        }
        let mut rule = SackThreshold::default();
        let mut detect = |board: &mut Scoreboard| {
            let mut lost = Vec::new();
            rule.detect(board, 100, u64::MAX, u64::MAX, |segment| lost.push(segment.offset));
            rule.reset();
            lost
        };
        board.sack(&(100..500), |_| {});
        assert_eq!(detect(&mut board), [0]);
        board.resend(now, 0, 5);
        assert_eq!(detect(&mut board), [0; 0], "nothing that left after the repetition arrived");
        for packet_number in 6..9 {
            board.push(now, 100, packet_number);
        }
        board.sack(&(500..700), |_| {});
        assert_eq!(detect(&mut board), [0; 0], "two arrived");
        board.sack(&(700..800), |_| {});
        assert_eq!(detect(&mut board), [0], "three arrived");
    }
}
