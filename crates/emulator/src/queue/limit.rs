//! Limit and occupancy of a queue.

use std::time::Duration;

use crate::bitrate::Bitrate;
use crate::time::nanos;

/// Limit on the packets and bytes that count at once; see [`Occupancy`](crate::Occupancy). If both
/// are given, both apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueLimit {
    /// Limit in packets, or `None`.
    pub packets: Option<u32>,
    /// Limit in bytes on the wire (payload and overhead), or `None`.
    pub bytes: Option<u64>,
}

impl QueueLimit {
    /// No limit.
    pub const UNLIMITED: Self = Self { packets: None, bytes: None };

    /// At most `packets` packets.
    pub const fn packets(packets: u32) -> Self {
        Self { packets: Some(packets), bytes: None }
    }

    /// At most `bytes` bytes on the wire.
    pub const fn bytes(bytes: u64) -> Self {
        Self { packets: None, bytes: Some(bytes) }
    }

    /// The limit of this size on a path with this rate and round-trip time.
    ///
    /// `None` if the size is a multiple of the bandwidth-delay product and there is no rate.
    pub fn of_size(size: QueueSize, rate: Option<Bitrate>, rtt: Duration) -> Option<Self> {
        match size {
            QueueSize::Packets(packets) => Some(Self::packets(packets)),
            QueueSize::Bytes(bytes) => Some(Self::bytes(bytes)),
            QueueSize::BdpMillionths(millionths) => Some(Self::bytes(bdp(millionths, rate?, rtt))),
        }
    }

    /// Returns whether this number of packets and bytes keeps both limits.
    pub(super) fn allows(self, packets: usize, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| packets as u64 <= u64::from(limit))
            && self.bytes.is_none_or(|limit| bytes <= limit)
    }
}

/// The packets that count against the [`QueueLimit`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Occupancy {
    /// Packets that wait for the serialiser; neither the one in service nor those on the wire.
    ///
    /// A packet that finds the serialiser idle never waits and is always admitted. Any other is
    /// admitted if the limit is kept with it. With a limit of n packets, a burst into an idle link
    /// keeps n + 1: one in service and n waiting.
    #[default]
    Waiting,
    /// Packets not delivered yet: waiting, in service or on the wire.
    ///
    /// A packet is admitted if the packets ahead of it keep the limit. With a limit of n packets, a
    /// burst into an empty path keeps n + 1 at any rate, and the path never holds more.
    WaitingAndInFlight,
}

/// Size of a queue in one of three units; [`parse_queue_size`](crate::parse_queue_size) reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueSize {
    /// Packets.
    Packets(u32),
    /// Bytes on the wire.
    Bytes(u64),
    /// Millionths of the bandwidth-delay product, the product of rate and round-trip time.
    BdpMillionths(u64),
}

/// Millionths of `rate` times `rtt`, in whole bytes rounded down, at most `u64::MAX`.
fn bdp(millionths: u64, rate: Bitrate, rtt: Duration) -> u64 {
    // 8e18 (millibit/s) * ns * millionths are a byte. The first two factors fit in 128 bits. If all
    // three do not, the result exceeds 64 bits too, because 2^128 / 8e18 is 4.25e19.
    let product = u128::from(rate.as_millibps()) * u128::from(nanos(rtt));
    let bytes = product.checked_mul(millionths.into()).map(|all| all / 8_000_000_000_000_000_000);
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX)
}
