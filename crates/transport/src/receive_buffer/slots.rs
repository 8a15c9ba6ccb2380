//! Packets beyond a hole where the wire numbers packets (classic). The offset of such a packet
//! is not known until the hole is filled, but nearly all packets of a stream have one size. So the
//! offset is computed as if the missing packets had the size of this one. A packet of another size
//! is kept aside, in memory of its own.

use std::collections::{BTreeMap, VecDeque};

use super::chunks::Chunks;
use super::ordered::Ordered;
use super::{Arrival, Limits, Segment};

/// Memory accounted for a packet beyond a hole, beside its payload and its slot, in bytes.
const PACKET: u64 = 32;
/// Memory accounted for a slot, in bytes.
const SLOT: u64 = 16;
/// Memory that chunks may occupy in addition to twice the data in them, bytes.
const SLACK: u64 = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Missing,
    /// The packet is in the memory of the stream, which has `stride` bytes for each packet.
    InPlace,
    /// The packet is in `aside`.
    Aside,
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Packets ahead of `rcv_nxt` that are accepted, and behind it that count as duplicates.
    range: u64,
    rcv_nxt: u64,
    /// Slot i is packet `rcv_nxt` + i. The first is always missing, the last never.
    beyond: VecDeque<Slot>,
    held_packets: u64,
    /// Payload beyond holes, with [`PACKET`] for each packet, in bytes.
    held_bytes: u64,
    /// Number of packets in the memory of the stream, and the payload of each in bytes.
    in_place: u64,
    stride: u64,
    aside: BTreeMap<u64, Box<[u8]>>,
    /// Payload of the largest packet in order so far, in bytes.
    largest: u64,
}

impl Slots {
    /// Expects packet `first` first and accepts `range` packets from the next expected one on.
    pub(super) fn new(first: u64, range: u64) -> Self {
        Self { range, rcv_nxt: first, ..Self::default() }
    }

    /// Inserts a packet. The counts in the result are packets.
    pub(super) fn insert(&mut self, ordered: &mut Ordered, segment: Segment<'_>, limits: Limits) -> Arrival {
        let Segment { seq, payload } = segment;
        let mut arrival = Arrival { had_hole: self.held_packets > 0, ..Arrival::default() };
        let len = payload.len() as u64;
        match seq.checked_sub(self.rcv_nxt) {
            None if self.rcv_nxt - seq <= self.range => arrival.duplicate = 1,
            Some(0) if ordered.unread().saturating_add(len) <= limits.unread => {
                arrival.new = 1;
                arrival.advanced = self.accept_in_order(ordered, payload);
            }
            Some(0) => (arrival.no_room, arrival.next_refused) = (1, true),
            Some(ahead) if ahead < self.range && seq < limits.right_edge => {
                self.hold(ordered, ahead, payload, limits, &mut arrival);
            }
            _ => arrival.beyond_window = 1,
        }
        arrival
    }

    pub(super) fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    pub(super) fn arrived(&self) -> u64 {
        self.rcv_nxt + self.beyond.len() as u64
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.held_packets == 0
    }

    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    /// Returns the memory accounted for packets beyond holes, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.held_bytes + self.beyond.len() as u64 * SLOT
    }

    /// Limits the stream's memory after the application has read some data.
    pub(super) fn on_read(&mut self, ordered: &mut Ordered) {
        if self.in_place > 0 && ordered.chunks.memory() > self.most_memory(ordered) {
            self.set_aside(ordered);
        }
    }

    /// Frees the memory for further data, because none will arrive.
    pub(super) fn end(&mut self) {
        self.beyond = VecDeque::new();
    }

    fn accept_in_order(&mut self, ordered: &mut Ordered, payload: &[u8]) -> u64 {
        let before = self.rcv_nxt;
        if self.held_packets == 0 {
            ordered.append(payload);
            self.rcv_nxt += 1;
            self.largest = self.largest.max(payload.len() as u64);
            return 1;
        }
        self.append(ordered, payload);
        while let Some(slot @ (Slot::InPlace | Slot::Aside)) = self.beyond.front().copied() {
            let len = if slot == Slot::InPlace {
                ordered.append_in_place(self.stride);
                self.in_place -= 1;
                self.advance(self.stride);
                self.stride
            } else {
                let payload = self.aside.remove(&self.rcv_nxt).unwrap_or_default();
                self.append(ordered, &payload);
                payload.len() as u64
            };
            self.held_packets -= 1;
            self.held_bytes -= PACKET + len;
        }
        if !ordered.keep().payload {
            ordered.hash();
            ordered.release(self.is_contiguous());
        }
        self.rcv_nxt - before
    }

    fn append(&mut self, ordered: &mut Ordered, payload: &[u8]) {
        let len = payload.len() as u64;
        if self.in_place > 0 && len != self.stride {
            self.set_aside(ordered);
        }
        ordered.append(payload);
        self.advance(len);
    }

    /// Advances by the packet in the first slot, of `len` bytes, which is in order now.
    fn advance(&mut self, len: u64) {
        self.beyond.pop_front();
        self.rcv_nxt += 1;
        self.largest = self.largest.max(len);
    }

    fn hold(
        &mut self,
        ordered: &mut Ordered,
        ahead: u64,
        payload: &[u8],
        limits: Limits,
        arrival: &mut Arrival,
    ) {
        // `ahead` is below `range`, so it fits.
        let index = usize::try_from(ahead).unwrap_or(usize::MAX);
        if self.beyond.get(index).is_some_and(|slot| *slot != Slot::Missing) {
            arrival.duplicate = 1;
            return;
        }
        let (len, slots) = (payload.len() as u64, self.beyond.len().max(index + 1));
        if self.held_bytes + PACKET + len + slots as u64 * SLOT > limits.memory {
            arrival.no_room = 1;
            return;
        }
        arrival.new = 1;
        self.beyond.resize(slots, Slot::Missing);
        self.held_packets += 1;
        self.held_bytes += PACKET + len;
        self.beyond[index] = self.store(ordered, ahead, payload);
    }

    fn store(&mut self, ordered: &mut Ordered, ahead: u64, payload: &[u8]) -> Slot {
        let len = payload.len() as u64;
        if self.in_place == 0 {
            self.stride = len;
            ordered.release(true);
        }
        let start = ordered.end() + ahead * self.stride;
        let fits = |chunks: &Chunks| {
            let cost = chunks.cost(&(start..start + len));
            cost == 0 || chunks.memory() + cost <= self.most_memory(ordered)
        };
        if len == self.stride && len > 0 && fits(&ordered.chunks) {
            ordered.chunks.write(start, payload);
            self.in_place += 1;
            return Slot::InPlace;
        }
        self.aside.insert(self.rcv_nxt + ahead, payload.into());
        Slot::Aside
    }

    /// Returns the bytes that chunks may occupy, however sparsely packets lie in them.
    fn most_memory(&self, ordered: &Ordered) -> u64 {
        2 * (self.held_bytes + ordered.unread()) + SLACK
    }

    /// Moves all packets out of the stream's memory: at wrong offsets, or too sparse.
    fn set_aside(&mut self, ordered: &mut Ordered) {
        for (ahead, slot) in (0..).zip(&mut self.beyond) {
            if *slot == Slot::InPlace {
                let start = ordered.end() + ahead * self.stride;
                self.aside.insert(self.rcv_nxt + ahead, ordered.copy(start..start + self.stride));
                *slot = Slot::Aside;
            }
        }
        self.in_place = 0;
        ordered.chunks.release_above(ordered.end());
    }
}

#[cfg(test)]
mod tests;
