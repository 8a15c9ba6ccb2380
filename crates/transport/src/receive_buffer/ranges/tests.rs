//! Segments by byte offsets: holes, overlaps, limits, and a model of single bytes.

use super::super::ReceiveBuffer;
use super::super::chunks::{CHUNK, SLOT};
use super::*;

const WIDE: Limits = Limits { right_edge: 1 << 30, memory: 1 << 30, unread: 1 << 30 };

fn stream() -> ReceiveBuffer {
    ReceiveBuffer::of_bytes(0, 8, true)
}

fn put(stream: &mut ReceiveBuffer, offset: u64, payload: &[u8]) -> Arrival {
    stream.insert(Segment { seq: offset, payload }, WIDE)
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
    assert_eq!(stream.data(), b"abcdefghi");
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
    assert_eq!(read_all(&mut stream), b"abCDefGHIJ");
}

#[test]
fn bytes_beyond_right_edge_are_refused() {
    let mut stream = stream();
    let limits = Limits { right_edge: 5, ..WIDE };
    let mut put = |offset, payload| {
        let arrival = stream.insert(Segment { seq: offset, payload }, limits);
        (arrival.new, arrival.beyond_window)
    };
    assert_eq!(put(3, b"defg"), (2, 2));
    assert_eq!(put(5, b"fg"), (0, 2));
    assert_eq!(put(u64::MAX, b"zz"), (0, 2));
    assert_eq!(put(0, b"abcDEFG"), (3, 2));
    assert_eq!(read_all(&mut stream), b"abcde");
}

#[test]
fn memory_beyond_hole_is_that_of_its_chunks() {
    let mut stream = stream();
    let far = Segment { seq: 100 << 20, payload: b"far" };
    let need = CHUNK + 1601 * SLOT;
    let tight = Limits { right_edge: u64::MAX, memory: need - 1, unread: 0 };
    assert_eq!(stream.insert(far, tight).no_room, 3);
    assert_eq!(stream.memory(), 0);
    assert_eq!(stream.insert(far, Limits { memory: need, ..tight }).new, 3);
    let beside = Segment { seq: (100 << 20) + 10, ..far };
    assert_eq!(stream.insert(beside, tight).new, 3, "its chunk is there");
    let in_order = Segment { seq: 0, payload: &vec![1; 70_000] };
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
fn without_payload_only_ranges_are_kept() {
    let mut stream = ReceiveBuffer::of_bytes(50, 8, false);
    put(&mut stream, 53, b"def");
    assert_eq!(stream.memory(), 16, "a range");
    put(&mut stream, 50, b"abcd");
    assert_eq!((stream.rcv_nxt(), stream.bytes(), stream.memory()), (56, 6, 0));
    assert!(stream.data().is_empty());
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
        let keeps_payload = seed % 5 != 0;
        let mut stream = ReceiveBuffer::of_bytes(0, 20, keeps_payload);
        let mut right_edge = 5000 + random(size);
        let mut step = 0;
        while model.rcv_nxt() < size {
            step += 1;
            let near = model.rcv_nxt().saturating_sub(2000) + random(12_000);
            let offset = if random(3) == 0 { model.rcv_nxt() } else { near }.min(size - 1);
            let length = (1 + random([50, 3000, 9000][step % 3])).min(size - offset);
            let payload: Vec<u8> = (0..length).map(|_| random(256).to_le_bytes()[0]).collect();
            right_edge = right_edge.max(model.rcv_nxt() + random(20_000));
            let limits = Limits { right_edge, memory: 3 * CHUNK, ..WIDE };
            let got = stream.insert(Segment { seq: offset, payload: &payload }, limits);

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
        }
        model.read.extend(read_all(&mut stream));
        let expected = if keeps_payload { model.in_order() } else { Vec::new() };
        assert!(model.read == expected, "seed {seed}: the bytes differ");
        assert_eq!(stream.memory(), 0, "seed {seed}");
    }
}
