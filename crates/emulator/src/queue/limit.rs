//! How large a queue may be.
//!
//! Owns the bounds and how people say them. What counts against them is for others to say.

use std::time::Duration;

use crate::bitrate::Bitrate;
use crate::time::nanos;

/// How much may be counted at once; see [`Occupancy`](crate::Occupancy) for what counts. Where both bounds are given,
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

    /// At most `size` of a path with this rate and round-trip time.
    ///
    /// `None` if the size is a multiple of the bandwidth-delay product and there is no rate.
    pub fn of_size(size: QueueSize, rate: Option<Bitrate>, rtt: Duration) -> Option<Self> {
        match size {
            QueueSize::Packets(packets) => Some(Self::packets(packets)),
            QueueSize::Bytes(bytes) => Some(Self::bytes(bytes)),
            QueueSize::BdpMillionths(millionths) => Some(Self::bytes(bdp(millionths, rate?, rtt))),
        }
    }

    /// Whether so many packets and bytes keep both bounds.
    pub(super) fn allows(self, packets: usize, bytes: u64) -> bool {
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

/// How large a queue is, as people say it; [`parse_queue_size`](crate::parse_queue_size) reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueSize {
    /// So many packets.
    Packets(u32),
    /// So many bytes on the wire.
    Bytes(u64),
    /// So many millionths of the bandwidth-delay product: what a path of its rate carries in its
    /// round-trip time.
    BdpMillionths(u64),
}

/// So many millionths of `rate` times `rtt`, in whole bytes rounded down, at most `u64::MAX`.
fn bdp(millionths: u64, rate: Bitrate, rtt: Duration) -> u64 {
    // Millibits per second times nanoseconds times millionths: 8e18 of them are a byte. The first two
    // factors fit in 128 bits; where all three do not, the result is beyond 64 bits too, because 2^128 /
    // 8e18 is 4.25e19.
    let product = u128::from(rate.as_millibps()) * u128::from(nanos(rtt));
    let bytes = product.checked_mul(millionths.into()).map(|all| all / 8_000_000_000_000_000_000);
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX)
}
