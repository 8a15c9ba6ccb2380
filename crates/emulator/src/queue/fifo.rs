//! The waiting fifo of a discipline that decides when packets leave.
//!
//! Owns the packets that wait, in the order in which they came, and how many bytes they are. It decides
//! nothing: who is turned away and who is thrown out is for the discipline to say.

use std::collections::VecDeque;
use std::time::Instant;

use crate::mtu::Frames;
use crate::packet::Packet;

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct QueuedPacket {
    /// When it came.
    pub(crate) enters: Instant,
    /// The seed of its draws, which is another for second copies than for other packets.
    pub(crate) seed: u64,
    /// The number by which it draws.
    pub(crate) index: u64,
    /// What it is on the wire.
    pub(crate) frames: Frames,
    pub(crate) packet: Packet,
}

/// Packets that wait for the serialiser, first come first.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    waiting: VecDeque<QueuedPacket>,
    /// The sum over all that wait, in bytes on the wire.
    bytes: u64,
    /// The largest packet that ever came, in bytes on the wire.
    largest: u64,
}

impl Fifo {
    pub(crate) fn push(&mut self, waiting: QueuedPacket) {
        let bytes = waiting.frames.bytes() as u64;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        self.waiting.push_back(waiting);
    }

    /// Takes the packet that came first.
    pub(crate) fn pop(&mut self) -> Option<QueuedPacket> {
        let head = self.waiting.pop_front()?;
        self.bytes -= head.frames.bytes() as u64;
        Some(head)
    }

    /// When the packet came that came first.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|head| head.enters)
    }

    /// Bytes on the wire of all that wait.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes on the wire of the largest packet that ever came; 0 before the first.
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
