//! The record of a segment that is outstanding.

use std::ops::RangeInclusive;
use std::time::Instant;

/// Fate of a segment's last transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In the network, as far as is known.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Declared lost and not yet retransmitted.
    Lost,
}

/// A segment that was sent and is not cumulatively acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Offset of its first byte in the stream.
    pub(crate) offset: u64,
    /// Time of its last transmission.
    pub(crate) sent_at: Instant,
    /// Number of its last transmission.
    pub(crate) tx: u64,
    /// Length, bytes.
    pub(crate) len: u32,
    /// Number of its transmissions; saturates.
    pub(crate) sent_count: u16,
    pub(crate) fate: Fate,
}

impl Segment {
    /// One past its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// Segments that an ACK newly acknowledges together: a single one, or several in a row that left
/// once each, by transmissions in a row.
#[derive(Debug, Clone, Copy)]
pub struct SegmentRun {
    pub(super) first: Segment,
    pub(super) last: Segment,
    /// At least 1.
    pub(super) count: u64,
}

impl SegmentRun {
    pub(crate) fn single(segment: Segment) -> Self {
        Self { first: segment, last: segment, count: 1 }
    }

    /// The oldest of them, as it was before.
    pub(crate) fn first(&self) -> &Segment {
        &self.first
    }

    /// The newest of them, as it was before.
    pub(crate) fn last(&self) -> &Segment {
        &self.last
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.last.end() - self.first.offset
    }

    /// Numbers of their transmissions, on a wire that has such numbers.
    pub(crate) fn txs(&self) -> RangeInclusive<u64> {
        self.first.tx..=self.last.tx
    }

    /// Number and time of the newest transmission below `tx`, if they left once each. Those that
    /// left in several batches count as the first or the last of them.
    pub(crate) fn newest_below(&self, tx: u64) -> Option<(u64, Instant)> {
        let newest = self.last.tx.min(tx.checked_sub(1)?);
        if self.first.sent_count > 1 || newest < self.first.tx {
            return None;
        }
        let segment = if newest == self.last.tx { &self.last } else { &self.first };
        Some((newest, segment.sent_at))
    }

    /// Each of them.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        let Self { first, last, count } = *self;
        (0..count).map(move |n| {
            if n + 1 == count {
                return last;
            }
            Segment { offset: first.offset + n * u64::from(first.len), tx: first.tx + n, ..first }
        })
    }
}
