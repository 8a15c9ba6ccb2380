//! Segments by byte offsets: holes, overlaps, limits, and a model of single bytes.

use super::super::chunks::{CHUNK, SLOT};
use super::super::{Keep, ReceiveBuffer};
use super::*;

const KEEP: Keep = Keep { payload: true, checksum: true };
const WIDE: Limits = Limits { right_edge: 1 << 30, memory: 1 << 30, unread: 1 << 30 };

fn stream() -> ReceiveBuffer {
    ReceiveBuffer::of_bytes(0, 8, KEEP)
}

fn put(stream: &mut ReceiveBuffer, offset: u64, payload: &[u8]) -> Arrival {
    stream.insert(Segment { seq: offset, payload, crc: Some(crc32fast::hash(payload)) }, WIDE)
}

fn read_all(stream: &mut ReceiveBuffer) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !stream.data().is_empty() {
        bytes.extend_from_slice(stream.data());
        stream.consume(stream.data().len() as u64);
    }
    bytes
}

#[test]
fn filled_hole_makes_all_behind_it_readable() {
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
fn first_byte_for_an_offset_stays() {
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
fn bytes_beyond_right_edge_are_refused() {
    let mut stream = stream();
    let limits = Limits { right_edge: 5, ..WIDE };
    let mut put = |offset, payload| {
        let arrival = stream.insert(Segment { seq: offset, payload, crc: Some(0) }, limits);
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
fn memory_beyond_hole_is_that_of_its_chunks() {
    let mut stream = stream();
    let far = Segment { seq: 100 << 20, payload: b"far", crc: None };
    let need = CHUNK + 1601 * SLOT;
    let tight = Limits { right_edge: u64::MAX, memory: need - 1, unread: 0 };
    assert_eq!(stream.insert(far, tight).no_room, 3);
    assert_eq!(stream.memory(), 0);
    assert_eq!(stream.insert(far, Limits { memory: need, ..tight }).new, 3);
    let beside = Segment { seq: (100 << 20) + 10, ..far };
    assert_eq!(stream.insert(beside, tight).new, 3, "its chunk is there");
    let in_order = Segment { seq: 0, payload: &vec![1; 70_000], crc: None };
    assert_eq!(stream.insert(in_order, tight).new, 70_000, "in order needs no leave");
    let absurd = Segment { seq: u64::MAX - 9, ..far };
    assert_eq!(stream.insert(absurd, Limits { memory: 1 << 30, ..tight }).no_room, 3);
}

#[test]
fn number_of_ranges_is_limited() {
    let mut stream = stream();
    let taken: u64 = (1..100).map(|index| put(&mut stream, 2 * index, b"x").new).sum();
    assert_eq!((taken, stream.held().unwrap().len()), (8, 8));
    assert_eq!(put(&mut stream, 3, b"y").new, 1, "what touches a range is no new one");
    assert_eq!(put(&mut stream, 0, b"ab").advanced, 5);
}

#[test]
fn without_payload_only_crc_is_kept() {
    let mut stream = ReceiveBuffer::of_bytes(50, 8, Keep { payload: false, checksum: true });
    put(&mut stream, 53, b"def");
    assert_eq!(stream.memory(), 16 + 24, "a range and its CRC");
    put(&mut stream, 50, b"abcd");
    assert_eq!((stream.crc(), stream.bytes(), stream.memory()), (crc32fast::hash(b"abcdef"), 6, 0));
    assert!(stream.data().is_empty());
    let mut counting = ReceiveBuffer::of_bytes(0, 8, Keep { payload: false, checksum: false });
    put(&mut counting, 0, b"abc");
    assert_eq!((counting.rcv_nxt(), counting.crc(), counting.memory()), (3, 0, 0));
}

/// Plain model of a stream, byte by byte.
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

    /// Returns the number of bytes that were new, and of those that had arrived before.
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
fn random_segments_agree_with_byte_model() {
    for seed in 0..150 {
        let mut random = rdt_testing::random(seed);
        let size = 3 * CHUNK + 1000;
        let mut model =
            Model { bytes: vec![None; usize::try_from(size).unwrap()], rcv_nxt: 0, read: Vec::new() };
        let keep = Keep { payload: seed % 5 != 0, checksum: seed % 7 != 0 };
        let mut stream = ReceiveBuffer::of_bytes(0, 20, keep);
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
            let got = stream.insert(Segment { seq: offset, payload: &payload, crc }, limits);

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
                let part = &stream.data()[..stream.data().len().min(usize::try_from(random(9000)).unwrap())];
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
