//! Results of a push and a pop, and the memory that a packet is charged.

use std::time::Instant;

use crate::Ecn;
use crate::ledger::DropCause;
use crate::packet::Packet;
use crate::queue::{QUEUE_ENTRY_BYTES, QueuedPacket};

/// A packet that has reached the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Exact arrival time, which may be earlier than the [`Link::pop`](crate::Link::pop).
    pub due: Instant,
    /// The payload, in the buffer that was pushed. A second copy has another buffer.
    pub packet: Vec<u8>,
    /// Tag that was pushed with the packet; see [`Packet::tag`].
    pub tag: u32,
    /// ECN codepoint: as pushed, or [`Ecn::Ce`] if the link marked the packet.
    pub ecn: Ecn,
    /// True if this is a second copy, made by
    /// [`LinkConfig::duplicate`](crate::LinkConfig::duplicate).
    pub is_copy: bool,
    /// True if the link flipped a bit of the payload.
    pub is_corrupted: bool,
}

/// A packet that the link dropped on arrival.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("packet of {} bytes dropped: {cause}", packet.len())]
pub struct Dropped {
    /// Why the link dropped the packet.
    pub cause: DropCause,
    /// The payload, in the buffer that was pushed.
    pub packet: Vec<u8>,
}

/// A packet that was dropped although its push succeeded, or a dropped second copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateDrop {
    /// Exact time of the drop in the model, which may be earlier than the call that performed it.
    pub at: Instant,
    /// Why the link dropped the packet.
    pub cause: DropCause,
    /// The packet as it was pushed, except that the queue may have marked it CE.
    pub packet: Packet,
    /// True if this is a second copy, made by
    /// [`LinkConfig::duplicate`](crate::LinkConfig::duplicate).
    pub is_copy: bool,
}

/// Smallest memory charge of a packet, in bytes.
///
/// It covers the link's own state for the packet, so that the memory limit also bounds many tiny
/// packets. That state is 8 bytes larger if the queue limit is in bytes, and up to 24 if the
/// discipline decides on departure.
pub const MIN_PACKET_CHARGE_BYTES: u64 = 64;

const _: () = assert!((size_of::<Delivery>() + QUEUE_ENTRY_BYTES) as u64 <= MIN_PACKET_CHARGE_BYTES);
const _: () = assert!(size_of::<QueuedPacket>() as u64 <= MIN_PACKET_CHARGE_BYTES + 24);

/// Returns the memory charged for a packet of `len` payload bytes, in bytes.
pub(super) const fn charge(len: usize) -> u64 {
    if len as u64 > MIN_PACKET_CHARGE_BYTES { len as u64 } else { MIN_PACKET_CHARGE_BYTES }
}
