//! The drop-tail waiting room in front of the serialiser.
//!
//! Owns who may enter and who still counts. It holds sizes and times, never packets, and does not
//! know how those times come about. Places are freed by model time: a packet stops counting at the
//! instant it leaves, whether or not anybody has looked since.

use std::collections::VecDeque;
use std::time::Instant;

/// How much may be counted at once; see [`Occupancy`] for what counts. Where both bounds are given,
/// both hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLimit {
    /// The most packets, or `None` for no bound.
    pub packets: Option<u32>,
    /// The most bytes on the wire (payload and overhead), or `None` for no bound.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// No bound at all.
    pub const UNLIMITED: Self = Self { packets: None, bytes: None };

    /// At most `packets` packets.
    pub const fn packets(packets: u32) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// At most `bytes` bytes on the wire.
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    fn allows(self, packets: usize, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets as u64 <= u64::from(limit))
            && self.bytes.is_none_or(|limit| bytes <= limit)
    }
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
    /// Who counts, in order of arrival, which is also the order of leaving.
    places: VecDeque<Place>,
    /// The sum over `places`, in bytes on the wire. It cannot overflow: the payloads are in memory,
    /// and the overheads, below 2^32 each, would take more than 2^32 packets.
    bytes: u64,
}

/// One counted packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// From this instant on it no longer counts.
    leaves: Instant,
    /// Its size on the wire in bytes.
    bytes: u64,
}

impl Queue {
    pub(crate) const fn new(limit: QueueLimit, occupancy: Occupancy) -> Self {
        Self { limit, occupancy, places: VecDeque::new(), bytes: 0 }
    }

    /// Whether a packet of `bytes` bytes on the wire that arrives at `now`, and whose service would
    /// start at `starts`, may enter. If so, [`Queue::enter`] may follow before the next question.
    pub(crate) fn admits(&mut self, now: Instant, starts: Instant, bytes: u64) -> bool {
        self.release(now);
        match self.occupancy {
            Occupancy::Waiting => {
                starts <= now || self.limit.allows(self.places.len() + 1, self.bytes + bytes)
            }
            Occupancy::WaitingAndInFlight => self.limit.allows(self.places.len(), self.bytes),
        }
    }

    /// Counts a packet of `bytes` bytes on the wire until it leaves.
    pub(crate) fn enter(&mut self, passage: Passage, bytes: u64) {
        let leaves = match self.occupancy {
            Occupancy::Waiting => passage.starts,
            Occupancy::WaitingAndInFlight => passage.due,
        };
        if leaves > passage.enters {
            self.places.push_back(Place { leaves, bytes });
            self.bytes += bytes;
        }
    }

    /// How many packets counted when the queue was last asked or entered.
    pub(crate) fn packets(&self) -> usize {
        self.places.len()
    }

    /// Frees the places of all who have left by `now`.
    fn release(&mut self, now: Instant) {
        while let Some(place) = self.places.front()
            && place.leaves <= now
        {
            self.bytes -= place.bytes;
            self.places.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
