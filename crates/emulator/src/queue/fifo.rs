//! First-in, first-out queue of packets whose discipline decides on departure.

use std::collections::VecDeque;
use std::time::Instant;

use crate::mtu::Frames;
use crate::packet::Packet;

/// A packet in the queue.
#[derive(Debug)]
pub(crate) struct QueuedPacket {
    /// Arrival at the link.
    pub(crate) enters: Instant,
    /// Seed of the packet's draws. Second copies have another one.
    pub(crate) seed: u64,
    /// Number of the packet's draws.
    pub(crate) index: u64,
    /// The packet on the wire.
    pub(crate) frames: Frames,
    pub(crate) packet: Packet,
}

/// Packets that wait for the serialiser, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    waiting: VecDeque<QueuedPacket>,
    /// The sum over all queued packets, in bytes on the wire.
    bytes: u64,
    /// The largest packet ever queued, in bytes on the wire.
    largest: u64,
}

impl Fifo {
    pub(crate) fn push(&mut self, waiting: QueuedPacket) {
        let bytes = waiting.frames.bytes() as u64;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        self.waiting.push_back(waiting);
    }

    /// Takes the oldest packet.
    pub(crate) fn pop(&mut self) -> Option<QueuedPacket> {
        let head = self.waiting.pop_front()?;
        self.bytes -= head.frames.bytes() as u64;
        Some(head)
    }

    /// Arrival of the oldest packet.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|head| head.enters)
    }

    /// Bytes on the wire of all queued packets.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes on the wire of the largest packet ever queued; 0 before the first.
    pub(crate) const fn largest(&self) -> u64 {
        self.largest
    }
}

#[cfg(test)]
impl Fifo {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
