//! The machine alone: what arrives in any order, what of it is readable, and what memory that takes.

use super::*;

const KEEP: Keep = Keep { payload: true, checksum: true };

#[test]
fn filling_a_hole_releases_everything_behind_it() {
    let mut r = Reassembly::new(0, 80_000, KEEP);
    assert_eq!(r.insert(2, b"c", 1000), Insert::Accepted { moved: 0 });
    assert_eq!(r.insert(1, b"b", 1000), Insert::Accepted { moved: 0 });
    assert_eq!(r.insert(2, b"c", 1000), Insert::Duplicate);
    assert!(!r.is_contiguous() && r.data().is_empty());
    assert_eq!(r.insert(0, b"a", 0), Insert::Accepted { moved: 3 }, "in order needs no memory");
    assert_eq!((r.data(), r.rcv_nxt(), r.is_contiguous()), (&b"abc"[..], 3, true));
    assert_eq!(r.crc(), crc32fast::hash(b"abc"));
    r.consume(2);
    assert_eq!(r.data(), b"c");
    r.consume(1);
    assert_eq!((r.memory(), r.bytes()), (0, 3));
}

#[test]
fn the_range_is_that_of_the_reference_receiver() {
    let mut r = Reassembly::new(100_000, 80_000, KEEP);
    let big = 1 << 30;
    assert_eq!(r.insert(180_000, b"x", big), Insert::OutOfRange);
    assert_eq!(r.insert(179_999, b"x", big), Insert::Accepted { moved: 0 });
    assert_eq!(r.insert(20_000, b"x", big), Insert::Duplicate);
    assert_eq!(r.insert(19_999, b"x", big), Insert::OutOfRange);
}

#[test]
fn memory_beyond_holes_is_bounded_slots_included() {
    let mut r = Reassembly::new(0, 80_000, KEEP);
    assert_eq!(r.insert(79_999, b"far", 80_000 * SLOT + HELD), Insert::NoMemory);
    assert_eq!(r.memory(), 0);
    assert_eq!(r.insert(79_999, b"far", 80_000 * SLOT + HELD + 3), Insert::Accepted { moved: 0 });
    assert_eq!(r.memory(), 80_000 * SLOT + HELD + 3);
}

#[test]
fn empty_and_short_packets_are_concatenated() {
    let mut r = Reassembly::new(7, 10, KEEP);
    for (seq, payload) in [(7, &b"ab"[..]), (8, b""), (9, b"cde")] {
        assert_eq!(r.insert(seq, payload, 0), Insert::Accepted { moved: 1 });
    }
    assert_eq!(r.data(), b"abcde");
}

/// What the machine should be: the packets that arrived, and how much was read.
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

    /// Compares all that can be asked, and the books of the log.
    fn check(&self, r: &Reassembly, place: &str) {
        let (bytes, held): (_, Vec<_>) = (self.in_order(), self.held().map(Vec::len).collect());
        let unread = if r.in_order.keep().payload { bytes.len() - self.read } else { 0 };
        assert_eq!((r.rcv_nxt(), r.bytes()), (self.rcv_nxt() as u64, bytes.len() as u64), "{place}");
        assert_eq!((r.unread(), r.data().is_empty()), (unread as u64, unread == 0), "{place}");
        if r.in_order.keep().payload {
            assert!(bytes[self.read..].starts_with(r.data()), "{place}");
        }
        assert_eq!(r.crc(), if r.in_order.keep().checksum { crc32fast::hash(&bytes) } else { 0 }, "{place}");
        assert_eq!(r.is_contiguous(), held.is_empty(), "{place}");
        let places = r.ring.len() as u64 * SLOT + r.in_order.places() * PLACE;
        let beyond: u64 = held.iter().map(|len| *len as u64 + HELD).sum();
        assert_eq!(r.held_memory(), beyond + places, "{place}");
        assert_eq!(r.log.live(), held.iter().sum::<usize>() + r.in_order.in_log(), "{place}");
        assert!(!r.log.is_sparse(), "{place}");
    }
}

#[test]
fn any_order_gives_the_same_bytes_as_a_plain_model() {
    let (mut in_place, mut copied) = (0, 0);
    for seed in 0..200_u64 {
        let mut random = crate::range_set::random(seed);
        let count = 20 + index(random(180));
        let range = 2 + random(100);
        let longest = [5, 1472, 9000, 40_000][index(random(4))];
        let packets =
            (0..count).map(|_| vec![random(256).to_le_bytes()[0]; index(random(longest))]).collect();
        let mut model = Model { packets, arrived: vec![false; count], read: 0 };
        let keep = Keep { payload: seed % 5 != 0, checksum: seed % 7 != 0 };
        let mut r = Reassembly::new(0, range, keep);
        let (reads, jumps) = (1 + random(40), 1 + random(20));
        let mut step = 0;
        while model.rcv_nxt() < count {
            step += 1;
            let place = format!("seed {seed} step {step}");
            let next = r.rcv_nxt();
            // What comes first is often missing for long.
            let seq = if random(jumps) == 0 { next } else { next + random(range + 5) }.min(count as u64 - 1);
            let new = seq >= next && seq < next + range && !model.arrived[index(seq)];
            let result = r.insert(seq, &model.packets[index(seq)], 1 << 30);
            assert_eq!(matches!(result, Insert::Accepted { .. }), new, "{place}, packet {seq}");
            model.arrived[index(seq)] |= new;
            if new && seq == next && model.rcv_nxt() > index(next) + 1 {
                *if r.in_order.places() == 0 { &mut copied } else { &mut in_place } += 1;
            }
            if step % 4 == 0 || random(4) == 0 {
                model.check(&r, &place);
            }
            if random(reads) == 0 {
                let n = index(random(1 + 2 * r.unread()).min(r.unread()));
                model.read += n;
                r.consume(n);
                model.check(&r, &place);
            }
        }
        r.end();
        model.read += index(r.unread());
        r.consume(usize::MAX);
        model.check(&r, &format!("seed {seed}"));
        assert!(r.is_contiguous() && r.memory() == 0, "seed {seed}");
        assert_eq!((r.ring.capacity(), r.in_order.capacity(), r.log.kept()), (0, 0, 0), "seed {seed}");
    }
    assert!(in_place > 100 && copied > 100, "{in_place} read in place, {copied} copied");
}

/// Holds packets 1 to `count` of 1000 bytes beyond `rcv_nxt`, then what fills the hole, and reads all.
fn pass(r: &mut Reassembly, count: u64) {
    let next = r.rcv_nxt();
    for seq in (1..=count).chain([0]) {
        r.insert(next + seq, &[7; 1000], 1 << 30);
    }
    while let n @ 1.. = r.data().len() {
        r.consume(n);
    }
    assert_eq!((r.rcv_nxt(), r.memory()), (next + count + 1, 0));
}

#[test]
fn what_was_held_is_read_where_it_lies_in_pieces_of_a_chunk() {
    let mut r = Reassembly::new(0, 80_000, KEEP);
    pass(&mut r, 5000);
    for seq in (5002..9000).chain([5001]) {
        r.insert(seq, &[7; 1000], 1 << 30);
    }
    assert_eq!(r.data().len(), 1000);
    assert!(r.in_order.places() < 80, "{} pieces", r.in_order.places());
}

#[test]
fn what_is_kept_for_holes_is_given_back_when_there_have_been_none_for_long_and_at_the_end() {
    let mut r = Reassembly::new(0, 80_000, KEEP);
    let kept = |r: &Reassembly| (r.log.kept() > 0, r.ring.capacity() > 0);
    pass(&mut r, 500);
    assert_eq!(kept(&r), (true, true));
    for _ in 0..2 * CALM {
        pass(&mut r, 0);
    }
    assert_eq!(kept(&r), (false, false));
    pass(&mut r, 500);
    assert_eq!(kept(&r), (true, true));
    r.end();
    assert_eq!(kept(&r), (false, false));
    pass(&mut r, 40_000);
    assert_eq!(kept(&r), (false, false), "too much to keep, and the end");
}

#[test]
fn what_waits_in_few_places_of_many_is_packed() {
    let mut r = Reassembly::new(0, 80_000, KEEP);
    // Each chunk has a packet that stays for long: of those that follow one another, every 50th is far ahead.
    let mut near = 0;
    for seq in 1..20_000 {
        let far = seq % 50 == 0;
        near += u64::from(!far);
        r.insert(if far { 40_000 + seq } else { near }, &[7; 1000], 1 << 30);
    }
    r.insert(0, &[7; 1000], 1 << 30);
    while let n @ 1.. = r.data().len() {
        r.consume(n);
    }
    assert_eq!((r.rcv_nxt(), r.held_packets), (near + 1, 399));
    let most = 2 * 399_000 + 3 * 64 * 1024;
    assert!(r.log.live() == 399_000 && r.log.reserved() <= most, "{} bytes", r.log.reserved());
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}
