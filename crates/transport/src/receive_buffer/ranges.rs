//! Puts a stream of bytes in order by their offsets: owns `rcv_nxt`, what is held beyond holes, what the
//! application has not read, and the CRC-32 of everything in order. Knows no wire format, no time and no
//! policy of windows or ACKs.
//!
//! Segments may overlap what came before in any way, since a sender cuts them anew after a change of its
//! packet size; of two bytes for one offset the first to arrive stays. Each byte is copied once.

use super::chunks::Chunks;
use super::crc::StreamCrc;
use crate::planted::{self, Bug};
use crate::range_set::RangeSet;

/// Ranges held beyond holes at most, where nothing else is said: 10 % loss of a window of 650,000 packets. A packet that
/// would be one range more is refused; moving so many ranges aside for one in their middle takes some 20 us.
pub const MAX_RANGES: usize = 1 << 16;

/// What to keep and what to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The bytes, for [`Stream::data`].
    pub payload: bool,
    /// Their CRC-32.
    pub checksum: bool,
}

/// A part of the stream as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// Offset of its first byte in the stream.
    pub offset: u64,
    /// Its bytes.
    pub payload: &'a [u8],
    /// Their CRC-32, if the check of the packet computed it: saves reading them again.
    pub crc: Option<u32>,
}

/// How far an arrival may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The window's right edge: the first offset that was not offered. At least `rcv_nxt`.
    pub right_edge: u64,
    /// Bytes are refused if [`Stream::memory`] would be more than this, in bytes. Bytes in order are taken in any case
    /// while no more than `unread` wait for the application.
    pub memory: u64,
    /// See `memory`; in bytes.
    pub unread: u64,
}

/// What became of a segment. Bytes; the first four add up to its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrival {
    /// New and kept.
    pub new: u64,
    /// Here before.
    pub duplicate: u64,
    /// Refused: beyond the window's right edge.
    pub beyond_window: u64,
    /// Refused: there is no memory, or there are too many holes.
    pub no_room: u64,
    /// How far `rcv_nxt` moved.
    pub advanced: u64,
    /// Something was held beyond a hole when it came; so if `rcv_nxt` moved, a hole was filled, wholly or
    /// in part.
    pub had_hole: bool,
}

/// The stream's receiving side.
#[derive(Debug)]
pub struct Stream {
    keep: Keep,
    start: u64,
    /// Offset of the first byte that the application has not read; `rcv_nxt` if no bytes are kept for it.
    read: u64,
    rcv_nxt: u64,
    /// What arrived beyond `rcv_nxt`; never touches it.
    held: RangeSet,
    chunks: Chunks,
    crc: StreamCrc,
}

impl Stream {
    /// A stream whose first byte has offset `start`, and that holds at most `max_ranges` ranges beyond holes.
    pub fn new(start: u64, max_ranges: usize, keep: Keep) -> Self {
        Self {
            keep,
            start,
            read: start,
            rcv_nxt: start,
            held: RangeSet::new(max_ranges),
            chunks: Chunks::new(start),
            crc: StreamCrc::new(start),
        }
    }

    /// Takes a segment.
    pub fn insert(&mut self, segment: Segment<'_>, limits: Limits) -> Arrival {
        let Segment { offset, payload, crc } = segment;
        let (payload, beyond) = payload.split_at(length(limits.right_edge.saturating_sub(offset), payload));
        let (old, payload) = payload.split_at(length(self.rcv_nxt.saturating_sub(offset), payload));
        let mut arrival = Arrival {
            duplicate: old.len() as u64,
            beyond_window: beyond.len() as u64,
            had_hole: !self.held.is_empty(),
            ..Arrival::default()
        };
        if payload.is_empty() {
            if planted::is(Bug::DuplicateDelivered) {
                self.accept_in_order(Segment { offset: self.rcv_nxt, payload: old, crc }, &mut arrival);
            }
            return arrival;
        }
        let crc = crc.filter(|_| old.is_empty() && beyond.is_empty());
        let start = offset + old.len() as u64;
        let segment = Segment { offset: start, payload, crc };
        if start == self.rcv_nxt {
            if self.has_room_in_order(&segment, limits) {
                self.accept_in_order(segment, &mut arrival);
            } else {
                arrival.no_room = segment.payload.len() as u64;
            }
        } else {
            self.hold(segment, limits.memory, &mut arrival);
        }
        arrival
    }

    /// The next bytes in order that the application has not consumed: empty only if there are none, but up
    /// to where they lie in one piece. So read until it is empty.
    pub fn data(&self) -> &[u8] {
        self.chunks.slice(self.read..self.rcv_nxt)
    }

    /// Takes the next `n` bytes in order as read, or as many as there are.
    pub fn consume(&mut self, n: u64) {
        self.read += n.min(self.rcv_nxt - self.read);
        self.release();
    }

    /// Nothing more will come: no memory is kept for it.
    pub fn end(&mut self) {
        self.chunks.end();
    }

    /// Offset of the next byte expected in order.
    pub fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// Offset of the next byte that the application will read.
    pub fn read_offset(&self) -> u64 {
        self.read
    }

    /// What is held beyond holes.
    pub fn held(&self) -> &RangeSet {
        &self.held
    }

    /// True if nothing is held beyond a hole.
    pub fn is_contiguous(&self) -> bool {
        self.held.is_empty()
    }

    /// Bytes in order so far.
    pub fn bytes(&self) -> u64 {
        self.rcv_nxt - self.start
    }

    /// CRC-32 of the bytes in order so far; 0 if it is not computed.
    pub fn crc(&self) -> u32 {
        self.crc.crc()
    }

    /// Memory in use, in bytes: chunks that hold something unread, and what is noted of each range. Up to
    /// 1 MiB, or as much again where that is more, is kept for reuse beside it.
    pub fn memory(&self) -> u64 {
        let ranges = (self.held.len() * RangeSet::RANGE_SIZE) as u64;
        self.chunks.memory() + self.crc.memory() + ranges
    }

    fn accept_in_order(&mut self, segment: Segment<'_>, arrival: &mut Arrival) {
        let Segment { offset, payload, .. } = segment;
        let end = offset + payload.len() as u64;
        let before = self.rcv_nxt;
        if arrival.had_hole {
            for gap in self.held.gaps(offset..end) {
                let part = part_of(&segment, &gap);
                if self.keep.checksum {
                    self.crc.append(part.payload, part.crc);
                }
                if self.keep.payload {
                    self.chunks.write(gap.start, part.payload);
                }
                arrival.new += gap.end - gap.start;
            }
            self.rcv_nxt = self.held.first_missing(end);
            self.held.remove_below(self.rcv_nxt);
        } else {
            if self.keep.checksum {
                self.crc.append(payload, segment.crc);
            }
            if self.keep.payload {
                self.chunks.write(offset, payload);
            }
            arrival.new = payload.len() as u64;
            self.rcv_nxt = end;
        }
        arrival.duplicate += payload.len() as u64 - arrival.new;
        arrival.advanced = self.rcv_nxt - before;
        if !self.keep.payload {
            self.read = self.rcv_nxt;
        }
    }

    fn has_room_in_order(&self, segment: &Segment<'_>, limits: Limits) -> bool {
        if self.rcv_nxt - self.read + segment.payload.len() as u64 <= limits.unread
            || self.read == self.rcv_nxt
        {
            return true;
        }
        let range = segment.offset..segment.offset + segment.payload.len() as u64;
        let cost = self.chunks.cost(&range);
        cost == 0 || self.memory() + cost <= limits.memory
    }

    fn hold(&mut self, segment: Segment<'_>, memory: u64, arrival: &mut Arrival) {
        let Segment { offset, payload, .. } = segment;
        let range = offset..offset + payload.len() as u64;
        let cost = if self.keep.payload { self.chunks.cost(&range) } else { 0 };
        if !self.held.has_room_for(&range) || (cost > 0 && self.memory() + cost > memory) {
            arrival.no_room = payload.len() as u64;
            return;
        }
        for gap in self.held.gaps(range.clone()) {
            let part = part_of(&segment, &gap);
            if self.keep.checksum {
                self.crc.hold(gap.start, part.payload, part.crc);
            }
            if self.keep.payload {
                self.chunks.write(gap.start, part.payload);
            }
        }
        arrival.new = self.held.insert(range).expect("there is room for the range");
        arrival.duplicate += payload.len() as u64 - arrival.new;
    }

    fn release(&mut self) {
        if self.read == self.rcv_nxt && self.held.is_empty() {
            self.chunks.clear(self.read);
        } else {
            self.chunks.release_below(self.read);
        }
    }
}

/// How many bytes of `payload` come before an offset that is `distance` bytes from its start.
fn length(distance: u64, payload: &[u8]) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX).min(payload.len())
}

/// What a segment has for a gap within it; its CRC is that of the whole.
fn part_of<'a>(segment: &Segment<'a>, gap: &std::ops::Range<u64>) -> Segment<'a> {
    let from = length(gap.start - segment.offset, segment.payload);
    let to = length(gap.end - segment.offset, segment.payload);
    let payload = &segment.payload[from..to];
    let whole = payload.len() == segment.payload.len();
    Segment { offset: gap.start, payload, crc: segment.crc.filter(|_| whole) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive_buffer::chunks::{CHUNK, SLOT};

    const KEEP: Keep = Keep { payload: true, checksum: true };
    const WIDE: Limits = Limits { right_edge: 1 << 30, memory: 1 << 30, unread: 1 << 30 };

    fn stream() -> Stream {
        Stream::new(0, 8, KEEP)
    }

    fn put(stream: &mut Stream, offset: u64, payload: &[u8]) -> Arrival {
        stream.insert(Segment { offset, payload, crc: Some(crc32fast::hash(payload)) }, WIDE)
    }

    fn read_all(stream: &mut Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !stream.data().is_empty() {
            bytes.extend_from_slice(stream.data());
            stream.consume(stream.data().len() as u64);
        }
        bytes
    }

    #[test]
    fn filling_a_hole_makes_everything_behind_it_readable() {
        let mut stream = stream();
        let held = Arrival { new: 3, ..Arrival::default() };
        assert_eq!(put(&mut stream, 6, b"ghi"), held);
        assert_eq!(put(&mut stream, 3, b"def"), Arrival { had_hole: true, ..held });
        assert!(stream.data().is_empty() && !stream.is_contiguous());
        let filled = put(&mut stream, 0, b"abc");
        assert_eq!(filled, Arrival { new: 3, advanced: 9, had_hole: true, ..Arrival::default() });
        assert_eq!((stream.data(), stream.crc()), (&b"abcdefghi"[..], crc32fast::hash(b"abcdefghi")));
        stream.consume(4);
        assert_eq!((stream.data(), stream.read_offset()), (&b"efghi"[..], 4));
        stream.consume(100);
        assert_eq!((stream.read_offset(), stream.memory()), (9, 0));
    }

    #[test]
    fn of_two_bytes_for_one_offset_the_first_stays() {
        let mut stream = stream();
        put(&mut stream, 2, b"CD");
        put(&mut stream, 6, b"GH");
        let across = put(&mut stream, 1, b"bcdefgh");
        assert_eq!((across.new, across.duplicate, across.no_room), (3, 4, 0), "b, e and f");
        let start = put(&mut stream, 0, b"abxx");
        assert_eq!((start.new, start.duplicate, start.advanced), (1, 3, 8));
        assert_eq!(put(&mut stream, 5, b"???IJ").duplicate, 3);
        assert_eq!(stream.crc(), crc32fast::hash(b"abCDefGHIJ"));
        assert_eq!(read_all(&mut stream), b"abCDefGHIJ");
    }

    #[test]
    fn bytes_beyond_the_right_edge_are_refused_and_counted() {
        let mut stream = stream();
        let limits = Limits { right_edge: 5, ..WIDE };
        let mut put = |offset, payload| {
            let arrival = stream.insert(Segment { offset, payload, crc: Some(0) }, limits);
            (arrival.new, arrival.beyond_window)
        };
        assert_eq!(put(3, b"defg"), (2, 2));
        assert_eq!(put(5, b"fg"), (0, 2));
        assert_eq!(put(u64::MAX, b"zz"), (0, 2));
        assert_eq!(put(0, b"abcDEFG"), (3, 2));
        assert_eq!(stream.crc(), crc32fast::hash(b"abcde"), "a segment's CRC is not that of a part");
        assert_eq!(read_all(&mut stream), b"abcde");
    }

    #[test]
    fn memory_beyond_a_hole_is_that_of_the_chunks_used() {
        let mut stream = stream();
        let far = Segment { offset: 100 << 20, payload: b"far", crc: None };
        let need = CHUNK + 1601 * SLOT;
        let tight = Limits { right_edge: u64::MAX, memory: need - 1, unread: 0 };
        assert_eq!(stream.insert(far, tight).no_room, 3);
        assert_eq!(stream.memory(), 0);
        assert_eq!(stream.insert(far, Limits { memory: need, ..tight }).new, 3);
        let beside = Segment { offset: (100 << 20) + 10, ..far };
        assert_eq!(stream.insert(beside, tight).new, 3, "its chunk is there");
        let in_order = Segment { offset: 0, payload: &vec![1; 70_000], crc: None };
        assert_eq!(stream.insert(in_order, tight).new, 70_000, "in order needs no leave");
        let absurd = Segment { offset: u64::MAX - 9, ..far };
        assert_eq!(stream.insert(absurd, Limits { memory: 1 << 30, ..tight }).no_room, 3);
    }

    #[test]
    fn every_second_byte_is_taken_only_up_to_the_limit_of_ranges() {
        let mut stream = stream();
        let taken: u64 = (1..100).map(|index| put(&mut stream, 2 * index, b"x").new).sum();
        assert_eq!((taken, stream.held().len()), (8, 8));
        assert_eq!(put(&mut stream, 3, b"y").new, 1, "what touches a range is no new one");
        assert_eq!(put(&mut stream, 0, b"ab").advanced, 5);
    }

    #[test]
    fn without_payload_nothing_is_stored_and_the_crc_is_the_same() {
        let mut stream = Stream::new(50, 8, Keep { payload: false, checksum: true });
        put(&mut stream, 53, b"def");
        assert_eq!(stream.memory(), 16 + 24, "a range and its CRC");
        put(&mut stream, 50, b"abcd");
        assert_eq!((stream.crc(), stream.bytes(), stream.memory()), (crc32fast::hash(b"abcdef"), 6, 0));
        assert!(stream.data().is_empty());
        let mut counting = Stream::new(0, 8, Keep { payload: false, checksum: false });
        put(&mut counting, 0, b"abc");
        assert_eq!((counting.rcv_nxt(), counting.crc(), counting.memory()), (3, 0, 0));
    }

    /// What a stream should be, a byte at a time; bytes carry the step in which they came.
    struct Model {
        bytes: Vec<Option<u8>>,
        rcv_nxt: usize,
        read: Vec<u8>,
    }

    impl Model {
        fn rcv_nxt(&self) -> u64 {
            self.rcv_nxt as u64
        }

        fn in_order(&self) -> Vec<u8> {
            self.bytes.iter().map_while(|byte| *byte).collect()
        }

        /// Returns how many bytes were new, and how many here before.
        fn insert(&mut self, offset: usize, payload: &[u8]) -> (u64, u64) {
            let mut counts = (0, 0);
            for (place, byte) in self.bytes[offset..].iter_mut().zip(payload) {
                if place.is_none() {
                    *place = Some(*byte);
                    counts.0 += 1;
                } else {
                    counts.1 += 1;
                }
            }
            self.rcv_nxt += self.bytes[self.rcv_nxt..].iter().take_while(|byte| byte.is_some()).count();
            counts
        }
    }

    #[test]
    fn any_segments_give_what_a_model_of_single_bytes_gives() {
        for seed in 0..150 {
            let mut random = crate::range_set::random(seed);
            let size = 3 * CHUNK + 1000;
            let mut model =
                Model { bytes: vec![None; usize::try_from(size).unwrap()], rcv_nxt: 0, read: Vec::new() };
            let keep = Keep { payload: seed % 5 != 0, checksum: seed % 7 != 0 };
            let mut stream = Stream::new(0, 20, keep);
            let mut right_edge = 5000 + random(size);
            let mut step = 0;
            while model.rcv_nxt() < size {
                step += 1;
                let near = model.rcv_nxt().saturating_sub(2000) + random(12_000);
                let offset = if random(3) == 0 { model.rcv_nxt() } else { near }.min(size - 1);
                let length = (1 + random([50, 3000, 9000][step % 3])).min(size - offset);
                let payload: Vec<u8> = (0..length).map(|_| random(256).to_le_bytes()[0]).collect();
                let crc = (random(2) == 0).then(|| crc32fast::hash(&payload));
                right_edge = right_edge.max(model.rcv_nxt() + random(20_000));
                let limits = Limits { right_edge, memory: 3 * CHUNK, ..WIDE };
                let got = stream.insert(Segment { offset, payload: &payload, crc }, limits);

                let before = model.rcv_nxt();
                let inside = usize::try_from(right_edge.saturating_sub(offset).min(length)).unwrap();
                if got.no_room == 0 {
                    let counts = model.insert(usize::try_from(offset).unwrap(), &payload[..inside]);
                    assert_eq!((got.new, got.duplicate), counts, "seed {seed} step {step}");
                } else {
                    assert!(offset > before && got.new == 0, "seed {seed} step {step}");
                }
                assert_eq!(got.beyond_window, length - inside as u64, "seed {seed} step {step}");
                assert_eq!(got.advanced, model.rcv_nxt() - before, "seed {seed} step {step}");
                assert_eq!(stream.rcv_nxt(), model.rcv_nxt(), "seed {seed} step {step}");
                if step % 4 == 0 {
                    let part =
                        &stream.data()[..stream.data().len().min(usize::try_from(random(9000)).unwrap())];
                    model.read.extend_from_slice(part);
                    let n = part.len() as u64;
                    stream.consume(n);
                }
                if step % 64 == 0 && keep.checksum {
                    assert_eq!(stream.crc(), crc32fast::hash(&model.in_order()), "seed {seed} step {step}");
                }
            }
            model.read.extend(read_all(&mut stream));
            let expected = if keep.payload { model.in_order() } else { Vec::new() };
            assert!(model.read == expected, "seed {seed}: the bytes differ");
            let crc = if keep.checksum { crc32fast::hash(&model.in_order()) } else { 0 };
            assert_eq!((stream.crc(), stream.memory()), (crc, 0), "seed {seed}");
        }
    }
}
