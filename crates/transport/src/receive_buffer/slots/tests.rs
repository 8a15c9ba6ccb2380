//! Packets in any order: what is readable, the CRC, and the memory.

use super::super::chunks::CHUNK;
use super::super::{Beyond, Keep, ReceiveBuffer};
use super::*;

const KEEP: Keep = Keep { payload: true, checksum: true };

fn buffer(first: u64, range: u64) -> ReceiveBuffer {
    ReceiveBuffer::of_packets(first, range, KEEP)
}

fn put(buffer: &mut ReceiveBuffer, seq: u64, payload: &[u8], memory: u64) -> Arrival {
    let limits = Limits { right_edge: u64::MAX, memory, unread: u64::MAX };
    buffer.insert(Segment { seq, payload }, limits)
}

fn slots(buffer: &ReceiveBuffer) -> &Slots {
    match &buffer.beyond {
        Beyond::Slots(slots) => slots,
        Beyond::Ranges(_) => panic!("packets are numbered"),
    }
}

fn read_all(buffer: &mut ReceiveBuffer) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let n @ 1.. = buffer.data().len() {
        bytes.extend_from_slice(buffer.data());
        buffer.consume(n as u64);
    }
    bytes
}

fn accepted(advanced: u64) -> Arrival {
    Arrival { new: 1, advanced, ..Arrival::default() }
}

#[test]
fn filled_hole_releases_everything_behind_it() {
    let mut r = buffer(0, 80_000);
    assert_eq!(put(&mut r, 2, b"c", 1000), accepted(0));
    assert_eq!(put(&mut r, 1, b"b", 1000), Arrival { had_hole: true, ..accepted(0) });
    assert_eq!(put(&mut r, 2, b"c", 1000).duplicate, 1);
    assert!(!r.is_contiguous() && r.data().is_empty());
    assert_eq!(put(&mut r, 0, b"a", 0).advanced, 3, "in order needs no memory");
    assert_eq!((r.data(), r.rcv_nxt(), r.is_contiguous()), (&b"abc"[..], 3, true));
    assert_eq!(r.crc(), crc32fast::hash(b"abc"));
    r.consume(2);
    assert_eq!(r.data(), b"c");
    r.consume(1);
    assert_eq!((r.memory(), r.bytes()), (0, 3));
}

#[test]
fn range_is_that_of_reference_receiver() {
    let mut r = buffer(100_000, 80_000);
    let big = 1 << 30;
    assert_eq!(put(&mut r, 180_000, b"x", big).beyond_window, 1);
    assert_eq!(put(&mut r, 179_999, b"x", big).new, 1);
    assert_eq!(put(&mut r, 20_000, b"x", big).duplicate, 1);
    assert_eq!(put(&mut r, 19_999, b"x", big).beyond_window, 1);
}

#[test]
fn memory_beyond_holes_includes_slots() {
    let mut r = buffer(0, 80_000);
    let need = 80_000 * SLOT + PACKET + 3;
    assert_eq!(put(&mut r, 79_999, b"far", need - 1).no_room, 1);
    assert_eq!(r.memory(), 0);
    assert_eq!(put(&mut r, 79_999, b"far", need).new, 1);
    assert_eq!(r.memory(), need);
}

#[test]
fn empty_and_short_packets_are_concatenated() {
    let mut r = buffer(7, 10);
    for (seq, payload) in [(9, &b"cde"[..]), (8, b""), (7, b"ab")] {
        assert_eq!(put(&mut r, seq, payload, 1000).new, 1);
    }
    assert_eq!(r.data(), b"abcde");
}

/// Packets that arrived, and how many bytes were read.
struct Model {
    packets: Vec<Vec<u8>>,
    arrived: Vec<bool>,
    read: usize,
}

impl Model {
    fn rcv_nxt(&self) -> usize {
        self.arrived.iter().position(|arrived| !arrived).unwrap_or(self.packets.len())
    }

    fn in_order(&self) -> Vec<u8> {
        self.packets[..self.rcv_nxt()].concat()
    }

    fn held(&self) -> impl Iterator<Item = &Vec<u8>> {
        let held = self.arrived.iter().zip(&self.packets).skip(self.rcv_nxt());
        held.filter(|(arrived, _)| **arrived).map(|(_, packet)| packet)
    }

    fn check(&self, r: &mut ReceiveBuffer, place: &str) {
        let keep = r.ordered.keep();
        let (bytes, held): (_, Vec<_>) = (self.in_order(), self.held().map(Vec::len).collect());
        let unread = if keep.payload { bytes.len() - self.read } else { 0 };
        assert_eq!((r.rcv_nxt(), r.bytes()), (self.rcv_nxt() as u64, bytes.len() as u64), "{place}");
        assert_eq!((r.unread(), r.data().is_empty()), (unread as u64, unread == 0), "{place}");
        if keep.payload {
            assert!(bytes[self.read..].starts_with(r.data()), "{place}");
        }
        assert_eq!(r.crc(), if keep.checksum { crc32fast::hash(&bytes) } else { 0 }, "{place}");
        assert_eq!(r.is_contiguous(), held.is_empty(), "{place}");
        let beyond: u64 = held.iter().map(|len| *len as u64 + PACKET).sum();
        let slots = slots(r);
        assert_eq!(r.held_memory(), beyond + slots.beyond.len() as u64 * SLOT, "{place}");
        assert_eq!(slots.in_place + slots.aside.len() as u64, held.len() as u64, "{place}");
        let chunks = r.ordered.chunks.memory();
        assert!(chunks <= slots.most_memory(&r.ordered) + 2 * CHUNK, "{place}: {chunks} bytes");
    }
}

#[test]
fn random_order_agrees_with_plain_model() {
    let (mut in_place, mut aside) = (0, 0);
    for seed in 0..300_u64 {
        let mut random = rdt_testing::random(seed);
        let count = 20 + index(random(180));
        let range = 2 + random(100);
        let longest = [5, 1472, 9000, 40_000][index(random(4))];
        // Packets of one size, except for one in `odd`.
        let odd = [1, 10, 1000][index(random(3))];
        let packets = (0..count)
            .map(|_| {
                let len = if random(odd) == 0 { random(longest) } else { longest };
                vec![random(256).to_le_bytes()[0]; index(len)]
            })
            .collect();
        let mut model = Model { packets, arrived: vec![false; count], read: 0 };
        let keep = Keep { payload: seed % 5 != 0, checksum: seed % 7 != 0 };
        let mut r = ReceiveBuffer::of_packets(0, range, keep);
        let (reads, jumps) = (1 + random(40), 1 + random(20));
        let mut step = 0;
        while model.rcv_nxt() < count {
            step += 1;
            let place = format!("seed {seed} step {step}");
            let next = r.rcv_nxt();
            // The next packet is often missing for long.
            let seq = if random(jumps) == 0 { next } else { next + random(range + 5) }.min(count as u64 - 1);
            let new = seq >= next && seq < next + range && !model.arrived[index(seq)];
            let arrival = put(&mut r, seq, &model.packets[index(seq)], 1 << 30);
            assert_eq!(arrival.new, u64::from(new), "{place}, packet {seq}");
            model.arrived[index(seq)] |= new;
            assert_eq!(arrival.advanced, model.rcv_nxt() as u64 - next, "{place}");
            in_place += u64::from(slots(&r).in_place > 0);
            aside += u64::from(!slots(&r).aside.is_empty());
            if step % 4 == 0 || random(4) == 0 {
                model.check(&mut r, &place);
            }
            if random(reads) == 0 {
                let n = random(1 + 2 * r.unread()).min(r.unread());
                model.read += index(n);
                r.consume(n);
                model.check(&mut r, &place);
            }
        }
        r.end();
        model.read += index(r.unread());
        r.consume(u64::MAX);
        model.check(&mut r, &format!("seed {seed}"));
        assert!(r.is_contiguous() && r.memory() == 0, "seed {seed}");
        assert_eq!((r.ordered.chunks.memory(), slots(&r).beyond.capacity()), (0, 0), "seed {seed}");
    }
    assert!(in_place > 10_000 && aside > 10_000, "{in_place} in place, {aside} aside");
}

#[test]
fn bytes_are_copied_once_if_sizes_are_equal() {
    let mut r = buffer(0, 80_000);
    for seq in (1..5000).chain([0]) {
        put(&mut r, seq, &seq.to_le_bytes().repeat(100), 1 << 30);
        assert!(slots(&r).aside.is_empty());
    }
    let expected: Vec<u8> = (0..5000_u64).flat_map(|seq| seq.to_le_bytes().repeat(100)).collect();
    assert!(read_all(&mut r) == expected);
    assert_eq!(r.crc(), crc32fast::hash(&expected));
}

#[test]
fn packet_of_another_size_moves_held_ones_aside() {
    let mut r = buffer(0, 80_000);
    for seq in 1..4 {
        put(&mut r, seq, b"abc", 1000);
    }
    assert_eq!((slots(&r).in_place, slots(&r).aside.len()), (3, 0));
    put(&mut r, 5, b"abcd", 1000);
    assert_eq!((slots(&r).in_place, slots(&r).aside.len()), (3, 1));
    put(&mut r, 0, b"ab", 0);
    assert_eq!((r.data(), slots(&r).aside.len()), (&b"ababcabcabc"[..], 1));
    put(&mut r, 4, b"", 0);
    assert_eq!((r.data(), slots(&r).aside.len()), (&b"ababcabcabcabcd"[..], 0));
}

#[test]
fn sparse_packets_take_no_chunk_each() {
    let mut r = buffer(0, 80_000);
    let payload = [7; 1464];
    for seq in (1..80_000).step_by(50) {
        put(&mut r, seq, &payload, 1 << 30);
    }
    let (held, chunks) = (slots(&r).held_packets * 1464, r.ordered.chunks.memory());
    assert!(held > 2_000_000 && chunks <= 2 * r.memory() + SLACK, "{chunks} bytes for {held}");
    for seq in 0..80_000 {
        put(&mut r, seq, &payload, 1 << 30);
    }
    assert_eq!(read_all(&mut r).len(), 80_000 * 1464);
}

#[test]
fn memory_stays_bounded_when_dense_packets_are_read() {
    let mut r = buffer(0, 80_000);
    let payload = [7; 1000];
    // Dense packets allow chunks for sparse ones behind them.
    for seq in (1..10_000).chain((10_001..20_000).step_by(66)) {
        put(&mut r, seq, &payload, 1 << 30);
    }
    assert_eq!(slots(&r).aside.len(), 0);
    put(&mut r, 0, &payload, 0);
    read_all(&mut r);
    assert_eq!(slots(&r).held_packets, 152);
    let chunks = r.ordered.chunks.memory();
    assert!(chunks <= 2 * r.memory() + SLACK, "{chunks} bytes");
    for seq in 10_000..20_000 {
        put(&mut r, seq, &payload, 1 << 30);
    }
    assert_eq!(read_all(&mut r).len(), 10_000 * 1000);
}

#[test]
fn slots_are_freed_at_end() {
    let mut r = buffer(0, 80_000);
    for seq in (1..=500).chain([0]) {
        put(&mut r, seq, &[7; 1000], 1 << 30);
    }
    assert!(slots(&r).beyond.capacity() > 0);
    r.end();
    assert_eq!(slots(&r).beyond.capacity(), 0);
    assert_eq!((read_all(&mut r).len(), r.ordered.chunks.memory()), (501_000, 0));
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}
