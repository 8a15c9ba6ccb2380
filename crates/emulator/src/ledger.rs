//! Counters of one link: what happened to every packet.
//!
//! Invariant: sent + duplicated packets = delivered + dropped by each cause + discarded + in
//! flight. The same holds for bytes.

use std::fmt;
use std::time::Duration;

/// Why a link dropped a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The loss model dropped the packet on arrival.
    Loss,
    /// The link was down when the packet arrived.
    Outage,
    /// The packet was longer than the link's MTU.
    TooLong,
    /// The queue had no room for the packet.
    QueueFull,
    /// The packet was the oldest in the queue when the queue had no room for an arriving packet
    /// ([`Discipline::DropHead`](crate::Discipline::DropHead)).
    Head,
    /// The queue was above its marking threshold ([`Marking`](crate::Marking)) and the packet was
    /// not ECN-capable.
    Congestion,
    /// CoDel, RED or PIE (see [`Discipline`](crate::Discipline)) dropped the packet as a congestion
    /// signal, although the queue had room.
    Aqm,
    /// The packet would have exceeded the link's memory limit, although the queue had room.
    Memory,
}

impl DropCause {
    /// All causes, in the order in which a link checks them.
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

    /// Returns the name in JSON, in the names of metrics, and in the output of `rdt-emu sim`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Outage => "outage",
            Self::TooLong => "mtu",
            Self::QueueFull => "queue",
            Self::Head => "head",
            Self::Congestion => "congestion",
            Self::Aqm => "aqm",
            Self::Memory => "memory",
        }
    }
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

/// Counters of one link, or sums of several links ([`Ledger::merge`]).
///
/// Bytes are payload bytes as pushed, without overhead and framing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Packets pushed into the link.
    pub sent: u64,
    /// Payload bytes of the packets pushed into the link.
    pub sent_bytes: u64,
    /// Second copies that the link made of admitted packets. The counters below include the copies.
    pub duplicated: u64,
    /// Payload bytes of these second copies.
    pub duplicated_bytes: u64,
    /// Packets delivered at the far end.
    pub delivered: u64,
    /// Payload bytes delivered at the far end.
    pub delivered_bytes: u64,
    /// Packets dropped for [`DropCause::Loss`].
    pub dropped_loss: u64,
    /// Packets dropped for [`DropCause::Outage`].
    pub dropped_outage: u64,
    /// Packets dropped for [`DropCause::TooLong`].
    pub dropped_mtu: u64,
    /// Packets dropped for [`DropCause::QueueFull`].
    pub dropped_queue: u64,
    /// Packets dropped for [`DropCause::Head`].
    pub dropped_head: u64,
    /// Packets dropped for [`DropCause::Congestion`].
    pub dropped_congestion: u64,
    /// Packets dropped for [`DropCause::Aqm`].
    pub dropped_aqm: u64,
    /// Packets dropped for [`DropCause::Memory`].
    pub dropped_memory: u64,
    /// Payload bytes of all dropped packets.
    pub dropped_bytes: u64,
    /// Packets inside the link when it was discarded.
    pub discarded: u64,
    /// Payload bytes inside the link when it was discarded.
    pub discarded_bytes: u64,
    /// Packets inside the link: waiting, being serialised, on the wire, or due and not popped.
    pub in_flight: u64,
    /// Payload bytes of the packets inside the link.
    pub in_flight_bytes: u64,
    /// Admitted packets in which the link flipped a bit. They count when their service is
    /// scheduled: on arrival, or on departure from the queue if the discipline decides then.
    pub corrupted: u64,
    /// Admitted packets with the extra delay of [`Reorder`](crate::Reorder), counted like
    /// `corrupted`.
    pub reordered: u64,
    /// Admitted packets that the link sent in fragments.
    pub fragmented: u64,
    /// Number of fragments of the `fragmented` packets.
    pub fragments: u64,
    /// Admitted packets whose ECN codepoint this link changed to [`Ecn::Ce`](crate::Ecn::Ce).
    pub marked: u64,
    /// Highest number of packets that counted towards the queue limit at the same time (see
    /// [`Occupancy`](crate::Occupancy)). Of merged ledgers, the highest of any link.
    pub max_occupancy: u64,
    /// Sum of the serialisation times of admitted packets. It includes waiting packets, unless the
    /// discipline decides on departure.
    pub busy: Duration,
}

impl Ledger {
    /// Returns the number of packets dropped for `cause`.
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

    /// Returns whether every packet and byte sent or duplicated is counted exactly once.
    pub fn balances(&self) -> bool {
        let dropped: u64 = DropCause::ALL.iter().map(|&cause| self.dropped(cause)).sum();
        self.sent + self.duplicated == self.delivered + dropped + self.discarded + self.in_flight
            && self.sent_bytes + self.duplicated_bytes
                == self.delivered_bytes + self.dropped_bytes + self.discarded_bytes + self.in_flight_bytes
    }

    /// Adds the counters of another link. If both ledgers balance, the sum balances too.
    pub fn merge(&mut self, other: &Self) {
        self.replace(&Self::default(), other);
    }

    /// Updates this sum of several links after one of them changed: subtracts its earlier counters,
    /// `before`, and adds its present ones, `after`.
    pub fn replace(&mut self, before: &Self, after: &Self) {
        macro_rules! add_up {
            ($($count:ident)*) => {
                // Exhaustive: a new field does not compile until it is added to the list below.
                let Self { $($count: _,)* max_occupancy: _, busy: _ } = before;
                // Add first: `in_flight` may have decreased, so `after - before` could underflow.
                $(self.$count = self.$count + after.$count - before.$count;)*
            };
        }
        add_up! {
            sent sent_bytes duplicated duplicated_bytes delivered delivered_bytes dropped_loss dropped_outage
            dropped_mtu dropped_queue dropped_head dropped_congestion dropped_aqm dropped_memory dropped_bytes
            discarded discarded_bytes in_flight in_flight_bytes corrupted reordered fragmented fragments marked
        }
        self.max_occupancy = self.max_occupancy.max(after.max_occupancy);
        self.busy = self.busy.saturating_add(after.busy.saturating_sub(before.busy));
    }

    /// Counts the packets inside the link as discarded. For a link that is about to be discarded.
    pub fn abandon(&mut self) {
        self.discarded += std::mem::take(&mut self.in_flight);
        self.discarded_bytes += std::mem::take(&mut self.in_flight_bytes);
    }

    /// Counts a pushed packet. `on_dropped` or `on_admitted` must follow.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent += 1;
        self.sent_bytes += bytes;
    }

    /// Counts a second copy. `on_dropped` or `on_admitted` must follow for it.
    pub(crate) fn on_duplicated(&mut self, bytes: u64) {
        self.duplicated += 1;
        self.duplicated_bytes += bytes;
    }

    /// Counts a drop of a packet that does not count as in flight.
    pub(crate) fn on_dropped(&mut self, cause: DropCause, bytes: u64) {
        *match cause {
            DropCause::Loss => &mut self.dropped_loss,
            DropCause::Outage => &mut self.dropped_outage,
            DropCause::TooLong => &mut self.dropped_mtu,
            DropCause::QueueFull => &mut self.dropped_queue,
            DropCause::Head => &mut self.dropped_head,
            DropCause::Congestion => &mut self.dropped_congestion,
            DropCause::Aqm => &mut self.dropped_aqm,
            DropCause::Memory => &mut self.dropped_memory,
        } += 1;
        self.dropped_bytes += bytes;
    }

    /// Counts an admitted packet. `busy` is its serialisation time; for `occupancy` see
    /// `on_occupied`.
    pub(crate) fn on_admitted(&mut self, bytes: u64, busy: Duration, occupancy: usize) {
        self.in_flight += 1;
        self.in_flight_bytes += bytes;
        self.on_served(busy);
        self.on_occupied(occupancy);
    }

    /// `occupancy`: packets that count towards the queue limit, the packet just admitted included.
    pub(crate) fn on_occupied(&mut self, occupancy: usize) {
        self.max_occupancy = self.max_occupancy.max(occupancy as u64);
    }

    pub(crate) fn on_fragmented(&mut self, fragments: u32) {
        self.fragmented += 1;
        self.fragments += u64::from(fragments);
    }

    /// Adds a packet's serialisation time, which may be unknown when the packet is admitted.
    pub(crate) fn on_served(&mut self, busy: Duration) {
        self.busy = self.busy.saturating_add(busy);
    }

    /// Counts a drop of a packet that was admitted before.
    pub(crate) fn on_dropped_inside(&mut self, cause: DropCause, bytes: u64) {
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        self.on_dropped(cause, bytes);
    }

    pub(crate) fn on_delivered(&mut self, bytes: u64) {
        self.in_flight -= 1;
        self.in_flight_bytes -= bytes;
        self.delivered += 1;
        self.delivered_bytes += bytes;
    }
}

#[cfg(test)]
mod tests;
