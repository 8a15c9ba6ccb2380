//! The queue in front of the serialiser.
//!
//! Owns who may enter and who still counts. It holds sizes and times, never packets, and does not
//! know how those times come about. Places are freed by model time: a packet stops counting at the
//! instant it leaves, whether or not anybody has looked since. Where that instant is not known
//! beforehand a packet is held and taken off one by one.
//!
//! By itself it is drop-tail. The other disciplines have files of their own: those that decide who may
//! leave find the packets in a room.

mod backlog;
mod codel;
mod discipline;
mod limit;
mod pie;
mod red;
mod room;
mod waits;

use std::collections::VecDeque;
use std::time::Instant;

use crate::packet::Ecn;

pub(crate) use backlog::Backlog;
pub use codel::CoDelConfig;
pub(crate) use codel::Departure;
pub use discipline::{Discipline, DisciplineError};
pub(crate) use discipline::{Early, Manager, Rule};
pub use limit::{QueueLimit, QueueSize};
pub use pie::PieConfig;
pub use red::RedConfig;
pub(crate) use room::{Room, Waiting};
pub use waits::QueueDelays;

/// When a queue marks packets, and what becomes of those that cannot be marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// A packet that would exceed this, if it were the [`QueueLimit`], is marked: its codepoint becomes
    /// [`Ecn::Ce`]. This is the step of RFC 8257 (section 3.1) and, unlike an average, says what the
    /// packet itself found.
    pub threshold: QueueLimit,
    /// What is done with a packet that should be marked and is [`Ecn::NotEct`].
    pub incapable: Incapable,
}

impl Marking {
    /// Marks above `threshold`; packets that cannot be marked pass until the queue is full.
    pub const fn above(threshold: QueueLimit) -> Self {
        Self { threshold, incapable: Incapable::Pass }
    }

    /// The same, but packets that cannot be marked are dropped in place of the mark (RFC 3168, section 5).
    #[must_use]
    pub const fn dropping_others(self) -> Self {
        Self { incapable: Incapable::Drop, ..self }
    }
}

/// What a marking queue does with packets that cannot be marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incapable {
    /// Nothing, until the queue is full.
    #[default]
    Pass,
    /// It drops them in place of the mark.
    Drop,
}

/// Which packets count against the [`QueueLimit`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Occupancy {
    /// Those waiting for the serialiser; not the one in service, not those on the wire.
    ///
    /// A packet that finds the serialiser idle never waits and is always let in. Any other is let in
    /// if, with it, the limit is kept. So with a limit of n packets, a burst into an idle link keeps
    /// n + 1: one in service and n waiting.
    #[default]
    Waiting,
    /// Everything that is not delivered yet: waiting, in service or on the wire.
    ///
    /// A packet is let in if what is ahead of it keeps the limit. So with a limit of n packets, a
    /// burst into an empty path keeps n + 1 at any rate, and the path never holds more.
    WaitingAndInFlight,
}

/// The moments of one packet's passage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// It arrives at the link.
    pub(crate) enters: Instant,
    /// The serialiser begins with it.
    pub(crate) starts: Instant,
    /// Its last bit arrives at the far end.
    pub(crate) due: Instant,
}

/// Admission to the waiting room.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
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
pub(crate) const PLACE_BYTES: usize = size_of::<Instant>();

/// What is done with a packet to tell its sender of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Mark,
    Drop,
}

impl Queue {
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
    /// start at `starts`, may enter. If so, [`Queue::enter`] may follow before the next question.
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

    /// Counts a packet of `bytes` bytes on the wire until [`Queue::leave_held`].
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
    /// arguments are those of [`Queue::admits`] and the packet's codepoint.
    pub(crate) fn signal(&self, now: Instant, starts: Instant, bytes: u64, ecn: Ecn) -> Option<Signal> {
        if self.marking.is_none() { None } else { self.marking_signal(now, starts, bytes, ecn) }
    }

    #[cold]
    fn marking_signal(&self, now: Instant, starts: Instant, bytes: u64, ecn: Ecn) -> Option<Signal> {
        let Marking { threshold, incapable } = self.marking?;
        if self.keeps(threshold, now, starts, bytes) {
            return None;
        }
        match (ecn.is_capable(), incapable) {
            (true, _) => Some(Signal::Mark),
            (false, Incapable::Drop) => Some(Signal::Drop),
            (false, Incapable::Pass) => None,
        }
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

    /// Whether a packet as in [`Queue::admits`] would keep this limit.
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
