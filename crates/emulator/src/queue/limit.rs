//! Limit of a queue, and which packets count towards it.

use std::time::Duration;

use crate::bitrate::Bitrate;
use crate::time::nanos;

/// Limit on the packets and on the bytes of a queue. If both are set, both apply.
/// [`Occupancy`](crate::Occupancy) defines which packets count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLimit {
    /// Limit in packets. `None`: no such limit.
    pub packets: Option<u32>,
    /// Limit in bytes on the wire: payload, overhead and framing. `None`: no such limit.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// No limit.
    pub const UNLIMITED: Self = Self { packets: None, bytes: None };

    /// Returns a limit of `packets` packets.
    pub const fn packets(packets: u32) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// Returns a limit of `bytes` bytes on the wire.
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    /// Converts `size` to a limit, for a link of this rate on a path of this round-trip time.
    ///
    /// `None` if `size` is a multiple of the bandwidth-delay product and `rate` is `None`.
    pub fn of_size(size: QueueSize, rate: Option<Bitrate>, rtt: Duration) -> Option<Self> {
        match size {
            QueueSize::Packets(packets) => Some(Self::packets(packets)),
            QueueSize::Bytes(bytes) => Some(Self::bytes(bytes)),
            QueueSize::BdpMillionths(millionths) => Some(Self::bytes(bdp(millionths, rate?, rtt))),
        }
    }

    /// Returns whether this number of packets and bytes exceeds neither limit.
    pub(super) fn allows(self, packets: usize, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets as u64 <= u64::from(limit))
            && self.bytes.is_none_or(|limit| bytes <= limit)
    }
}

/// Which packets count towards the [`QueueLimit`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Occupancy {
    /// Packets that wait for the serialiser, without those being serialised or on the wire.
    ///
    /// A packet that finds the serialiser idle is always admitted. Any other packet is admitted if
    /// the queue with this packet does not exceed the limit. With a limit of n packets, n + 1
    /// packets of a burst into an idle link are admitted: one starts service and n wait.
    #[default]
    Waiting,
    /// All packets that have not reached the far end: waiting, being serialised or on the wire.
    ///
    /// A packet is admitted if the packets ahead of it do not exceed the limit. With a limit of n
    /// packets, the link therefore contains at most n + 1 packets, whatever its rate.
    WaitingAndInFlight,
}

/// Size of a queue in one of three units; see [`parse_queue_size`](crate::parse_queue_size).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueSize {
    /// Size in packets.
    Packets(u32),
    /// Size in bytes on the wire.
    Bytes(u64),
    /// Size in millionths of the bandwidth-delay product, which is rate times round-trip time.
    BdpMillionths(u64),
}

/// Returns `rate * rtt * millionths / 1e6` in bytes, rounded down, at most `u64::MAX`.
fn bdp(millionths: u64, rate: Bitrate, rtt: Duration) -> u64 {
    // One byte is 8e18 (millibit/s) * ns * millionths. The product of the first two factors fits in
    // 128 bits. If the product of all three does not, the result exceeds 64 bits too, because 2^128
    // / 8e18 is 4.25e19, more than 2^64.
    let product = u128::from(rate.as_millibps()) * u128::from(nanos(rtt));
    let bytes = product.checked_mul(millionths.into()).map(|all| all / 8_000_000_000_000_000_000);
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX)
}
