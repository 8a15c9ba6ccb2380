//! Effect of an ACK on the outstanding segments: cumulative ACK and SACK blocks.

use std::ops::Range;
use std::time::Instant;

use super::{Fate, Scoreboard, SegmentRun};
use crate::range_set::RangeSet;
use crate::wire::Numbering;

/// Result of an ACK.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Acked {
    /// True if the ACK advanced `snd_una`.
    pub moved: bool,
    /// Bytes newly delivered.
    pub bytes: u64,
    /// Send time of the newest segment that this ACK acknowledged cumulatively, for an RTT sample.
    /// `None` if the oldest one was retransmitted (Karn).
    pub karn: Option<Instant>,
}

/// Selectively acknowledged ranges of whole segments, as stream offsets above `snd_una`. A receiver
/// repeats its blocks (RFC 2018, section 4), so the lookup of a known block must be cheap.
#[derive(Debug)]
pub(crate) struct Sacked {
    ranges: RangeSet,
    bytes: u64,
    /// Index of the range found by the last lookup. The next block is most often in a neighbour:
    /// below if blocks come newest first, above if the receiver rotates them.
    near: usize,
}

impl Sacked {
    /// Returns an empty set. It needs no limit: segments are limited, and two of them make at most
    /// one range.
    pub(crate) fn new() -> Self {
        Self { ranges: RangeSet::new(usize::MAX), bytes: 0, near: 0 }
    }

    /// Returns true if all of `block` is acknowledged already.
    pub(crate) fn knows(&mut self, block: &Range<u64>) -> bool {
        self.near = self.ranges.first_ending_after_near(block.start, self.near);
        let range = self.ranges.get(self.near);
        range.is_some_and(|range| range.start <= block.start && block.end <= range.end)
    }

    /// Returns the end of the range that contains `offset`.
    pub(crate) fn end_of(&self, offset: u64) -> Option<u64> {
        self.ranges.range_of(offset).map(|range| range.end)
    }

    /// Adds a range of whole segments.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        self.bytes += self.ranges.insert(range).expect("as many ranges may be held as can be counted");
    }

    pub(crate) fn remove_below(&mut self, una: u64) {
        if !self.ranges.is_empty() {
            self.bytes -= self.ranges.remove_below(una);
        }
    }

    /// Returns the ranges in ascending order.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Scoreboard {
    /// Applies a cumulative ACK in `snd_una ..= snd_nxt` and calls `on_delivered` for the newly
    /// acknowledged segments: once if they form a run and `together` returns true for it, else once
    /// for each segment. A segment acknowledged in part is reported when the rest of it is
    /// acknowledged.
    pub(crate) fn acknowledge(
        &mut self,
        ack: u64,
        together: impl FnOnce(&SegmentRun<'_>) -> bool,
        mut on_delivered: impl FnMut(&SegmentRun<'_>),
    ) -> Acked {
        if ack <= self.snd_una {
            return Acked::default();
        }
        let count = self.covered(ack);
        let mut acked = Acked { moved: count > 0, ..Acked::default() };
        if let Some(run) = self.plain_run(count).filter(together) {
            on_delivered(&run);
            acked.bytes = run.bytes();
            acked.karn = (run.first.sent_count == 1).then_some(run.last.sent_at);
            self.in_flight -= acked.bytes;
            self.segments.drain(..count);
        } else {
            let never_resent = self.segments.front().is_some_and(|base| base.sent_count == 1);
            for segment in self.segments.drain(..count) {
                let len = u64::from(segment.len);
                match segment.fate {
                    Fate::Sacked => {}
                    Fate::Lost => {
                        self.lost.remove(&segment.offset);
                    }
                    Fate::InFlight => self.in_flight -= len,
                }
                if segment.fate != Fate::Sacked {
                    acked.bytes += len;
                    on_delivered(&SegmentRun::single(&segment));
                }
                acked.karn = never_resent.then_some(segment.sent_at);
            }
        }
        self.move_edge(ack, count, &mut acked);
        acked
    }

    /// Returns the start of the first segment below `ack` that was sent after a skipped packet
    /// number. `None` if the segments below `ack` have consecutive numbers, or more than one is
    /// missing.
    pub(crate) fn skip_below(&self, ack: u64) -> Option<u64> {
        let count = self.covered(ack);
        let (first, last) = (self.segments.front()?, self.segments.get(count.checked_sub(1)?)?);
        if last.packet_number.checked_sub(first.packet_number) != Some(count as u64) {
            return None;
        }
        let (mut in_turn, mut after) = (0, count - 1);
        while after - in_turn > 1 {
            let middle = usize::midpoint(in_turn, after);
            let number = self.segments[middle].packet_number;
            let turn = first.packet_number + middle as u64;
            *if number == turn { &mut in_turn } else { &mut after } = middle;
        }
        Some(self.segments[after].offset)
    }

    /// Returns the first `count` segments if they form a run: sent once, by consecutive
    /// transmissions, of equal length except for a shorter last one, with no segment marked sacked
    /// or lost.
    pub(super) fn plain_run(&self, count: usize) -> Option<SegmentRun<'_>> {
        if self.sacked() > 0 || !self.lost.is_empty() {
            return None;
        }
        let (first, last) = (self.segments.front()?, self.segments.get(count.checked_sub(1)?)?);
        let others = count as u64 - 1;
        // Without packet numbers nothing depends on how often the segments between were sent.
        let numbered = self.numbering == Numbering::Bytes;
        let once = !numbered || self.segments.range(..count).all(|segment| segment.sent_count == 1);
        let in_turn = !numbered || last.packet_number.checked_sub(first.packet_number) == Some(others);
        let alike = first.offset + others * u64::from(first.len) == last.offset;
        (once && in_turn && alike).then_some(SegmentRun { first, last, count: count as u64 })
    }

    /// Finishes a cumulative ACK after `count` segments were removed: trims the next segment if the
    /// ACK ends inside it.
    fn move_edge(&mut self, ack: u64, count: usize, acked: &mut Acked) {
        if let Some((bytes, fate)) = self.trim(ack) {
            acked.moved = true;
            if fate != Fate::Sacked {
                acked.bytes += bytes;
            }
        }
        self.una_offset = self.segments.front().map_or(self.next_offset, |base| base.offset);
        self.sacked.remove_below(self.una_offset);
        self.snd_una = match self.numbering {
            Numbering::Packets => self.snd_una + count as u64,
            Numbering::Bytes => self.una_offset,
        };
    }

    /// Removes the part of the oldest segment below `ack`; a receiver may have room for part of a
    /// segment. Returns its length and fate.
    fn trim(&mut self, ack: u64) -> Option<(u64, Fate)> {
        let base = self.segments.front_mut().filter(|_| self.numbering == Numbering::Bytes)?;
        // Fits: the segment ends above `ack`.
        let part = u32::try_from(ack.saturating_sub(base.offset)).unwrap_or(0);
        if part == 0 || part >= base.len {
            return None;
        }
        if base.fate == Fate::Lost {
            self.lost.remove(&base.offset);
            self.lost.insert(ack);
        }
        base.offset = ack;
        base.len -= part;
        if base.fate == Fate::InFlight {
            self.in_flight -= u64::from(part);
        }
        Some((u64::from(part), base.fate))
    }

    /// Returns the number of whole segments that a cumulative ACK covers.
    fn covered(&self, ack: u64) -> usize {
        let count = match self.numbering {
            Numbering::Packets => usize::try_from(ack.saturating_sub(self.snd_una)).unwrap_or(usize::MAX),
            Numbering::Bytes => {
                let begun = self.position(ack);
                let last = begun.checked_sub(1).and_then(|last| self.segments.get(last));
                begun - usize::from(last.is_some_and(|last| last.end() > ack))
            }
        };
        count.min(self.segments.len())
    }

    /// Applies a SACK block (stream offsets) and calls `on_delivered` for each newly acknowledged
    /// segment. Returns their bytes. The cost depends on the new segments only: known ranges are
    /// skipped in one step.
    pub(crate) fn sack(&mut self, block: &Range<u64>, mut on_delivered: impl FnMut(&SegmentRun<'_>)) -> u64 {
        if self.sacked.knows(block) {
            return 0;
        }
        let first = self.position(block.start);
        let mut next = first;
        let mut bytes = 0;
        while let Some(segment) = self.segments.get_mut(next).filter(|segment| segment.end() <= block.end) {
            let len = u64::from(segment.len);
            match segment.fate {
                Fate::Sacked => {
                    let known = self.sacked.end_of(segment.offset).unwrap_or(segment.end());
                    next = self.position(known);
                    continue;
                }
                Fate::Lost => {
                    self.lost.remove(&segment.offset);
                }
                Fate::InFlight => self.in_flight -= len,
            }
            on_delivered(&SegmentRun::single(segment));
            segment.fate = Fate::Sacked;
            bytes += len;
            next += 1;
        }
        if bytes > 0 {
            self.sacked.insert(self.segments[first].offset..self.segments[next - 1].end());
        }
        bytes
    }
}
