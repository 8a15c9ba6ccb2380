//! Drop-tail: a packet that would exceed the queue's limit is dropped on arrival.
//!
//! All disciplines keep the limit, so this file also counts the packets that occupy the queue. It
//! holds sizes and times, no packets.

use std::collections::VecDeque;
use std::time::Instant;

use crate::bitrate::Bitrate;
use crate::packet::{Ecn, Passage};
use crate::queue::aqm::{Aqm, ManagedQueue};
use crate::queue::notation::{DisciplineConfig, Parameters};
use crate::queue::{Discipline, DisciplineError, Marking, Occupancy, QueueLimit, Signal};

/// Drop-tail as a [`Discipline`]. [`BoundedQueue`] does the work.
#[derive(Debug, Clone, Copy)]
pub(super) struct DropTail;

/// The defaults: the limit alone drops packets.
impl Aqm for DropTail {}

impl DisciplineConfig for DropTail {
    fn name(&self) -> &'static str {
        "drop-tail"
    }

    fn read(&self, _: &mut Parameters<'_>) -> Result<Discipline, DisciplineError> {
        Ok(Discipline::DropTail)
    }

    fn build(&self, _: Option<Bitrate>) -> Option<ManagedQueue> {
        None
    }
}

/// The packets that count against a queue's limit, by the times at which they leave.
#[derive(Debug, Clone)]
pub(crate) struct BoundedQueue {
    limit: QueueLimit,
    occupancy: Occupancy,
    marking: Option<Marking>,
    /// The time at which each counted packet leaves and stops counting, in ascending order. That is
    /// the order of arrival unless packets overtake others on the wire.
    leaves: VecDeque<Instant>,
    /// The size of each counted packet in bytes on the wire, in the same order. Empty unless a
    /// limit is in bytes.
    sizes: VecDeque<u64>,
    counts_bytes: bool,
    /// Packets that count without a known time of leaving, so that they are in neither list.
    held: usize,
    /// The sum of their sizes in bytes on the wire.
    held_bytes: u64,
    /// The sum over `sizes`. It cannot overflow: the payloads are in memory, and overheads below
    /// 2^32 each would take more than 2^32 packets.
    bytes: u64,
}

/// Bytes that the queue needs for each packet. A limit in bytes takes 8 more.
pub(crate) const QUEUE_ENTRY_BYTES: usize = size_of::<Instant>();

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

    /// Sets the marking threshold. The queue must be empty.
    pub(crate) fn marking(self, marking: Option<Marking>) -> Self {
        let counts_bytes = [Some(self.limit), marking.map(|marking| marking.threshold)];
        let counts_bytes = counts_bytes.iter().flatten().any(|limit| limit.bytes.is_some());
        Self { marking, counts_bytes, ..self }
    }

    /// True if a packet of `bytes` bytes on the wire that arrives at `now` may enter, if its
    /// service would start at `starts`. If so, [`BoundedQueue::enter`] may follow before the next
    /// call.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
    #[inline(always)]
    pub(crate) fn admits(&mut self, now: Instant, starts: Instant, bytes: u64) -> bool {
        self.release(now);
        self.keeps(self.limit, now, starts, bytes)
    }

    /// Returns whether the packet could enter if no packet were held.
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

    /// Stops counting a held packet of `bytes` bytes on the wire.
    pub(crate) const fn leave_held(&mut self, bytes: u64) {
        self.held -= 1;
        self.held_bytes -= bytes;
    }

    /// The congestion signal for a packet that was just admitted. The arguments are those of
    /// [`BoundedQueue::admits`] and the packet's codepoint.
    pub(crate) fn signal(&self, now: Instant, starts: Instant, bytes: u64, ecn: Ecn) -> Option<Signal> {
        if self.marking.is_none() { None } else { self.marking_signal(now, starts, bytes, ecn) }
    }

    #[cold]
    fn marking_signal(&self, now: Instant, starts: Instant, bytes: u64, ecn: Ecn) -> Option<Signal> {
        let marking = self.marking?;
        if self.keeps(marking.threshold, now, starts, bytes) { None } else { marking.signal(ecn) }
    }

    /// Counts a packet of `bytes` bytes on the wire until it leaves.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
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

    /// Counts a packet that leaves before packets that arrived earlier.
    #[cold]
    fn overtake(&mut self, leaves: Instant, bytes: u64) {
        let after = self.leaves.partition_point(|other| *other <= leaves);
        self.leaves.insert(after, leaves);
        if self.counts_bytes {
            self.sizes.insert(after, bytes);
            self.bytes += bytes;
        }
    }

    /// Returns whether a packet as in [`BoundedQueue::admits`] keeps this limit.
    fn keeps(&self, limit: QueueLimit, now: Instant, starts: Instant, bytes: u64) -> bool {
        match self.occupancy {
            Occupancy::Waiting => starts <= now || limit.allows(self.packets() + 1, self.bytes() + bytes),
            Occupancy::WaitingAndInFlight => limit.allows(self.packets(), self.bytes()),
        }
    }

    /// Packets that counted at the last call.
    pub(crate) fn packets(&self) -> usize {
        self.leaves.len() + self.held
    }

    /// Bytes on the wire that counted then. A queue without a limit in bytes knows those of held
    /// packets only.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes + self.held_bytes
    }

    /// Stops counting the packets that have left by `now`.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
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
