//! What becomes of a packet, as the caller of a link sees it.
//!
//! Owns nothing but the words.

use std::time::Instant;

use crate::ledger::DropCause;
use crate::packet::{Ecn, Packet};
use crate::queue::{QUEUE_ENTRY_BYTES, QueuedPacket};

/// A packet that has reached the far end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The exact time at which it arrived, which may be before the time of the [`Link::pop`](crate::Link::pop).
    pub due: Instant,
    /// The packet, in the buffer that was pushed, or in one of the link's own if it is a duplicate.
    pub packet: Vec<u8>,
    /// What was pushed with the packet; see [`Packet::tag`].
    pub tag: u32,
    /// The codepoint: that which the packet was sent with, or [`Ecn::Ce`].
    pub ecn: Ecn,
    /// It is a second copy, which the link made.
    pub is_copy: bool,
    /// The link flipped one of its bits.
    pub is_corrupted: bool,
}

/// A packet that the link did not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("packet of {} bytes dropped: {cause}", packet.len())]
pub struct Dropped {
    /// Why not.
    pub cause: DropCause,
    /// The packet, in the buffer that was pushed.
    pub packet: Vec<u8>,
}

/// A packet that was dropped after the link had taken it, or a second copy that found no fifo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateDrop {
    /// The exact time at which it was dropped, which may be before the call that brought it about.
    pub at: Instant,
    /// Why.
    pub cause: DropCause,
    /// The packet as it was pushed, but for a mark that the queue may have set.
    pub packet: Packet,
    /// It is a second copy, which the link made.
    pub is_copy: bool,
}

/// The least that a packet is charged against the memory limit, in bytes.
///
/// It covers what the link itself needs to hold a packet, so that a flood of tiny packets is bounded
/// as well as a flood of large ones. (A queue bounded in bytes needs 8 bytes more, one with a
/// discipline of its own 24.)
pub const MIN_PACKET_CHARGE_BYTES: u64 = 64;

const _: () = assert!((size_of::<Delivery>() + QUEUE_ENTRY_BYTES) as u64 <= MIN_PACKET_CHARGE_BYTES);
const _: () = assert!(size_of::<QueuedPacket>() as u64 <= MIN_PACKET_CHARGE_BYTES + 24);

/// What a packet of `len` payload bytes is charged against the memory limit, in bytes.
pub(super) const fn charge(len: usize) -> u64 {
    if len as u64 > MIN_PACKET_CHARGE_BYTES { len as u64 } else { MIN_PACKET_CHARGE_BYTES }
}
