//! Drop-tail: a packet that would exceed the queue's limit is dropped on arrival.
//!
//! Every other discipline keeps the limit too, so this file also counts what occupies the queue. It holds sizes and
//! times, never packets.

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
    /// When each counted packet leaves, from which instant on it no longer counts. In ascending order,
    /// which is that of arrival too unless packets overtake others on the wire.
    leaves: VecDeque<Instant>,
    /// The size of each counted packet in bytes on the wire, in the same order. Empty unless some bound
    /// is in bytes, so that others do not pay for it.
    sizes: VecDeque<u64>,
    counts_bytes: bool,
    /// Packets that count and are in neither list, because nobody knows when they leave.
    held: usize,
    /// The size of those packets in bytes on the wire.
    held_bytes: u64,
    /// The sum over `sizes`. It cannot overflow: the payloads are in memory, and the overheads, below
    /// 2^32 each, would take more than 2^32 packets.
    bytes: u64,
}

/// What the queue needs to hold the place of a packet, in bytes. A bound in bytes takes 8 more.
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

    /// The same queue, which marks packets if there is a `marking`. It must be empty.
    pub(crate) fn marking(self, marking: Option<Marking>) -> Self {
        let counts_bytes = [Some(self.limit), marking.map(|marking| marking.threshold)];
        let counts_bytes = counts_bytes.iter().flatten().any(|limit| limit.bytes.is_some());
        Self { marking, counts_bytes, ..self }
    }

    /// Whether a packet of `bytes` bytes on the wire that arrives at `now`, and whose service would
    /// start at `starts`, may enter. If so, [`BoundedQueue::enter`] may follow before the next question.
    #[expect(
        clippy::inline_always,
        reason = "for every packet of a drop-tail link; the other callers are rare"
    )]
    #[inline(always)]
    pub(crate) fn admits(&mut self, now: Instant, starts: Instant, bytes: u64) -> bool {
        self.release(now);
        self.keeps(self.limit, now, starts, bytes)
    }

    /// Whether the packet might enter if no packet were held.
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

    /// A packet of `bytes` bytes that was held no longer counts.
    pub(crate) const fn leave_held(&mut self, bytes: u64) {
        self.held -= 1;
        self.held_bytes -= bytes;
    }

    /// What congestion control is to be told by a packet that was just admitted, if anything. The
    /// arguments are those of [`BoundedQueue::admits`] and the packet's codepoint.
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

    /// Counts a packet that leaves before others that came earlier.
    #[cold]
    fn overtake(&mut self, leaves: Instant, bytes: u64) {
        let after = self.leaves.partition_point(|other| *other <= leaves);
        self.leaves.insert(after, leaves);
        if self.counts_bytes {
            self.sizes.insert(after, bytes);
            self.bytes += bytes;
        }
    }

    /// Whether a packet as in [`BoundedQueue::admits`] would keep this limit.
    fn keeps(&self, limit: QueueLimit, now: Instant, starts: Instant, bytes: u64) -> bool {
        match self.occupancy {
            Occupancy::Waiting => starts <= now || limit.allows(self.packets() + 1, self.bytes() + bytes),
            Occupancy::WaitingAndInFlight => limit.allows(self.packets(), self.bytes()),
        }
    }

    /// How many packets counted when the queue was last asked or entered.
    pub(crate) fn packets(&self) -> usize {
        self.leaves.len() + self.held
    }

    /// How many bytes on the wire counted then. Of packets that are not held only those are known that
    /// came to a queue which counts bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes + self.held_bytes
    }

    /// Frees the places of all who have left by `now`.
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
