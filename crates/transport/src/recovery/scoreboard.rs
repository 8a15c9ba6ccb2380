//! Scoreboard: one record per outstanding segment, with its fate and send time. Owns `snd_una`,
//! `snd_nxt` and `pipe`. Has no timers.
//!
//! Segment numbers follow the format ([`Numbering`]: packets or bytes); everything else is a stream
//! offset.

mod acked;
mod segment;

use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use crate::wire::Numbering;
pub(crate) use acked::Acked;
use acked::Sacked;
pub(crate) use segment::{Fate, Segment, SegmentRun};

/// Segments `snd_una .. snd_nxt`, contiguous, oldest first.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    numbering: Numbering,
    segments: VecDeque<Segment>,
    snd_una: u64,
    /// Stream offset of the oldest segment, or of the next new byte if there is none.
    una_offset: u64,
    /// Stream offset of the next new byte.
    next_offset: u64,
    /// Offsets of the segments that are [`Fate::Lost`].
    lost: BTreeSet<u64>,
    /// Ranges of the segments that are [`Fate::Sacked`].
    sacked: Sacked,
    in_flight: u64,
    /// Bytes of `in_flight` that duplicate ACKs show to be delivered, without naming the segments
    /// (`NewReno`).
    assumed: u64,
}

impl Scoreboard {
    pub(crate) fn new(numbering: Numbering) -> Self {
        Self {
            numbering,
            segments: VecDeque::new(),
            snd_una: 0,
            una_offset: 0,
            next_offset: 0,
            lost: BTreeSet::new(),
            sacked: Sacked::new(),
            in_flight: 0,
            assumed: 0,
        }
    }

    /// Releases memory beyond that of the segments.
    pub(crate) fn shrink(&mut self) {
        self.segments.shrink_to_fit();
    }

    /// Records the first transmission of the next `count` segments of `len` bytes each;
    /// `packet_number` maps the index of a segment to its packet number.
    pub(crate) fn push_run(
        &mut self,
        now: Instant,
        len: u32,
        count: u64,
        packet_number: impl Fn(u64) -> u64,
    ) {
        let (first, bytes) = (self.next_offset, u64::from(len));
        let segment = |n| {
            let offset = first + n * bytes;
            Segment {
                offset,
                sent_at: now,
                packet_number: packet_number(n),
                len,
                sent_count: 1,
                fate: Fate::InFlight,
            }
        };
        self.segments.extend((0..count).map(segment));
        self.next_offset += count * bytes;
        self.in_flight += count * bytes;
    }

    /// Declares the segment at `offset` lost if it is in flight. Returns its length in bytes, else
    /// 0.
    pub(crate) fn mark_lost(&mut self, offset: u64) -> u64 {
        let Some(segment) = self.find_mut(offset) else { return 0 };
        if segment.fate != Fate::InFlight {
            return 0;
        }
        segment.fate = Fate::Lost;
        let len = u64::from(segment.len);
        self.in_flight -= len;
        self.lost.insert(offset);
        len
    }

    /// Marks the lost segments that were not retransmitted as in flight again.
    pub(crate) fn unmark_lost(&mut self) {
        while let Some(offset) = self.lost.pop_first() {
            if let Some(segment) = self.find_mut(offset) {
                segment.fate = Fate::InFlight;
                self.in_flight += u64::from(segment.len);
            }
        }
    }

    /// Returns the oldest segment that is lost and not retransmitted.
    pub(crate) fn first_lost(&self) -> Option<&Segment> {
        self.find(*self.lost.first()?)
    }

    /// Divides the segment at `offset` into pieces of at most `len` bytes, for a path with a
    /// smaller MTU. The pieces inherit its record.
    pub(crate) fn recut(&mut self, offset: u64, len: u32) {
        let Some(index) = self.index(offset) else { return };
        let whole = self.segments[index];
        let mut at = u64::from(len);
        if u64::from(whole.len) <= at || len == 0 {
            return;
        }
        self.segments[index].len = len;
        let mut position = index + 1;
        while at < u64::from(whole.len) {
            let rest = u64::from(whole.len) - at;
            // `rest` is less than the length of a segment.
            let piece = u32::try_from(rest).unwrap_or(u32::MAX).min(len);
            self.segments.insert(position, Segment { offset: offset + at, len: piece, ..whole });
            if whole.fate == Fate::Lost {
                self.lost.insert(offset + at);
            }
            at += u64::from(piece);
            position += 1;
        }
    }

    /// Records a retransmission of the segment at `offset`.
    pub(crate) fn resend(&mut self, now: Instant, offset: u64, packet_number: u64) {
        let Some(segment) = self.find_mut(offset) else { return };
        segment.sent_at = now;
        segment.packet_number = packet_number;
        segment.sent_count = segment.sent_count.saturating_add(1);
        if segment.fate == Fate::Lost {
            segment.fate = Fate::InFlight;
            let len = u64::from(segment.len);
            self.in_flight += len;
            self.lost.remove(&offset);
        }
    }

    /// Returns the segment that begins at `offset`.
    pub(crate) fn find(&self, offset: u64) -> Option<&Segment> {
        self.index(offset).map(|i| &self.segments[i])
    }

    fn find_mut(&mut self, offset: u64) -> Option<&mut Segment> {
        self.index(offset).map(|i| &mut self.segments[i])
    }

    fn index(&self, offset: u64) -> Option<usize> {
        let at = self.position(offset);
        self.segments.get(at).is_some_and(|segment| segment.offset == offset).then_some(at)
    }

    /// Returns the index of the first segment that begins at `offset` or above.
    fn position(&self, offset: u64) -> usize {
        let Some(base) = self.segments.front() else { return 0 };
        // This guess is right if all segments have one length, as they nearly always do.
        let ahead = offset.saturating_sub(base.offset) / u64::from(base.len.max(1));
        match usize::try_from(ahead).ok().and_then(|guess| Some((guess, self.segments.get(guess)?))) {
            Some((guess, segment)) if segment.offset == offset => guess,
            _ => self.segments.partition_point(|segment| segment.offset < offset),
        }
    }

    /// Returns the segment with this sequence number (classic).
    pub(crate) fn numbered(&self, number: u64) -> Option<&Segment> {
        debug_assert_eq!(self.numbering, Numbering::Packets);
        self.segments.get(usize::try_from(number.checked_sub(self.snd_una)?).ok()?)
    }

    /// Returns the oldest segment.
    pub(crate) fn base(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Iterates over all segments, oldest first.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// Iterates over the segments that begin at `offset` or above, oldest first.
    pub(crate) fn segments_from(&self, offset: u64) -> impl Iterator<Item = &Segment> {
        self.segments.range(self.position(offset)..)
    }

    /// Iterates over the selectively acknowledged segments, newest first.
    pub(crate) fn sacked_segments_down(&self) -> impl Iterator<Item = &Segment> {
        self.sacked.ranges().rev().flat_map(|range| {
            let below = self.segments.range(..self.position(range.end)).rev();
            below.take_while(move |segment| segment.offset >= range.start)
        })
    }

    /// Returns the number of the oldest unacknowledged segment.
    pub(crate) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    pub(crate) fn una_offset(&self) -> u64 {
        self.una_offset
    }

    /// Returns the number of the next new segment.
    pub(crate) fn snd_nxt(&self) -> u64 {
        match self.numbering {
            Numbering::Packets => self.snd_una + self.segments.len() as u64,
            Numbering::Bytes => self.next_offset,
        }
    }

    /// Returns the number of the segment at `offset`. If packets are numbered, that must be the
    /// oldest segment.
    pub(crate) fn number(&self, offset: u64) -> u64 {
        match self.numbering {
            Numbering::Packets => self.snd_una,
            Numbering::Bytes => offset,
        }
    }

    /// Returns how many sequence numbers a segment of `len` bytes occupies.
    pub(crate) fn span(&self, len: usize) -> u64 {
        match self.numbering {
            Numbering::Packets => 1,
            Numbering::Bytes => len as u64,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns `snd_nxt` - `snd_una` (`FlightSize` of RFC 5681), in packets or bytes.
    pub(crate) fn flight_size(&self) -> u64 {
        self.snd_nxt() - self.snd_una
    }

    /// Returns the estimate of bytes in the network (`pipe` of RFC 6675).
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight - self.assumed.min(self.in_flight)
    }

    pub(crate) fn assumed(&self) -> u64 {
        self.assumed
    }

    /// Counts `bytes` of one more segment that a duplicate ACK shows to be delivered.
    pub(crate) fn assume_delivered(&mut self, bytes: u64) {
        self.assumed = (self.assumed + bytes).min(self.in_flight);
    }

    /// Subtracts assumed bytes that are now acknowledged.
    pub(crate) fn forget_assumed(&mut self, bytes: u64) {
        self.assumed = self.assumed.saturating_sub(bytes);
    }

    /// Returns the outstanding bytes: in flight, lost and selectively acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.next_offset - self.una_offset()
    }

    /// Returns the outstanding bytes that no ACK reported as delivered: in flight or lost.
    pub(crate) fn undelivered(&self) -> u64 {
        self.outstanding() - self.sacked() - self.assumed.min(self.in_flight)
    }

    /// Returns the bytes selectively acknowledged.
    pub(crate) fn sacked(&self) -> u64 {
        self.sacked.bytes()
    }

    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// With debug assertions on, checks the sums against the segments.
    pub(crate) fn check(&self) {
        if cfg!(debug_assertions) && self.segments.len() < 64 {
            let count =
                |fate| self.segments.iter().filter(|s| s.fate == fate).map(|s| u64::from(s.len)).sum();
            debug_assert_eq!(self.in_flight, count(Fate::InFlight));
            debug_assert_eq!(self.una_offset, self.base().map_or(self.next_offset, |base| base.offset));
            debug_assert_eq!(self.sacked(), count(Fate::Sacked));
            debug_assert_eq!(self.lost.len(), self.segments.iter().filter(|s| s.fate == Fate::Lost).count());
            let contiguous = |(a, b): (&Segment, &Segment)| a.end() == b.offset;
            debug_assert!(self.segments.iter().zip(self.segments.iter().skip(1)).all(contiguous));
        }
    }
}

#[cfg(test)]
mod tests;
