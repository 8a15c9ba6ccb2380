//! Configuration of a receiver.

use super::ack_policy::AckConfig;
use crate::wire::native::{DATA_HEADER, TAG};

/// Window offered in packets (classic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowPolicy {
    /// Grows by one packet for each packet in order, from 1 up to `max`: min(max, max(1,
    /// `rcv_nxt`)). That is slow start. It never shrinks.
    Growing {
        /// Largest window, in packets.
        max: u32,
    },
    /// A constant number of packets.
    Fixed(u32),
}

impl WindowPolicy {
    /// Returns the window to offer, in packets.
    pub(crate) fn window(self, rcv_nxt: u64) -> u32 {
        match self {
            Self::Growing { max } => u32::try_from(rcv_nxt).unwrap_or(max).clamp(1, max.max(1)),
            Self::Fixed(packets) => packets,
        }
    }
}

/// Number of ACKs for packets in order (classic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckPolicy {
    /// One ACK per packet, as the reference implementation sends.
    EveryPacket,
    /// One ACK for all packets in order of one turn. Packets beyond a hole and duplicates still get
    /// one each, so that a sender counts the same duplicate ACKs.
    Batch,
}

/// Bounds of the receive window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowConfig {
    /// Initial window, in bytes.
    pub initial: u64,
    /// Largest window, in bytes. At `initial` or below, the window is fixed.
    pub max: u64,
    /// Bytes of stream in a packet of full size, at least 1.
    pub mss: u64,
}

impl WindowConfig {
    /// Returns a window of `bytes` that does not grow, for packets with `mss` bytes of stream. The
    /// sender then has at most `bytes` / `mss` full packets in flight.
    pub fn fixed(bytes: u64, mss: u64) -> Self {
        Self { initial: bytes, max: bytes, mss }
    }

    /// Returns bounds from 32 MiB, which is 440 Mbit/s at an RTT of 600 ms, to `max` bytes. The
    /// first flights of a long path are too few to size a window by.
    pub fn new(max: u64, mss: u64) -> Self {
        Self { initial: 32 << 20, max, mss }
    }
}

/// Parameters of every receiver behind a socket.
#[derive(Debug, Clone, Copy)]
pub struct ReceiverConfig {
    /// Window to offer in packets.
    pub window: WindowPolicy,
    /// Number of ACKs for packets in order (classic).
    pub ack: AckPolicy,
    /// Frequency and delay of selective ACKs (native).
    pub acks: AckConfig,
    /// Window to offer in bytes (native).
    pub stream_window: WindowConfig,
    /// Limit on the numbers of packets that are accepted, counted from the next expected one
    /// (classic). As many before it are answered as duplicates.
    pub range: u32,
    /// True to compute the CRC-32 of the bytes for the FIN-ACK; otherwise that has 0 (classic).
    pub checksum: bool,
    /// True to keep the bytes for [`ClassicPeers::data`](crate::ClassicPeers::data); false to count
    /// them only, and then that call fails.
    pub keep_payload: bool,
    /// Longest datagram accepted, in bytes.
    pub max_datagram: usize,
    /// True to trust classic packets as the reference does: a transfer begins with its SYN, a SYN
    /// restarts a running transfer, and packets beyond the offered window are accepted. Otherwise a
    /// transfer begins with its third packet in order, or with the FIN of a shorter transfer
    /// ([`ClassicPeers`](crate::ClassicPeers)), and a SYN restarts it only after 12 s without data.
    pub faithful: bool,
}

impl ReceiverConfig {
    /// Largest window of the reference receiver, in packets, and its
    /// [`range`](ReceiverConfig::range).
    pub const REFERENCE_WINDOW: u32 = 80_000;
    /// Largest window in bytes, larger than the memory limit of a connection.
    const STREAM_WINDOW: u64 = 4 << 30;
    /// Payload of a full packet of 1472 bytes, native.
    const FULL_PAYLOAD: u64 = 1472 - (DATA_HEADER + TAG) as u64;
    /// Largest datagram that the reference receiver accepts, in bytes.
    pub const REFERENCE_DATAGRAM: usize = 1472;

    /// Returns the configuration of the reference receiver: growing window, checksum, datagrams up
    /// to 1472 bytes. As the reference, it counts what arrives and keeps none of it: set
    /// [`keep_payload`](Self::keep_payload) to read it.
    pub fn reference() -> Self {
        Self {
            window: WindowPolicy::Growing { max: Self::REFERENCE_WINDOW },
            ack: AckPolicy::EveryPacket,
            acks: AckConfig::default(),
            stream_window: WindowConfig::new(Self::STREAM_WINDOW, Self::FULL_PAYLOAD),
            range: Self::REFERENCE_WINDOW,
            checksum: true,
            keep_payload: false,
            max_datagram: Self::REFERENCE_DATAGRAM,
            faithful: false,
        }
    }

    /// Returns the reference's dummy receiver: full window at once, no checksum, any datagrams.
    pub fn dummy() -> Self {
        Self {
            window: WindowPolicy::Fixed(Self::REFERENCE_WINDOW),
            checksum: false,
            max_datagram: usize::MAX,
            ..Self::reference()
        }
    }
}
