//! Selectively acknowledged ranges of whole segments. A receiver repeats its blocks (RFC 2018,
//! section 4), so a known block must cost next to nothing.

use std::ops::Range;

use crate::range_set::RangeSet;

/// Ranges of offsets beyond `snd_una`; all of their bytes are selectively acknowledged.
#[derive(Debug)]
pub(crate) struct Sacked {
    ranges: RangeSet,
    bytes: u64,
    /// Place of the block that was looked up last. The one reported after it is most often its
    /// neighbour: below it where blocks come newest first, above it where they go round.
    near: usize,
}

impl Sacked {
    /// No ranges. There is at most one range to two segments, and segments are bounded.
    pub(crate) fn new() -> Self {
        Self { ranges: RangeSet::new(usize::MAX), bytes: 0, near: 0 }
    }

    /// True if nothing in `block` is new.
    pub(crate) fn knows(&mut self, block: &Range<u64>) -> bool {
        self.near = self.ranges.first_ending_after_near(block.start, self.near);
        let range = self.ranges.get(self.near);
        range.is_some_and(|range| range.start <= block.start && block.end <= range.end)
    }

    /// End of the range that has `offset`.
    pub(crate) fn end_of(&self, offset: u64) -> Option<u64> {
        self.ranges.range_of(offset).map(|range| range.end)
    }

    /// Adds whole segments.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        self.bytes += self.ranges.insert(range).expect("as many ranges may be held as can be counted");
    }

    /// Forgets what lies below `una`.
    pub(crate) fn remove_below(&mut self, una: u64) {
        if !self.ranges.is_empty() {
            self.bytes -= self.ranges.remove_below(una);
        }
    }

    /// From the lowest to the highest.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
