//! What became of every packet.
//!
//! Owns the counters of one link and the law they obey: what was sent was delivered, dropped for a
//! named cause, discarded, or is still inside. It decides nothing.

use std::fmt;
use std::time::Duration;

/// Why a link did not carry a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// It was lost on arrival, as the loss model says.
    Loss,
    /// The queue had no room for it.
    QueueFull,
    /// The queue would have taken it, but the link's memory limit would have been exceeded.
    Memory,
}

impl DropCause {
    /// All causes, in the order in which a link checks for them.
    pub const ALL: [Self; 3] = [Self::Loss, Self::QueueFull, Self::Memory];
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Loss => "lost on arrival",
            Self::QueueFull => "queue full",
            Self::Memory => "memory limit reached",
        })
    }
}

/// The account of one link, or of several merged.
///
/// Bytes are payload bytes: what was pushed, without the overhead on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Packets pushed into the link.
    pub sent: u64,
    /// Payload bytes of the packets pushed into the link.
    pub sent_bytes: u64,
    /// Packets that came out at the far end.
    pub delivered: u64,
    /// Payload bytes that came out at the far end.
    pub delivered_bytes: u64,
    /// Packets dropped for [`DropCause::Loss`].
    pub dropped_loss: u64,
    /// Payload bytes dropped for [`DropCause::Loss`].
    pub dropped_loss_bytes: u64,
    /// Packets dropped for [`DropCause::QueueFull`].
    pub dropped_queue: u64,
    /// Payload bytes dropped for [`DropCause::QueueFull`].
    pub dropped_queue_bytes: u64,
    /// Packets dropped for [`DropCause::Memory`].
    pub dropped_memory: u64,
    /// Payload bytes dropped for [`DropCause::Memory`].
    pub dropped_memory_bytes: u64,
    /// Packets that were inside when the link was torn down.
    pub discarded: u64,
    /// Payload bytes that were inside when the link was torn down.
    pub discarded_bytes: u64,
    /// Packets inside now: waiting, in service, on the wire, or due and not yet collected.
    pub in_flight: u64,
    /// Payload bytes of the packets inside now.
    pub in_flight_bytes: u64,
    /// The most packets that counted against the queue limit at once (see
    /// [`Occupancy`](crate::Occupancy)); of merged ledgers, the largest.
    pub max_occupancy: u64,
    /// Serialisation time of all packets let in, those still waiting included.
    pub busy: Duration,
}

impl Ledger {
    /// Packets dropped for `cause`.
    pub const fn dropped(&self, cause: DropCause) -> u64 {
        match cause {
            DropCause::Loss => self.dropped_loss,
            DropCause::QueueFull => self.dropped_queue,
            DropCause::Memory => self.dropped_memory,
        }
    }

    /// Payload bytes dropped for `cause`.
    pub const fn dropped_bytes(&self, cause: DropCause) -> u64 {
        match cause {
            DropCause::Loss => self.dropped_loss_bytes,
            DropCause::QueueFull => self.dropped_queue_bytes,
            DropCause::Memory => self.dropped_memory_bytes,
        }
    }

    /// Whether every packet and every byte sent is accounted for exactly once.
    pub fn balances(&self) -> bool {
        let dropped: u64 = DropCause::ALL.iter().map(|&cause| self.dropped(cause)).sum();
        let dropped_bytes: u64 = DropCause::ALL.iter().map(|&cause| self.dropped_bytes(cause)).sum();
        self.sent == self.delivered + dropped + self.discarded + self.in_flight
            && self.sent_bytes
                == self.delivered_bytes + dropped_bytes + self.discarded_bytes + self.in_flight_bytes
    }

    /// Adds the account of another link. Two that balance still balance together.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.dropped_loss += other.dropped_loss;
        self.dropped_loss_bytes += other.dropped_loss_bytes;
        self.dropped_queue += other.dropped_queue;
        self.dropped_queue_bytes += other.dropped_queue_bytes;
        self.dropped_memory += other.dropped_memory;
        self.dropped_memory_bytes += other.dropped_memory_bytes;
        self.discarded += other.discarded;
        self.discarded_bytes += other.discarded_bytes;
        self.in_flight += other.in_flight;
        self.in_flight_bytes += other.in_flight_bytes;
        self.max_occupancy = self.max_occupancy.max(other.max_occupancy);
        self.busy = self.busy.saturating_add(other.busy);
    }

    /// Writes off what is inside: the link is gone, and nobody will collect it.
    pub fn abandon(&mut self) {
        self.discarded += std::mem::take(&mut self.in_flight);
        self.discarded_bytes += std::mem::take(&mut self.in_flight_bytes);
    }

    /// A packet was pushed. One of the next two notifications must follow.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent += 1;
        self.sent_bytes += bytes;
    }

    /// The packet just sent was dropped.
    pub(crate) fn on_dropped(&mut self, cause: DropCause, bytes: u64) {
        let (packets, total) = match cause {
            DropCause::Loss => (&mut self.dropped_loss, &mut self.dropped_loss_bytes),
            DropCause::QueueFull => (&mut self.dropped_queue, &mut self.dropped_queue_bytes),
            DropCause::Memory => (&mut self.dropped_memory, &mut self.dropped_memory_bytes),
        };
        *packets += 1;
        *total += bytes;
    }

    /// The packet just sent was let in. It needs `busy` at the serialiser, and with it `occupancy`
    /// packets count against the queue limit.
    pub(crate) fn on_admitted(&mut self, bytes: u64, busy: Duration, occupancy: usize) {
        self.in_flight += 1;
        self.in_flight_bytes += bytes;
        self.busy = self.busy.saturating_add(busy);
        self.max_occupancy = self.max_occupancy.max(occupancy as u64);
    }

    /// A packet came out.
    pub(crate) fn on_delivered(&mut self, bytes: u64) {
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        self.delivered += 1;
        self.delivered_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    /// One packet of each fate, of 1, 2, 4, 8 and 16 bytes.
    fn one_of_each() -> Ledger {
        let mut ledger = Ledger::default();
        for (cause, bytes) in DropCause::ALL.into_iter().zip([1, 2, 4]) {
            ledger.on_sent(bytes);
            ledger.on_dropped(cause, bytes);
        }
        for bytes in [8, 16] {
            ledger.on_sent(bytes);
            ledger.on_admitted(bytes, ms(3), 2);
        }
        ledger.on_delivered(8);
        ledger
    }

    #[test]
    fn every_packet_is_booked_under_its_own_fate() {
        let ledger = one_of_each();
        assert!(ledger.balances());
        assert_eq!((ledger.sent, ledger.sent_bytes), (5, 31));
        assert_eq!(DropCause::ALL.map(|cause| ledger.dropped(cause)), [1, 1, 1]);
        assert_eq!(DropCause::ALL.map(|cause| ledger.dropped_bytes(cause)), [1, 2, 4]);
        assert_eq!((ledger.delivered, ledger.delivered_bytes), (1, 8));
        assert_eq!((ledger.in_flight, ledger.in_flight_bytes), (1, 16));
        assert_eq!((ledger.busy, ledger.max_occupancy), (ms(6), 2));
    }

    #[test]
    fn a_missing_packet_or_byte_shows() {
        let mut ledger = one_of_each();
        ledger.delivered -= 1;
        assert!(!ledger.balances());
        let mut ledger = one_of_each();
        ledger.dropped_queue_bytes += 1;
        assert!(!ledger.balances());
    }

    #[test]
    fn abandoning_names_what_was_inside() {
        let mut ledger = one_of_each();
        ledger.abandon();
        assert!(ledger.balances());
        assert_eq!((ledger.in_flight, ledger.in_flight_bytes), (0, 0));
        assert_eq!((ledger.discarded, ledger.discarded_bytes), (1, 16));
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_largest_occupancy() {
        let mut total = one_of_each();
        total.abandon();
        let mut other = one_of_each();
        other.max_occupancy = 9;
        total.merge(&other);

        assert!(total.balances());
        let expected = Ledger {
            sent: 10,
            sent_bytes: 62,
            delivered: 2,
            delivered_bytes: 16,
            dropped_loss: 2,
            dropped_loss_bytes: 2,
            dropped_queue: 2,
            dropped_queue_bytes: 4,
            dropped_memory: 2,
            dropped_memory_bytes: 8,
            discarded: 1,
            discarded_bytes: 16,
            in_flight: 1,
            in_flight_bytes: 16,
            max_occupancy: 9,
            busy: ms(12),
        };
        assert_eq!(total, expected);
    }

    #[test]
    fn causes_read_as_words() {
        assert_eq!(
            DropCause::ALL.map(|cause| cause.to_string()),
            ["lost on arrival", "queue full", "memory limit reached"]
        );
    }
}
