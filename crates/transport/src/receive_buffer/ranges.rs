//! Bytes beyond a hole where the wire numbers bytes (native): which of them arrived.
//!
//! Segments may overlap earlier ones in any way: a sender that changes its packet size divides the
//! stream differently. Of two bytes for one offset the first to arrive stays.

use std::ops::Range;

use super::ordered::Ordered;
use super::{Arrival, Limits, Segment};
use crate::range_set::RangeSet;

#[derive(Debug)]
pub(super) struct Ranges {
    /// Ranges beyond the first hole. No range begins at the start of the hole.
    held: RangeSet,
}

impl Ranges {
    pub(super) fn new(max_ranges: usize) -> Self {
        Self { held: RangeSet::new(max_ranges) }
    }

    /// Inserts a segment. The counts in the result are bytes.
    pub(super) fn insert(&mut self, ordered: &mut Ordered, segment: Segment<'_>, limits: Limits) -> Arrival {
        let Segment { seq, payload } = segment;
        let (payload, beyond) = payload.split_at(length(limits.right_edge.saturating_sub(seq), payload));
        let (old, payload) = payload.split_at(length(ordered.end().saturating_sub(seq), payload));
        let mut arrival = Arrival {
            duplicate: old.len() as u64,
            beyond_window: beyond.len() as u64,
            had_hole: !self.held.is_empty(),
            ..Arrival::default()
        };
        if payload.is_empty() {
            return arrival;
        }
        let segment = Segment { seq: seq + old.len() as u64, payload };
        if segment.seq > ordered.end() {
            self.hold(ordered, segment, limits.memory, &mut arrival);
        } else if self.has_room_in_order(ordered, &segment.range(), limits) {
            self.accept_in_order(ordered, segment, &mut arrival);
        } else {
            arrival.no_room = payload.len() as u64;
            arrival.next_refused = true;
        }
        arrival
    }

    /// Same as [`super::ReceiveBuffer::append_run`].
    pub(super) fn append_run<'a>(
        &self,
        ordered: &mut Ordered,
        range: Range<u64>,
        payloads: impl Iterator<Item = &'a [u8]>,
        limits: Limits,
    ) -> bool {
        let fits = range.start == ordered.end()
            && range.end <= limits.right_edge
            && self.held.is_empty()
            && self.has_room_in_order(ordered, &range, limits);
        if fits {
            ordered.append_all(payloads, range.end);
        }
        fits
    }

    pub(super) fn held(&self) -> &RangeSet {
        &self.held
    }

    /// Returns the memory of the ranges, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.held.len() * RangeSet::RANGE_SIZE) as u64
    }

    fn accept_in_order(&mut self, ordered: &mut Ordered, segment: Segment<'_>, arrival: &mut Arrival) {
        let before = ordered.end();
        if arrival.had_hole {
            arrival.new = self.fill_hole(ordered, &segment);
        } else {
            ordered.append(segment.payload);
            arrival.new = segment.payload.len() as u64;
        }
        arrival.duplicate += segment.payload.len() as u64 - arrival.new;
        arrival.advanced = ordered.end() - before;
    }

    /// Appends the segment's missing bytes, and the ranges that it reaches. Returns their number.
    #[inline(never)]
    fn fill_hole(&mut self, ordered: &mut Ordered, segment: &Segment<'_>) -> u64 {
        let mut new = 0;
        for gap in self.held.gaps(segment.range()) {
            ordered.append(segment.part(&gap));
            new += gap.end - gap.start;
            let run_end = self.held.first_missing(gap.end);
            ordered.append_in_place(run_end - gap.end);
        }
        self.held.remove_below(ordered.end());
        new
    }

    fn has_room_in_order(&self, ordered: &Ordered, range: &Range<u64>, limits: Limits) -> bool {
        if ordered.unread() == 0 || ordered.unread() + (range.end - range.start) <= limits.unread {
            return true;
        }
        let cost = ordered.chunks.cost(range);
        cost == 0 || self.all_memory(ordered) + cost <= limits.memory
    }

    fn hold(&mut self, ordered: &mut Ordered, segment: Segment<'_>, memory: u64, arrival: &mut Arrival) {
        let (keeps_payload, range) = (ordered.keep().payload, segment.range());
        let cost = if keeps_payload { ordered.chunks.cost(&range) } else { 0 };
        if !self.held.has_room_for(&range) || (cost > 0 && self.all_memory(ordered) + cost > memory) {
            arrival.no_room = segment.payload.len() as u64;
            return;
        }
        if keeps_payload {
            for gap in self.held.gaps(range.clone()) {
                ordered.chunks.write(gap.start, segment.part(&gap));
            }
        }
        arrival.new = self.held.insert(range).expect("there is room for the range");
        arrival.duplicate += segment.payload.len() as u64 - arrival.new;
    }

    fn all_memory(&self, ordered: &Ordered) -> u64 {
        ordered.chunks.memory() + self.memory()
    }
}

impl<'a> Segment<'a> {
    fn range(&self) -> Range<u64> {
        self.seq..self.seq + self.payload.len() as u64
    }

    /// Returns the part of the payload that lies in a gap.
    fn part(&self, gap: &Range<u64>) -> &'a [u8] {
        let payload: &'a [u8] = self.payload;
        &payload[length(gap.start - self.seq, payload)..length(gap.end - self.seq, payload)]
    }
}

/// Returns how many bytes of `payload` precede an offset that is `distance` bytes from its start.
fn length(distance: u64, payload: &[u8]) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX).min(payload.len())
}

#[cfg(test)]
mod tests;
