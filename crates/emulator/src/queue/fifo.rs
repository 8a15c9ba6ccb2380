//! First-in, first-out queue of packets, for disciplines that decide on departure.

use std::collections::VecDeque;
use std::time::Instant;

use crate::mtu::Frames;
use crate::packet::Packet;

#[derive(Debug)]
pub(crate) struct QueuedPacket {
    /// Time at which the packet arrived at the link.
    pub(crate) enters: Instant,
    /// Seed of the packet's random draws. That of a second copy differs from the link's seed.
    pub(crate) seed: u64,
    /// Number of the packet on its link, an input of its random draws.
    pub(crate) index: u64,
    /// Frames in which the packet will be sent.
    pub(crate) frames: Frames,
    pub(crate) packet: Packet,
}

/// Packets that wait for the serialiser, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    waiting: VecDeque<QueuedPacket>,
    /// Length of all queued packets, in bytes on the wire.
    bytes: u64,
    /// Length of the largest packet queued since the start of the link, in bytes on the wire.
    largest: u64,
}

impl Fifo {
    pub(crate) fn push(&mut self, waiting: QueuedPacket) {
        let bytes = waiting.frames.bytes() as u64;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        self.waiting.push_back(waiting);
    }

    /// Removes and returns the oldest packet.
    pub(crate) fn pop(&mut self) -> Option<QueuedPacket> {
        let head = self.waiting.pop_front()?;
        self.bytes -= head.frames.bytes() as u64;
        Some(head)
    }

    /// Returns when the oldest packet arrived. `None` if the queue is empty.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|head| head.enters)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

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
