//! Test that compares the scoreboard with a plain list of segments, over random sends, ACKs, SACK
//! blocks, losses and repairs.

use std::ops::Range;

use super::super::*;
use rdt_testing::random;

/// Model: a list in which every lookup searches from the beginning.
struct Model {
    segments: Vec<Segment>,
    next_offset: u64,
}

impl Model {
    fn una(&self) -> u64 {
        self.segments.first().map_or(self.next_offset, |base| base.offset)
    }

    fn bytes(&self, fate: Fate) -> u64 {
        self.segments.iter().filter(|s| s.fate == fate).map(|s| u64::from(s.len)).sum()
    }

    /// Applies a cumulative ACK. Returns the bytes newly delivered, and the offsets of their
    /// segments.
    fn acknowledge(&mut self, ack: u64) -> (u64, Vec<u64>) {
        let (mut bytes, mut told) = (0, Vec::new());
        for segment in self.segments.extract_if(.., |segment| segment.end() <= ack) {
            if segment.fate != Fate::Sacked {
                bytes += u64::from(segment.len);
                told.push(segment.offset);
            }
        }
        if let Some(base) = self.segments.first_mut().filter(|base| base.offset < ack) {
            let part = ack - base.offset;
            bytes += if base.fate == Fate::Sacked { 0 } else { part };
            base.offset = ack;
            base.len -= u32::try_from(part).unwrap();
        }
        (bytes, told)
    }

    fn sack(&mut self, block: &Range<u64>) -> (u64, Vec<u64>) {
        let (mut bytes, mut told) = (0, Vec::new());
        for segment in &mut self.segments {
            let inside = block.start <= segment.offset && segment.end() <= block.end;
            if inside && segment.fate != Fate::Sacked {
                segment.fate = Fate::Sacked;
                bytes += u64::from(segment.len);
                told.push(segment.offset);
            }
        }
        (bytes, told)
    }

    fn find(&mut self, offset: u64) -> Option<&mut Segment> {
        self.segments.iter_mut().find(|segment| segment.offset == offset)
    }

    fn recut(&mut self, offset: u64, len: u32) {
        let Some(index) = self.segments.iter().position(|segment| segment.offset == offset) else { return };
        let whole = self.segments.remove(index);
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < whole.len {
            let piece = len.min(whole.len - at);
            pieces.push(Segment { offset: offset + u64::from(at), len: piece, ..whole });
            at += piece;
        }
        self.segments.splice(index..index, pieces);
    }
}

/// Scoreboard and model, on which the same operations are performed.
struct Both {
    board: Scoreboard,
    model: Model,
    now: Instant,
    packet_number: u64,
}

impl Both {
    fn push(&mut self, len: u32) {
        self.board.push(self.now, len, self.packet_number);
        self.model.segments.push(Segment {
            offset: self.model.next_offset,
            sent_at: self.now,
            packet_number: self.packet_number,
            len,
            sent_count: 1,
            fate: Fate::InFlight,
        });
        self.model.next_offset += u64::from(len);
        self.packet_number += 1;
    }

    fn resend(&mut self, offset: u64) {
        self.board.resend(self.now, offset, self.packet_number);
        if let Some(segment) = self.model.find(offset) {
            segment.packet_number = self.packet_number;
            segment.sent_count += 1;
            segment.fate = if segment.fate == Fate::Lost { Fate::InFlight } else { segment.fate };
        }
        self.packet_number += 1;
    }

    fn mark_lost(&mut self, offset: u64) {
        let marked = self.board.mark_lost(offset);
        let segment = self.model.find(offset).filter(|segment| segment.fate == Fate::InFlight);
        assert_eq!(marked, segment.as_ref().map_or(0, |segment| u64::from(segment.len)));
        if let Some(segment) = segment {
            segment.fate = Fate::Lost;
        }
    }

    /// Performs one random operation, at an offset that is most often near the beginning of a
    /// segment.
    fn step(&mut self, random: &mut impl FnMut(u64) -> u64) {
        let count = self.model.segments.len() as u64;
        let (una, end) = (self.model.una(), self.model.next_offset);
        let mut place = || match (random(4), usize::try_from(random(count.max(1)))) {
            (1.., Ok(index)) if count > 0 => self.model.segments[index].offset,
            _ => una + random(end - una + 1),
        };
        let (at, other) = (place(), place());
        match random(16) {
            0..4 => (0..random(8)).for_each(|_| self.push(100)),
            4 => self.push(1 + u32::try_from(random(200)).unwrap()),
            5 => {
                let mut told = Vec::new();
                let ack = at.min(other);
                // If all segments that the ACK covers form one run, the scoreboard reports the run
                // at once.
                let together = random(2) == 0;
                let tell = |run: &SegmentRun<'_>| {
                    told.extend(run.segments().map(|segment| segment.offset));
                };
                let acked = self.board.acknowledge(ack, |_| together, tell);
                assert_eq!((acked.bytes, told), self.model.acknowledge(ack));
            }
            6..11 => {
                let beyond = if random(10) == 0 { 300 } else { 0 };
                let block = at.min(other)..at.max(other) + beyond;
                let mut told = Vec::new();
                let bytes = self.board.sack(&block, |run| told.push(run.first.offset));
                assert_eq!((bytes, told), self.model.sack(&block), "{block:?}");
                assert_eq!(self.board.sack(&block, |_| panic!("told before")), 0, "{block:?}");
            }
            11 | 12 => self.mark_lost(at),
            13 => self.resend(self.board.first_lost().map_or(at, |segment| segment.offset)),
            14 => {
                let len = 1 + u32::try_from(random(120)).unwrap();
                self.board.recut(at, len);
                self.model.recut(at, len);
            }
            _ if random(4) > 0 => self.resend(at),
            _ => {
                self.board.unmark_lost();
                for segment in self.model.segments.iter_mut().filter(|s| s.fate == Fate::Lost) {
                    segment.fate = Fate::InFlight;
                }
            }
        }
    }

    fn compare(&self, probe: u64) {
        let (board, model) = (&self.board, &self.model);
        let all = |segments: &mut dyn Iterator<Item = &Segment>| -> Vec<_> {
            segments.map(|s| (s.offset, s.len, s.packet_number, s.sent_count, s.fate)).collect()
        };
        assert_eq!(all(&mut board.segments()), all(&mut model.segments.iter()));
        assert_eq!((board.una_offset(), board.next_offset()), (model.una(), model.next_offset));
        assert_eq!(board.in_flight(), model.bytes(Fate::InFlight));
        assert_eq!(board.sacked(), model.bytes(Fate::Sacked));
        let is = |fate| move |segment: &&Segment| segment.fate == fate;
        let first_lost = model.segments.iter().find(is(Fate::Lost));
        assert_eq!(board.first_lost().map(|s| s.offset), first_lost.map(|s| s.offset));
        let down = model.segments.iter().rev().filter(is(Fate::Sacked)).map(|s| s.offset);
        assert!(board.sacked_segments_down().map(|s| s.offset).eq(down));
        let above = model.segments.iter().filter(|s| s.offset >= probe).map(|s| s.offset);
        assert!(board.segments_from(probe).map(|s| s.offset).eq(above), "from {probe}");
        let found = model.segments.iter().any(|s| s.offset == probe);
        assert_eq!(board.find(probe).map(|s| s.offset), found.then_some(probe));
        board.check();
    }
}

#[test]
fn random_operations_match_plain_list() {
    for seed in 0..400 {
        let told = Seed(seed);
        let mut random = random(seed);
        let mut both = Both {
            board: Scoreboard::new(Numbering::Bytes),
            model: Model { segments: Vec::new(), next_offset: 0 },
            now: tests::epoch(),
            packet_number: 0,
        };
        for _ in 0..300 {
            both.step(&mut random);
            both.compare(both.model.next_offset.saturating_sub(random(1000)));
        }
        drop(told);
    }
}

/// Prints the seed when the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the failing seed is {}", self.0);
        }
    }
}
