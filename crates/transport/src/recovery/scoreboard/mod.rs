//! One record per segment in flight: what is acknowledged, what is lost, what a sample may be taken
//! from. Owns `snd_una`, `snd_nxt` and `pipe`. Knows no bytes but their offsets, and no timer.
//!
//! Segments are numbered as the wire numbers them ([`Numbering`]); everything else is by offset in
//! the stream.

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
pub struct Scoreboard {
    numbering: Numbering,
    segments: VecDeque<Segment>,
    snd_una: u64,
    /// Offset of the first byte that was never sent.
    next_offset: u64,
    /// Offsets of the segments that are [`Fate::Lost`].
    lost: BTreeSet<u64>,
    /// Where the segments are that are [`Fate::Sacked`].
    sacked: Sacked,
    in_flight: u64,
    /// Bytes that duplicate ACKs tell to be delivered without saying which; part of `in_flight`.
    assumed: u64,
}

impl Scoreboard {
    /// One of a stream that has not begun, whose wire numbers segments so.
    pub fn new(numbering: Numbering) -> Self {
        Self {
            numbering,
            segments: VecDeque::new(),
            snd_una: 0,
            next_offset: 0,
            lost: BTreeSet::new(),
            sacked: Sacked::new(),
            in_flight: 0,
            assumed: 0,
        }
    }

    /// Records the first transmission of the next segment.
    #[cfg(test)]
    pub(crate) fn push(&mut self, now: Instant, len: u32, tx: u64) {
        self.push_run(now, len, 1, |_| tx);
    }

    /// Records the first transmission of the next `count` segments of `len` bytes each; `tx` gives
    /// the number of each from its place.
    pub fn push_run(&mut self, now: Instant, len: u32, count: u64, tx: impl Fn(u64) -> u64) {
        let (first, bytes) = (self.next_offset, u64::from(len));
        let segment = |n| {
            let offset = first + n * bytes;
            Segment { offset, sent_at: now, tx: tx(n), len, sent_count: 1, fate: Fate::InFlight }
        };
        self.segments.extend((0..count).map(segment));
        self.next_offset += count * bytes;
        self.in_flight += count * bytes;
    }

    /// Declares the segment at `offset` lost, if it is in flight; gives its bytes.
    pub fn mark_lost(&mut self, offset: u64) -> u64 {
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

    /// Takes back that what was not yet sent again is lost.
    pub(crate) fn unmark_lost(&mut self) {
        while let Some(offset) = self.lost.pop_first() {
            if let Some(segment) = self.find_mut(offset) {
                segment.fate = Fate::InFlight;
                self.in_flight += u64::from(segment.len);
            }
        }
    }

    /// The lowest segment that is lost and was not sent again.
    pub(crate) fn first_lost(&self) -> Option<&Segment> {
        self.find(*self.lost.first()?)
    }

    /// Cuts the segment at `offset` into pieces of at most `len` bytes, for a path that takes no
    /// longer ones; all pieces share its past.
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

    /// Records that the segment at `offset` was sent again.
    pub fn resend(&mut self, now: Instant, offset: u64, tx: u64) {
        let Some(segment) = self.find_mut(offset) else { return };
        segment.sent_at = now;
        segment.tx = tx;
        segment.sent_count = segment.sent_count.saturating_add(1);
        if segment.fate == Fate::Lost {
            segment.fate = Fate::InFlight;
            let len = u64::from(segment.len);
            self.in_flight += len;
            self.lost.remove(&offset);
        }
    }

    /// The segment that begins at `offset`.
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

    /// Index of the first segment that begins at `offset` or above.
    fn position(&self, offset: u64) -> usize {
        let Some(base) = self.segments.front() else { return 0 };
        // Nearly always all segments are of one length, and then this guess is right.
        let ahead = offset.saturating_sub(base.offset) / u64::from(base.len.max(1));
        match usize::try_from(ahead).ok().and_then(|guess| Some((guess, self.segments.get(guess)?))) {
            Some((guess, segment)) if segment.offset == offset => guess,
            _ => self.segments.partition_point(|segment| segment.offset < offset),
        }
    }

    /// The one with this number, where packets are numbered.
    pub(crate) fn numbered(&self, number: u64) -> Option<&Segment> {
        debug_assert_eq!(self.numbering, Numbering::Packets);
        self.segments.get(usize::try_from(number.checked_sub(self.snd_una)?).ok()?)
    }

    /// The oldest segment.
    pub(crate) fn base(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// All of them, oldest first.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// Segments that begin at `offset` or above, oldest first.
    pub(crate) fn segments_from(&self, offset: u64) -> impl Iterator<Item = &Segment> {
        self.segments.range(self.position(offset)..)
    }

    /// Selectively acknowledged segments, newest first.
    pub(crate) fn sacked_segments_down(&self) -> impl Iterator<Item = &Segment> {
        self.sacked.ranges().rev().flat_map(|range| {
            let below = self.segments.range(..self.position(range.end)).rev();
            below.take_while(move |segment| segment.offset >= range.start)
        })
    }

    /// Number of the oldest segment not acknowledged.
    pub(crate) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// Its offset; that of the next new byte if there is none.
    pub(crate) fn una_offset(&self) -> u64 {
        self.segments.front().map_or(self.next_offset, |base| base.offset)
    }

    /// Number of the next new segment.
    pub(crate) fn snd_nxt(&self) -> u64 {
        match self.numbering {
            Numbering::Packets => self.snd_una + self.segments.len() as u64,
            Numbering::Bytes => self.next_offset,
        }
    }

    /// Number of the segment at `offset`, which is the oldest where numbers are not offsets.
    pub(crate) fn number(&self, offset: u64) -> u64 {
        match self.numbering {
            Numbering::Packets => self.snd_una,
            Numbering::Bytes => offset,
        }
    }

    /// Numbers that a segment of `len` bytes takes.
    pub(crate) fn span(&self, len: usize) -> u64 {
        match self.numbering {
            Numbering::Packets => 1,
            Numbering::Bytes => len as u64,
        }
    }

    /// True if nothing is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Numbers sent and not acknowledged (`FlightSize` of RFC 5681, in the wire's unit).
    pub(crate) fn flight_size(&self) -> u64 {
        self.snd_nxt() - self.snd_una
    }

    /// Bytes believed to be in the network (`pipe` of RFC 6675).
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight - self.assumed.min(self.in_flight)
    }

    /// Bytes that duplicate ACKs told to be delivered, and no ACK yet which.
    pub(crate) fn assumed(&self) -> u64 {
        self.assumed
    }

    /// A duplicate ACK tells of one more delivered segment, of `bytes`, without saying which.
    pub(crate) fn assume_delivered(&mut self, bytes: u64) {
        self.assumed = (self.assumed + bytes).min(self.in_flight);
    }

    /// Assumed bytes turned out to be among those acknowledged.
    pub(crate) fn forget_assumed(&mut self, bytes: u64) {
        self.assumed = self.assumed.saturating_sub(bytes);
    }

    /// Bytes outstanding: in flight, lost and selectively acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.next_offset - self.una_offset()
    }

    /// Bytes outstanding that no ACK reported as delivered: in flight or lost.
    pub(crate) fn undelivered(&self) -> u64 {
        self.outstanding() - self.sacked() - self.assumed.min(self.in_flight)
    }

    /// Bytes selectively acknowledged.
    pub(crate) fn sacked(&self) -> u64 {
        self.sacked.bytes()
    }

    /// Offset of the first byte never sent.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Recounts what is kept by increments.
    pub(crate) fn check(&self) {
        if cfg!(debug_assertions) && self.segments.len() < 64 {
            let count =
                |fate| self.segments.iter().filter(|s| s.fate == fate).map(|s| u64::from(s.len)).sum();
            debug_assert_eq!(self.in_flight, count(Fate::InFlight));
            debug_assert_eq!(self.sacked(), count(Fate::Sacked));
            debug_assert_eq!(self.lost.len(), self.segments.iter().filter(|s| s.fate == Fate::Lost).count());
            let contiguous = |(a, b): (&Segment, &Segment)| a.end() == b.offset;
            debug_assert!(self.segments.iter().zip(self.segments.iter().skip(1)).all(contiguous));
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
