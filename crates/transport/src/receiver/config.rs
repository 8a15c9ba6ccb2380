//! What a receiver is told before it starts.

use super::ack_policy::AckConfig;
use super::window::WindowConfig;

/// How the offered window follows what arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowPolicy {
    /// One packet more for each packet in order, from 1 up to `max`: min(max, max(1, `rcv_nxt`)). That is
    /// slow start; it never shrinks.
    Growing {
        /// Packets.
        max: u32,
    },
    /// Always this many packets.
    Fixed(u32),
}

impl WindowPolicy {
    /// The window to offer, in packets.
    pub(crate) fn window(self, rcv_nxt: u64) -> u32 {
        match self {
            Self::Growing { max } => u32::try_from(rcv_nxt).unwrap_or(max).clamp(1, max.max(1)),
            Self::Fixed(packets) => packets,
        }
    }
}

/// How many ACKs packets in order get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckPolicy {
    /// One each: the reference's way.
    EveryPacket,
    /// One for all that came in the same turn; packets that leave a hole, and duplicates, still get one each,
    /// so that a sender counts its duplicate ACKs as before. The sum is the same, because ACKs are cumulative.
    Batch,
}

/// Parameters of every receiver behind a socket.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverConfig {
    /// The window to offer.
    pub window: WindowPolicy,
    /// How many ACKs to give.
    pub ack: AckPolicy,
    /// When to acknowledge, for senders whose wire lets ACKs wait.
    pub acks: AckConfig,
    /// The window to offer, for senders whose wire counts bytes.
    pub stream_window: WindowConfig,
    /// Packets from the next expected one on that are accepted, whatever the window says, and as many
    /// before it that are answered as duplicates.
    pub range: u32,
    /// The FIN-ACK carries the CRC-32 of what was delivered; else 0.
    pub checksum: bool,
    /// Keep what arrives for [`Receiver::data`](crate::Receiver::data); else only count it.
    pub keep_payload: bool,
    /// Longer datagrams are dropped, in bytes.
    pub max_datagram: usize,
}

impl ReceiverConfig {
    /// Largest window, and the range, of the reference receiver in packets.
    pub const REFERENCE_WINDOW: u32 = 80_000;
    /// Largest window for senders whose wire counts bytes: above what a listener leaves to one of them, which is the bound
    /// in force.
    const STREAM_WINDOW: u64 = 4 << 30;
    /// Largest datagram that the reference receiver takes, in bytes.
    pub const REFERENCE_DATAGRAM: usize = 1472;

    /// The reference receiver: growing window, checksum, datagrams up to 1472 bytes.
    pub fn reference() -> Self {
        Self {
            window: WindowPolicy::Growing { max: Self::REFERENCE_WINDOW },
            ack: AckPolicy::EveryPacket,
            acks: AckConfig::default(),
            stream_window: WindowConfig::new(Self::STREAM_WINDOW, 1444),
            range: Self::REFERENCE_WINDOW,
            checksum: true,
            keep_payload: false,
            max_datagram: Self::REFERENCE_DATAGRAM,
        }
    }

    /// The reference's dummy: full window at once, no checksum, datagrams of any size.
    pub fn dummy() -> Self {
        Self {
            window: WindowPolicy::Fixed(Self::REFERENCE_WINDOW),
            checksum: false,
            max_datagram: usize::MAX,
            ..Self::reference()
        }
    }
}
