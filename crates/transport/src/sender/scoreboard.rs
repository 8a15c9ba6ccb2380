//! One record per segment in flight: what is acknowledged, what is lost, what a sample may be taken from. Owns
//! `snd_una`, `snd_nxt` and `pipe`. Knows no bytes but their offsets, and no timer.
//!
//! Segments are numbered as the wire numbers them ([`Numbering`]); everything else is by offset in the stream.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Instant;

use super::sacked::Sacked;
use crate::planted::{self, Bug};
use crate::wire::Numbering;

/// What is known of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way, as far as is known.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Given up; to be sent again.
    Lost,
}

/// A segment that was sent and is not cumulatively acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Offset of its first byte in the stream.
    pub(crate) offset: u64,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Number of its last transmission.
    pub(crate) tx: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// How often it was sent; saturates.
    pub(crate) sent_count: u16,
    pub(crate) fate: Fate,
}

impl Segment {
    /// One past its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// What an ACK did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Acked {
    /// The cumulative edge moved.
    pub(crate) moved: bool,
    /// Bytes newly delivered.
    pub(crate) bytes: u64,
    /// The last segment that the cumulative edge passed was sent at this time; absent if the first one that it
    /// passed had been sent again (Karn).
    pub(crate) karn: Option<Instant>,
}

/// Segments `snd_una .. snd_nxt`, contiguous, oldest first.
#[derive(Debug)]
pub(crate) struct Scoreboard {
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
    pub(crate) fn new(numbering: Numbering) -> Self {
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
    pub(crate) fn push(&mut self, now: Instant, len: u32, tx: u64) {
        let offset = self.next_offset;
        self.segments.push_back(Segment {
            offset,
            sent_at: now,
            tx,
            len,
            sent_count: 1,
            fate: Fate::InFlight,
        });
        self.next_offset += u64::from(len);
        self.in_flight += u64::from(len);
    }

    /// Takes a cumulative ACK in `snd_una ..= snd_nxt` and tells `on_delivered` each segment that is newly
    /// known to be delivered. A segment in which the edge lies is told of when its rest is acknowledged.
    pub(crate) fn acknowledge(&mut self, ack: u64, mut on_delivered: impl FnMut(&Segment)) -> Acked {
        let count = self.covered(ack);
        let mut acked = Acked { moved: count > 0, ..Acked::default() };
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
                on_delivered(&segment);
            }
            acked.karn = (never_resent || planted::is(Bug::Karn)).then_some(segment.sent_at);
        }
        if let Some((bytes, fate)) = self.trim(ack) {
            acked.moved = true;
            if fate != Fate::Sacked {
                acked.bytes += bytes;
            }
        }
        self.sacked.remove_below(self.una_offset());
        self.move_una(count);
        acked
    }

    /// Takes what lies below a cumulative ACK inside the oldest segment off it: a receiver may have had room for
    /// no more. Gives how much that was, and what was known of it.
    fn trim(&mut self, ack: u64) -> Option<(u64, Fate)> {
        let base = self.segments.front_mut().filter(|_| self.numbering == Numbering::Bytes)?;
        // Less than the length of the segment, which does not end below the edge.
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

    /// Takes a cumulative ACK as [`Scoreboard::acknowledge`] does, where nothing is ever marked sacked or lost, so
    /// that nothing has to be done for each segment.
    pub(crate) fn acknowledge_unmarked(&mut self, ack: u64) -> Acked {
        debug_assert!(self.sacked() == 0 && self.lost.is_empty() && self.assumed == 0);
        let count = self.covered(ack);
        let Some(last) = count.checked_sub(1).and_then(|last| self.segments.get(last)).copied() else {
            return Acked::default();
        };
        let never_resent = self.segments.front().is_some_and(|base| base.sent_count == 1);
        let bytes = last.end() - self.una_offset();
        self.segments.drain(..count);
        self.in_flight -= bytes;
        self.move_una(count);
        Acked { moved: true, bytes, karn: never_resent.then_some(last.sent_at) }
    }

    /// Segments that a cumulative ACK covers.
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

    fn move_una(&mut self, count: usize) {
        self.snd_una = match self.numbering {
            Numbering::Packets => self.snd_una + count as u64,
            Numbering::Bytes => self.una_offset(),
        };
    }

    /// Takes a selective ACK of `block` (offsets); gives the bytes newly delivered and tells them as
    /// [`Scoreboard::acknowledge`] does. Costs what is new in it: what is known is passed over in one step.
    pub(crate) fn sack(&mut self, block: &Range<u64>, mut on_delivered: impl FnMut(&Segment)) -> u64 {
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
            on_delivered(segment);
            segment.fate = Fate::Sacked;
            bytes += len;
            next += 1;
        }
        if bytes > 0 {
            self.sacked.insert(self.segments[first].offset..self.segments[next - 1].end());
        }
        bytes
    }

    /// Declares the segment at `offset` lost, if it is in flight; gives its bytes.
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

    /// Cuts the segment at `offset` into pieces of at most `len` bytes, for a path that takes no longer ones;
    /// all pieces share its past.
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
    pub(crate) fn resend(&mut self, now: Instant, offset: u64, tx: u64) {
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

    /// The oldest segment.
    pub(crate) fn base(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// All of them, oldest first.
    pub(crate) fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// Those that begin at `offset` or above, oldest first.
    pub(crate) fn segments_from(&self, offset: u64) -> impl Iterator<Item = &Segment> {
        self.segments.range(self.position(offset)..)
    }

    /// Those that are selectively acknowledged, newest first.
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

    /// A duplicate ACK tells of one more delivered segment, of `bytes`, without saying which.
    pub(crate) fn assume_delivered(&mut self, bytes: u64) {
        self.assumed = (self.assumed + bytes).min(self.in_flight);
    }

    /// So many assumed bytes turned out to be among those acknowledged.
    pub(crate) fn forget_assumed(&mut self, bytes: u64) {
        self.assumed = self.assumed.saturating_sub(bytes);
    }

    /// Bytes outstanding: in flight, lost and selectively acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.next_offset - self.una_offset()
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
