//! Puts packets in order: owns `rcv_nxt` and what arrived beyond a hole. Knows no wire format, no time and no window.
//!
//! A packet that arrives in order is copied once, to where the application reads it. One beyond a hole is copied to
//! the end of a log, and a ring of slots, one a packet number, that grows only as far as the farthest packet held, says
//! where. There it is read when the hole is filled, unless it is but a little that became readable with it.

use std::collections::VecDeque;

pub(crate) use super::ordered::Keep;
use super::ordered::{InOrder, PLACE};
use super::packet_log::{PacketLog, Run};

/// Slots for so many packets are kept for the next hole, 64 KiB.
const KEEP_SLOTS: usize = 4 * 1024;
/// When the application has read everything so often and nothing came beyond a hole meanwhile, what is kept for that is
/// given back.
const CALM: u32 = 1024;
/// What a packet beyond a hole takes beside its payload and slot, in bytes.
const HELD: u64 = 32;
/// What one slot of the ring costs, in bytes.
const SLOT: u64 = size_of::<Option<Run>>() as u64;

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

#[derive(Debug)]
pub(crate) struct Reassembly {
    /// Packets ahead of (and behind) `rcv_nxt` that are still recognised.
    range: u64,
    rcv_nxt: u64,
    /// Slot i is packet `rcv_nxt` + i; the first is always empty.
    ring: VecDeque<Option<Run>>,
    held_packets: u64,
    held_bytes: u64,
    /// What is held, and what of it became readable.
    log: PacketLog,
    in_order: InOrder,
    /// How often everything was read since something came beyond a hole.
    calm: u32,
    /// Nothing more will come.
    ended: bool,
}

impl Reassembly {
    /// Expects packet `first` first and accepts `range` packets from the next expected one on.
    pub(crate) fn new(first: u64, range: u64, keep: Keep) -> Self {
        Self {
            range,
            rcv_nxt: first,
            ring: VecDeque::new(),
            held_packets: 0,
            held_bytes: 0,
            log: PacketLog::default(),
            in_order: InOrder::new(keep),
            calm: 0,
            ended: false,
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
        let taken = if ahead == 0 {
            Insert::Accepted { moved: self.accept_in_order(payload) }
        } else {
            self.hold(ahead, payload, memory)
        };
        self.pack_if_sparse();
        taken
    }

    /// The next bytes in order that the application has not consumed: empty only if there are none, but up
    /// to where they lie in one piece. So read until it is empty.
    pub(crate) fn data(&self) -> &[u8] {
        self.in_order.data(&self.log)
    }

    /// Bytes in order that the application has not consumed.
    pub(crate) fn unread(&self) -> u64 {
        self.in_order.unread()
    }

    /// Takes the next `n` bytes in order as read, or as many as there are.
    pub(crate) fn consume(&mut self, n: usize) {
        self.in_order.consume(n, &mut self.log);
        self.pack_if_sparse();
        self.tidy();
    }

    /// Nothing more will come: what was kept for that is given back, and the rest when the application has read.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.in_order.end();
        self.tidy();
    }

    /// Number after the farthest packet that arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.rcv_nxt + self.ring.len() as u64
    }

    /// True if what arrives waits for the application.
    pub(crate) fn keeps_payload(&self) -> bool {
        self.in_order.keep().payload
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
        self.in_order.bytes()
    }

    /// Payload of the largest packet in order so far, in bytes.
    pub(crate) fn largest(&self) -> u64 {
        self.in_order.largest()
    }

    /// CRC-32 of the bytes in order so far; 0 if it is not computed.
    pub(crate) fn crc(&self) -> u32 {
        self.in_order.crc()
    }

    /// Memory in use, in bytes: beyond holes, their slots, and what waits to be read. There may be twice as much and
    /// 256 KiB, and up to 192 KiB, or as much again where that is more, is kept for reuse beside it.
    pub(crate) fn memory(&self) -> u64 {
        self.held_memory() + self.in_order.memory()
    }

    /// Memory of what is held beyond holes, in bytes, and of where it is.
    pub(crate) fn held_memory(&self) -> u64 {
        self.held_bytes + self.ring.len() as u64 * SLOT + self.in_order.places() * PLACE
    }

    fn accept_in_order(&mut self, payload: &[u8]) -> u64 {
        self.in_order.append(payload, &mut self.log);
        let mut moved = 1;
        self.ring.pop_front();
        // What lies in one piece is delivered as one.
        let mut run: Option<Run> = None;
        while let Some(Some(held)) = self.ring.front().copied() {
            self.ring.pop_front();
            moved += 1;
            self.held_packets -= 1;
            self.held_bytes -= HELD + held.len() as u64;
            self.in_order.note_size(held.len());
            if !run.as_mut().is_some_and(|run| run.join(held))
                && let Some(whole) = run.replace(held)
            {
                self.in_order.append_run(whole, &mut self.log);
            }
        }
        if let Some(run) = run {
            self.in_order.append_run(run, &mut self.log);
            self.tidy();
        }
        self.rcv_nxt += moved;
        moved
    }

    /// Sees that no more memory is kept for the next hole than is worth it.
    fn tidy(&mut self) {
        if self.held_packets > 0 || self.unread() > 0 {
            return;
        }
        self.calm = (self.calm + 1) % CALM;
        let give_back = self.ended || self.calm == 0;
        if give_back || self.ring.capacity() > KEEP_SLOTS {
            self.ring = VecDeque::new();
        }
        if give_back {
            self.log.give_back();
        }
    }

    /// Moves what is in the log to as little memory as it needs, if it lies in much more. As much was released since
    /// the last time, or a part of it, so that this costs no more than what came meanwhile.
    fn pack_if_sparse(&mut self) {
        if !self.log.is_sparse() {
            return;
        }
        self.in_order.leave(&self.log);
        let mut log = self.log.take_spare();
        for held in self.ring.iter_mut().flatten() {
            *held = log.append(self.log.bytes(*held));
        }
        self.log = log;
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
        self.ring[index] = Some(self.log.append(payload));
        self.calm = 0;
        self.held_packets += 1;
        self.held_bytes += HELD + payload.len() as u64;
        Insert::Accepted { moved: 0 }
    }
}

#[cfg(test)]
mod tests;
