//! Puts packets in order: owns `rcv_nxt`, what arrived beyond a hole, what is in order and not yet read,
//! and the CRC-32 of everything in order. Knows no wire format, no time and no window.
//!
//! A packet that arrives in order is copied once, to where the application reads it. One beyond a hole is
//! kept in a ring of slots, one a packet number, that grows only as far as the farthest packet held.

use std::collections::VecDeque;

/// A read buffer larger than this is given back once it is empty.
const KEEP_CAPACITY: usize = 1 << 20;
/// Bytes read of a buffer that is not empty are given back from this many on, once they are half of it.
const COMPACT: usize = 64 * 1024;
/// Bytes in order of which the CRC-32 is computed at the latest. The library is twice as fast at pieces of some thousand
/// bytes as at packets, and what is read later than this has left the cache.
const PIECE: usize = 64 * 1024;
/// What a packet beyond a hole takes beside its payload and slot, in bytes: the allocator's share.
const HELD: u64 = 32;
/// What one slot of the ring costs, in bytes.
const SLOT: u64 = size_of::<Option<Box<[u8]>>>() as u64;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insert {
    /// New: `rcv_nxt` moved by this many packets, or 0 where a hole remains before it.
    Accepted { moved: u64 },
    /// It was here before.
    Duplicate,
    /// Its number is too far ahead, or so old that it cannot be told from one that is.
    OutOfRange,
    /// There is no memory for it.
    NoMemory,
}

/// What to keep and what to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep {
    /// The bytes, for [`Reassembly::data`].
    pub(crate) payload: bool,
    /// Their CRC-32.
    pub(crate) checksum: bool,
}

#[derive(Debug)]
pub(crate) struct Reassembly {
    keep: Keep,
    /// Packets ahead of (and behind) `rcv_nxt` that are still recognised.
    range: u64,
    rcv_nxt: u64,
    /// Slot i is packet `rcv_nxt` + i; the first is always empty.
    ring: VecDeque<Option<Box<[u8]>>>,
    held_packets: u64,
    held_bytes: u64,
    readable: Vec<u8>,
    read: usize,
    bytes: u64,
    largest: usize,
    /// Of everything in order but the end of `readable` from `hashed` on.
    crc: crc32fast::Hasher,
    hashed: usize,
}

impl Reassembly {
    /// Expects packet `first` first and accepts `range` packets from the next expected one on.
    pub(crate) fn new(first: u64, range: u64, keep: Keep) -> Self {
        Self {
            keep,
            range,
            rcv_nxt: first,
            ring: VecDeque::new(),
            held_packets: 0,
            held_bytes: 0,
            readable: Vec::new(),
            read: 0,
            bytes: 0,
            largest: 0,
            crc: crc32fast::Hasher::new(),
            hashed: 0,
        }
    }

    /// Takes a packet. `memory` is how many bytes may be held beyond holes, this packet and its slots
    /// included.
    pub(crate) fn insert(&mut self, seq: u64, payload: &[u8], memory: u64) -> Insert {
        let Some(ahead) = seq.checked_sub(self.rcv_nxt) else {
            let recent = self.rcv_nxt - seq <= self.range;
            return if recent { Insert::Duplicate } else { Insert::OutOfRange };
        };
        if ahead >= self.range {
            return Insert::OutOfRange;
        }
        if ahead == 0 {
            return Insert::Accepted { moved: self.accept_in_order(payload) };
        }
        self.hold(ahead, payload, memory)
    }

    /// In-order bytes that the application has not consumed.
    pub(crate) fn data(&self) -> &[u8] {
        &self.readable[self.read..]
    }

    /// Takes the first `n` bytes of [`Reassembly::data`] as read.
    pub(crate) fn consume(&mut self, n: usize) {
        self.hash();
        self.read = (self.read + n).min(self.readable.len());
        if self.read == self.readable.len() {
            self.read = 0;
            self.readable.clear();
            if self.readable.capacity() > KEEP_CAPACITY {
                self.readable = Vec::new();
            }
        } else if self.read >= COMPACT && self.read * 2 >= self.readable.len() {
            self.readable.drain(..self.read);
            self.read = 0;
        }
        self.hashed = self.readable.len();
    }

    /// Number after the farthest packet that arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.rcv_nxt + self.ring.len() as u64
    }

    /// True if what arrives waits for the application.
    pub(crate) fn keeps_payload(&self) -> bool {
        self.keep.payload
    }

    /// Number of the next packet expected.
    pub(crate) fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// True if nothing is held beyond a hole.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.held_packets == 0
    }

    /// Bytes in order so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Payload of the largest packet in order so far, in bytes.
    pub(crate) fn largest(&self) -> u64 {
        self.largest as u64
    }

    /// CRC-32 of the bytes in order so far; 0 if it is not computed.
    pub(crate) fn crc(&self) -> u32 {
        if !self.keep.checksum {
            return 0;
        }
        let mut crc = self.crc.clone();
        crc.update(&self.readable[self.hashed..]);
        crc.finalize()
    }

    /// Memory in use, in bytes: beyond holes, their slots, and what waits to be read.
    pub(crate) fn memory(&self) -> u64 {
        self.held_memory() + self.readable.len() as u64
    }

    /// Memory of what is held beyond holes, in bytes.
    pub(crate) fn held_memory(&self) -> u64 {
        self.held_bytes + self.ring.len() as u64 * SLOT
    }

    fn accept_in_order(&mut self, payload: &[u8]) -> u64 {
        self.deliver(payload);
        let mut moved = 1;
        self.ring.pop_front();
        while let Some(Some(held)) = self.ring.front_mut().map(Option::take) {
            self.ring.pop_front();
            self.held_packets -= 1;
            self.held_bytes -= HELD + held.len() as u64;
            self.deliver(&held);
            moved += 1;
        }
        if self.held_packets == 0 && !self.ring.is_empty() {
            self.ring = VecDeque::new();
        }
        self.rcv_nxt += moved;
        moved
    }

    fn deliver(&mut self, payload: &[u8]) {
        self.bytes += payload.len() as u64;
        self.largest = self.largest.max(payload.len());
        if self.keep.payload {
            self.readable.extend_from_slice(payload);
            if self.readable.len() - self.hashed >= PIECE {
                self.hash();
            }
        } else if self.keep.checksum {
            self.crc.update(payload);
        }
    }

    /// Computes the CRC of all that is in order.
    fn hash(&mut self) {
        if self.keep.checksum {
            self.crc.update(&self.readable[self.hashed..]);
        }
        self.hashed = self.readable.len();
    }

    fn hold(&mut self, ahead: u64, payload: &[u8], memory: u64) -> Insert {
        // `ahead` is below `range`, a count of slots.
        let Ok(index) = usize::try_from(ahead) else { return Insert::OutOfRange };
        if self.ring.get(index).is_some_and(Option::is_some) {
            return Insert::Duplicate;
        }
        let slots = self.ring.len().max(index + 1) as u64;
        if self.held_bytes + HELD + payload.len() as u64 + slots * SLOT > memory {
            return Insert::NoMemory;
        }
        if self.ring.len() <= index {
            self.ring.resize_with(index + 1, || None);
        }
        self.ring[index] = Some(payload.into());
        self.held_packets += 1;
        self.held_bytes += HELD + payload.len() as u64;
        Insert::Accepted { moved: 0 }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn any_order_gives_the_same_bytes_as_a_plain_model() {
        for seed in 0..200_u64 {
            let mut state = seed;
            let mut random = move |n: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % n
            };
            let packets: Vec<Vec<u8>> =
                (0..50_u8).map(|i| vec![i; usize::try_from(random(5)).unwrap()]).collect();
            let mut r = Reassembly::new(0, 20, KEEP);
            let mut arrived = vec![false; packets.len()];
            let mut read = Vec::new();
            while r.rcv_nxt() < 50 {
                let seq = random(50);
                let next = r.rcv_nxt();
                let index = usize::try_from(seq).unwrap();
                let expected_new = seq >= next && seq < next + 20 && !arrived[index];
                let result = r.insert(seq, &packets[index], 1 << 20);
                assert_eq!(
                    matches!(result, Insert::Accepted { .. }),
                    expected_new,
                    "seed {seed} packet {seq}"
                );
                arrived[index] |= expected_new;
                let model = arrived.iter().position(|a| !a).unwrap_or(50) as u64;
                assert_eq!(r.rcv_nxt(), model, "seed {seed}");
                read.extend_from_slice(r.data());
                r.consume(r.data().len());
            }
            assert_eq!(read, packets.concat(), "seed {seed}");
            assert!(r.is_contiguous() && r.memory() == 0, "seed {seed}");
        }
    }
}
