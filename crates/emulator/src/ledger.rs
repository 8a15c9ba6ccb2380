//! What became of every packet.
//!
//! Owns the counters of one link and the law they obey: what was sent, and what the link duplicated,
//! was delivered, dropped for a named cause, discarded, or is still inside. It decides nothing.

use std::fmt;
use std::time::Duration;

/// Why a link did not carry a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// It was lost on arrival, as the loss model says.
    Loss,
    /// The link was dead when it arrived.
    Outage,
    /// It was longer than the link's MTU.
    TooLong,
    /// The queue had no room for it.
    QueueFull,
    /// It waited longest when the queue had no room for another
    /// ([`Discipline::DropHead`](crate::Discipline::DropHead)).
    Head,
    /// The queue had room but was above its marking threshold ([`Marking`](crate::Marking)), and the packet
    /// could not be marked.
    Congestion,
    /// The queue had room, and CoDel, RED or PIE (see [`Discipline`](crate::Discipline)) dropped the packet
    /// to tell its sender of congestion.
    Aqm,
    /// The queue would have taken it, but the link's memory limit would have been exceeded.
    Memory,
}

impl DropCause {
    /// All causes, in the order in which a link checks for them.
    pub const ALL: [Self; 8] = [
        Self::Loss,
        Self::Outage,
        Self::TooLong,
        Self::QueueFull,
        Self::Head,
        Self::Congestion,
        Self::Aqm,
        Self::Memory,
    ];
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Loss => "lost on arrival",
            Self::Outage => "link dead",
            Self::TooLong => "longer than the MTU",
            Self::QueueFull => "queue full",
            Self::Head => "head of a full queue",
            Self::Congestion => "congestion",
            Self::Aqm => "queue management",
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
    /// Second copies that the link made of packets it had let in. From then on they are packets like
    /// the others, and delivered, dropped or discarded as such.
    pub duplicated: u64,
    /// Payload bytes of the second copies.
    pub duplicated_bytes: u64,
    /// Packets that came out at the far end.
    pub delivered: u64,
    /// Payload bytes that came out at the far end.
    pub delivered_bytes: u64,
    /// Packets dropped for [`DropCause::Loss`].
    pub dropped_loss: u64,
    /// Payload bytes dropped for [`DropCause::Loss`].
    pub dropped_loss_bytes: u64,
    /// Packets dropped for [`DropCause::Outage`].
    pub dropped_outage: u64,
    /// Payload bytes dropped for [`DropCause::Outage`].
    pub dropped_outage_bytes: u64,
    /// Packets dropped for [`DropCause::TooLong`].
    pub dropped_mtu: u64,
    /// Payload bytes dropped for [`DropCause::TooLong`].
    pub dropped_mtu_bytes: u64,
    /// Packets dropped for [`DropCause::QueueFull`].
    pub dropped_queue: u64,
    /// Payload bytes dropped for [`DropCause::QueueFull`].
    pub dropped_queue_bytes: u64,
    /// Packets dropped for [`DropCause::Head`].
    pub dropped_head: u64,
    /// Payload bytes dropped for [`DropCause::Head`].
    pub dropped_head_bytes: u64,
    /// Packets dropped for [`DropCause::Congestion`].
    pub dropped_congestion: u64,
    /// Payload bytes dropped for [`DropCause::Congestion`].
    pub dropped_congestion_bytes: u64,
    /// Packets dropped for [`DropCause::Aqm`].
    pub dropped_aqm: u64,
    /// Payload bytes dropped for [`DropCause::Aqm`].
    pub dropped_aqm_bytes: u64,
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
    /// Packets let in of which a bit was flipped, those that wait for a discipline to let them go not
    /// included.
    pub corrupted: u64,
    /// Packets let in that were held back for others to overtake, with the same exception.
    pub reordered: u64,
    /// Packets let in that were sent in fragments.
    pub fragmented: u64,
    /// Those fragments.
    pub fragments: u64,
    /// Packets let in whose codepoint became [`Ecn::Ce`](crate::Ecn::Ce) here.
    pub marked: u64,
    /// The most packets that counted against the queue limit at once (see
    /// [`Occupancy`](crate::Occupancy)); of merged ledgers, the largest.
    pub max_occupancy: u64,
    /// Serialisation time of all packets let in. Those still waiting are included, unless the discipline
    /// decides on departure which of them are served.
    pub busy: Duration,
}

impl Ledger {
    /// Packets dropped for `cause`.
    pub const fn dropped(&self, cause: DropCause) -> u64 {
        match cause {
            DropCause::Loss => self.dropped_loss,
            DropCause::Outage => self.dropped_outage,
            DropCause::TooLong => self.dropped_mtu,
            DropCause::QueueFull => self.dropped_queue,
            DropCause::Head => self.dropped_head,
            DropCause::Congestion => self.dropped_congestion,
            DropCause::Aqm => self.dropped_aqm,
            DropCause::Memory => self.dropped_memory,
        }
    }

    /// Payload bytes dropped for `cause`.
    pub const fn dropped_bytes(&self, cause: DropCause) -> u64 {
        match cause {
            DropCause::Loss => self.dropped_loss_bytes,
            DropCause::Outage => self.dropped_outage_bytes,
            DropCause::TooLong => self.dropped_mtu_bytes,
            DropCause::QueueFull => self.dropped_queue_bytes,
            DropCause::Head => self.dropped_head_bytes,
            DropCause::Congestion => self.dropped_congestion_bytes,
            DropCause::Aqm => self.dropped_aqm_bytes,
            DropCause::Memory => self.dropped_memory_bytes,
        }
    }

    /// Whether every packet and every byte sent or duplicated is accounted for exactly once.
    pub fn balances(&self) -> bool {
        let dropped: u64 = DropCause::ALL.iter().map(|&cause| self.dropped(cause)).sum();
        let dropped_bytes: u64 = DropCause::ALL.iter().map(|&cause| self.dropped_bytes(cause)).sum();
        self.sent + self.duplicated == self.delivered + dropped + self.discarded + self.in_flight
            && self.sent_bytes + self.duplicated_bytes
                == self.delivered_bytes + dropped_bytes + self.discarded_bytes + self.in_flight_bytes
    }

    /// Adds the account of another link. Two that balance still balance together.
    pub fn merge(&mut self, other: &Self) {
        self.replace(&Self::default(), other);
    }

    /// Puts `after` in the place of `before`, which is an earlier account of the same link and part of this one. A sum
    /// of many links' accounts stays their sum by this, without a look at those of the others.
    pub fn replace(&mut self, before: &Self, after: &Self) {
        macro_rules! add_up {
            ($($count:ident)*) => {
                // A new member has to be named here.
                let Self { $($count: _,)* max_occupancy: _, busy: _ } = before;
                // Not the difference first: packets inside may have become fewer.
                $(self.$count = self.$count + after.$count - before.$count;)*
            };
        }
        add_up! {
            sent sent_bytes duplicated duplicated_bytes delivered delivered_bytes dropped_loss dropped_loss_bytes
            dropped_outage dropped_outage_bytes dropped_mtu dropped_mtu_bytes dropped_queue dropped_queue_bytes
            dropped_head dropped_head_bytes dropped_congestion dropped_congestion_bytes dropped_aqm dropped_aqm_bytes
            dropped_memory dropped_memory_bytes discarded discarded_bytes in_flight in_flight_bytes
            corrupted reordered fragmented fragments marked
        }
        self.max_occupancy = self.max_occupancy.max(after.max_occupancy);
        self.busy = self.busy.saturating_add(after.busy.saturating_sub(before.busy));
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

    /// The link made a second copy of a packet. One of the next two notifications must follow for it.
    pub(crate) fn on_duplicated(&mut self, bytes: u64) {
        self.duplicated += 1;
        self.duplicated_bytes += bytes;
    }

    /// The packet just sent was dropped, or one that no longer counts as inside.
    pub(crate) fn on_dropped(&mut self, cause: DropCause, bytes: u64) {
        let (packets, total) = match cause {
            DropCause::Loss => (&mut self.dropped_loss, &mut self.dropped_loss_bytes),
            DropCause::Outage => (&mut self.dropped_outage, &mut self.dropped_outage_bytes),
            DropCause::TooLong => (&mut self.dropped_mtu, &mut self.dropped_mtu_bytes),
            DropCause::QueueFull => (&mut self.dropped_queue, &mut self.dropped_queue_bytes),
            DropCause::Head => (&mut self.dropped_head, &mut self.dropped_head_bytes),
            DropCause::Congestion => (&mut self.dropped_congestion, &mut self.dropped_congestion_bytes),
            DropCause::Aqm => (&mut self.dropped_aqm, &mut self.dropped_aqm_bytes),
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
        self.on_served(busy);
        self.on_occupied(occupancy);
    }

    /// So many packets, the one just let in among them, count against the queue limit.
    pub(crate) fn on_occupied(&mut self, occupancy: usize) {
        self.max_occupancy = self.max_occupancy.max(occupancy as u64);
    }

    /// The packet just let in was sent in so many fragments.
    pub(crate) fn on_fragmented(&mut self, fragments: u32) {
        self.fragmented += 1;
        self.fragments += u64::from(fragments);
    }

    /// A packet that was let in without its time at the serialiser being known takes this long there.
    pub(crate) fn on_served(&mut self, busy: Duration) {
        self.busy = self.busy.saturating_add(busy);
    }

    /// A packet that was let in was dropped.
    pub(crate) fn on_dropped_inside(&mut self, cause: DropCause, bytes: u64) {
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        self.on_dropped(cause, bytes);
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
mod tests;
