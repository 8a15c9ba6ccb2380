//! Loss by counting: three segments acknowledged above (RFC 6675, `IsLost`), or, where the wire has no selective
//! ACK, three duplicate ACKs and then partial ones (RFC 5681 section 3.2, RFC 6582).

use crate::sender::{Fate, Scoreboard, Segment};

/// `DupThresh` of both RFCs.
pub(crate) const DUP_THRESHOLD: u32 = 3;

/// RFC 6675, section 4: a segment is lost once [`DUP_THRESHOLD`] segments above it, or more than one less than
/// that many full segments' bytes, were selectively acknowledged.
#[derive(Debug, Default)]
pub(crate) struct SackThreshold {
    /// Everything below this offset was judged in the episode that is on.
    judged: u64,
}

impl SackThreshold {
    /// Tells `on_lost` each segment that is lost and left before transmission `before`: what was sent again in
    /// this episode is not judged by ACKs of what left earlier.
    pub(crate) fn detect(
        &mut self,
        board: &mut Scoreboard,
        mss: u64,
        before: u64,
        mut on_lost: impl FnMut(&Segment),
    ) {
        let Some(edge) = Self::edge(board, mss) else { return };
        let from = self.judged;
        let lost: Vec<Segment> = board
            .segments()
            .skip_while(|segment| segment.offset < from)
            .take_while(|segment| segment.offset < edge)
            .filter(|segment| segment.fate == Fate::InFlight && segment.tx < before)
            .copied()
            .collect();
        for segment in lost {
            on_lost(&segment);
            board.mark_lost(segment.offset);
        }
        self.judged = self.judged.max(edge);
    }

    /// An episode ended, or everything is to be judged again.
    pub(crate) fn reset(&mut self) {
        self.judged = 0;
    }

    /// Below this offset enough was selectively acknowledged above.
    fn edge(board: &Scoreboard, mss: u64) -> Option<u64> {
        if board.sacked() == 0 {
            return None;
        }
        let (mut count, mut bytes) = (0, 0);
        for segment in board.segments().rev().filter(|segment| segment.fate == Fate::Sacked) {
            count += 1;
            bytes += u64::from(segment.len);
            if count >= DUP_THRESHOLD || bytes > u64::from(DUP_THRESHOLD - 1) * mss {
                return Some(segment.offset);
            }
        }
        None
    }
}

/// RFC 5681's duplicate ACKs.
#[derive(Debug, Default)]
pub(crate) struct DupAcks {
    count: u32,
}

impl DupAcks {
    /// An ACK repeated the edge; true if it is the one that means loss.
    pub(crate) fn on_duplicate(&mut self) -> bool {
        self.count = self.count.saturating_add(1);
        self.count == DUP_THRESHOLD
    }

    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }
}
