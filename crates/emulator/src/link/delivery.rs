//! Results of a push and a pop, and the memory charge of a packet.

use std::time::Instant;

use crate::ledger::DropCause;
use crate::packet::{Ecn, Packet};
use crate::queue::{QUEUE_ENTRY_BYTES, QueuedPacket};

/// A packet that has reached the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The exact time of arrival, which may be before the time of the
    /// [`Link::pop`](crate::Link::pop).
    pub due: Instant,
    /// The packet, in the buffer that was pushed. A second copy has a buffer of its own.
    pub packet: Vec<u8>,
    /// The tag that was pushed with the packet; see [`Packet::tag`].
    pub tag: u32,
    /// The codepoint with which the packet was sent, or [`Ecn::Ce`].
    pub ecn: Ecn,
    /// True if this is a second copy, made by the link.
    pub is_copy: bool,
    /// True if the link flipped a bit.
    pub is_corrupted: bool,
}

/// A packet that the link dropped on arrival.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("packet of {} bytes dropped: {cause}", packet.len())]
pub struct Dropped {
    /// The cause of the drop.
    pub cause: DropCause,
    /// The packet, in the buffer that was pushed.
    pub packet: Vec<u8>,
}

/// A packet that was dropped after the push accepted it, or a second copy that was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateDrop {
    /// The exact time of the drop, which may be before the call that caused it.
    pub at: Instant,
    /// The cause of the drop.
    pub cause: DropCause,
    /// The packet as it was pushed, except for a mark that the queue may have set.
    pub packet: Packet,
    /// True if this is a second copy, made by the link.
    pub is_copy: bool,
}

/// The least memory charged for a packet, in bytes.
///
/// It covers the link's own state of a packet, so that many tiny packets are bounded as well as
/// large ones. A queue with a limit in bytes needs 8 bytes more, one that decides on departure 24.
pub const MIN_PACKET_CHARGE_BYTES: u64 = 64;

const _: () = assert!((size_of::<Delivery>() + QUEUE_ENTRY_BYTES) as u64 <= MIN_PACKET_CHARGE_BYTES);
const _: () = assert!(size_of::<QueuedPacket>() as u64 <= MIN_PACKET_CHARGE_BYTES + 24);

/// Memory charged for a packet of `len` payload bytes, in bytes.
pub(super) const fn charge(len: usize) -> u64 {
    if len as u64 > MIN_PACKET_CHARGE_BYTES { len as u64 } else { MIN_PACKET_CHARGE_BYTES }
}
