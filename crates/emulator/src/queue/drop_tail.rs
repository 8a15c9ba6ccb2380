//! Drop-tail: a packet that would exceed the queue's limit is dropped on arrival.
//!
//! The queue limit applies to all disciplines. This file counts the packets towards it; it stores
//! their sizes and times, not the packets.

#![expect(clippy::inline_always, reason = "for every packet of a drop-tail link; the other callers are rare")]

use std::collections::VecDeque;
use std::time::Instant;

use crate::Ecn;
use crate::link::Queued;
use crate::packet::Passage;
use crate::queue::aqm::Aqm;
use crate::queue::{Marking, Occupancy, QueueLimit, Signal};

/// Drop-tail as an [`Aqm`]. All methods have their defaults: only the queue limit drops packets.
#[derive(Debug)]
pub(super) struct DropTail;

impl Aqm for DropTail {}

/// Counts packets and bytes towards the queue limit, each packet until it departs.
#[derive(Debug, Clone)]
pub(crate) struct BoundedQueue {
    limit: QueueLimit,
    occupancy: Occupancy,
    marking: Option<Marking>,
    /// Time at which each counted packet stops counting, ascending: the start of its service or, if
    /// packets on the wire count too, its delivery. If packets overtake others, that is not the
    /// order of arrival.
    leaves: VecDeque<Instant>,
    /// Sizes of the packets in `leaves`, in the same order, in bytes on the wire. Empty unless
    /// `counts_bytes`.
    sizes: VecDeque<u64>,
    counts_bytes: bool,
    /// Packets whose service is not scheduled yet, because the discipline decides on departure.
    held: usize,
    /// Sum of the sizes of the `held` packets, in bytes on the wire.
    held_bytes: u64,
    /// Sum of `sizes`. It cannot overflow: the payloads are in memory, and overheads below 2^32
    /// bytes would need more than 2^32 packets.
    bytes: u64,
}

/// Memory that the queue uses for each packet, in bytes. 8 bytes more if a limit is in bytes.
pub(crate) const QUEUE_ENTRY_BYTES: usize = size_of::<Instant>();

fn needs_bytes(limit: QueueLimit, marking: Option<Marking>) -> bool {
    limit.bytes.is_some() || marking.is_some_and(|marking| marking.threshold.bytes.is_some())
}

impl BoundedQueue {
    pub(crate) const fn new(limit: QueueLimit, occupancy: Occupancy) -> Self {
        Self {
            limit,
            occupancy,
            marking: None,
            leaves: VecDeque::new(),
            sizes: VecDeque::new(),
            counts_bytes: limit.bytes.is_some(),
            held: 0,
            held_bytes: 0,
            bytes: 0,
        }
    }

    /// Sets the marking threshold of an empty queue, which may have to store sizes from now on.
    pub(crate) fn marking(self, marking: Option<Marking>) -> Self {
        Self { marking, counts_bytes: needs_bytes(self.limit, marking), ..self }
    }

    /// Changes the limit and the marking threshold for packets that arrive from now on. If one of
    /// them is in bytes, [`count_bytes`](Self::count_bytes) must have been called before, or the
    /// queue must be empty.
    pub(crate) fn change(&mut self, limit: QueueLimit, marking: Option<Marking>) {
        if needs_bytes(limit, marking) {
            self.count_bytes();
        }
        self.limit = limit;
        self.marking = marking;
    }

    pub(crate) const fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Returns whether the queue limit admits a packet of `bytes` bytes on the wire that arrives at
    /// `now` and whose service would start at `starts`. If so, the caller may call
    /// [`BoundedQueue::enter`] or [`BoundedQueue::hold`].
    #[inline(always)]
    pub(crate) fn admits(&mut self, now: Instant, starts: Instant, bytes: u64) -> bool {
        self.release(now);
        self.keeps(self.limit, now, starts, bytes)
    }

    /// Returns whether the limit would admit the packet without those of [`BoundedQueue::hold`].
    pub(crate) fn could_admit(&mut self, now: Instant, starts: Instant, bytes: u64) -> bool {
        let held = (std::mem::take(&mut self.held), std::mem::take(&mut self.held_bytes));
        let admits = self.admits(now, starts, bytes);
        (self.held, self.held_bytes) = held;
        admits
    }

    /// Counts a packet of `bytes` bytes on the wire until [`BoundedQueue::leave_held`].
    pub(crate) const fn hold(&mut self, bytes: u64) {
        self.held += 1;
        self.held_bytes += bytes;
    }

    /// Stops counting a packet of `bytes` bytes on the wire that [`BoundedQueue::hold`] counts.
    pub(crate) const fn leave_held(&mut self, bytes: u64) {
        self.held -= 1;
        self.held_bytes -= bytes;
    }

    /// Returns the congestion signal of the marking threshold for a packet that
    /// [`BoundedQueue::admits`] has just admitted. `None` if the packet is not above the threshold.
    pub(crate) fn signal(&self, now: Instant, starts: Instant, bytes: u64, ecn: Ecn) -> Option<Signal> {
        if self.marking.is_none() { None } else { self.marking_signal(now, starts, bytes, ecn) }
    }

    #[cold]
    fn marking_signal(&self, now: Instant, starts: Instant, bytes: u64, ecn: Ecn) -> Option<Signal> {
        let marking = self.marking?;
        if self.keeps(marking.threshold, now, starts, bytes) { None } else { marking.signal(ecn) }
    }

    /// Counts a packet until the start of its service or its delivery, depending on the occupancy.
    #[inline(always)]
    pub(crate) fn enter(&mut self, passage: Passage, bytes: u64) {
        let leaves = match self.occupancy {
            Occupancy::Waiting => passage.starts,
            Occupancy::WaitingAndInFlight => passage.due,
        };
        if leaves > passage.enters {
            if self.leaves.back().is_some_and(|last| *last > leaves) {
                return self.overtake(leaves, bytes);
            }
            self.leaves.push_back(leaves);
            if self.counts_bytes {
                self.sizes.push_back(bytes);
                self.bytes += bytes;
            }
        }
    }

    /// Counts a packet that leaves the count before packets that arrived earlier.
    #[cold]
    fn overtake(&mut self, leaves: Instant, bytes: u64) {
        let after = self.leaves.partition_point(|other| *other <= leaves);
        self.leaves.insert(after, leaves);
        if self.counts_bytes {
            self.sizes.insert(after, bytes);
            self.bytes += bytes;
        }
    }

    /// Returns whether a packet, described as for [`BoundedQueue::admits`], is within `limit`.
    fn keeps(&self, limit: QueueLimit, now: Instant, starts: Instant, bytes: u64) -> bool {
        match self.occupancy {
            Occupancy::Waiting => starts <= now || limit.allows(self.packets() + 1, self.bytes() + bytes),
            Occupancy::WaitingAndInFlight => limit.allows(self.packets(), self.bytes()),
        }
    }

    /// Counts the bytes of packets from now on.
    pub(crate) fn count_bytes(&mut self) {
        assert!(self.counts_bytes || self.packets() == 0, "bytes are counted from an empty queue on");
        self.counts_bytes = true;
    }

    /// Returns the packets that count at `now`.
    pub(crate) fn queued(&mut self, now: Instant) -> Queued {
        self.release(now);
        Queued { packets: self.packets() as u64, bytes: self.bytes() }
    }

    /// Returns the number of packets that counted at the last [`BoundedQueue::admits`].
    pub(crate) fn packets(&self) -> usize {
        self.leaves.len() + self.held
    }

    /// Returns the bytes on the wire that counted at the last [`BoundedQueue::admits`]; without a
    /// limit in bytes, only `held_bytes`.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes + self.held_bytes
    }

    /// Stops counting the packets whose times in `leaves` are not after `now`.
    #[inline(always)]
    fn release(&mut self, now: Instant) {
        while let Some(leaves) = self.leaves.front()
            && *leaves <= now
        {
            self.leaves.pop_front();
            if self.counts_bytes {
                self.bytes -= self.sizes.pop_front().unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests;
