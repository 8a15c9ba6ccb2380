//! Packets as values, in both formats: what a sender sends, what a receiver sends. Fields that a
//! format lacks are `None`.

use std::time::Duration;

use super::native::SackBlocks;
use super::{LinkProperties, WireError, classic};

/// Kind of a packet. The numbers are the types of the native format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "these are the names of the packets in docs/PROTOCOL.md")]
pub enum PacketKind {
    /// On the wire DATA without payload (native), or a repeated packet (classic).
    KeepAlive = 0,
    Syn = 1,
    Retry = 2,
    SynAck = 3,
    Data = 4,
    OpenAck = 5,
    Ack = 6,
    Fin = 7,
    FinAck = 8,
    Close = 9,
    Versions = 10,
    Auth = 11,
    Path = 12,
    Reset = 13,
    Refuse = 14,
    Open = 15,
}

/// Packet sent by a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FromSender<'a> {
    /// Opens a transfer (classic).
    Syn(Open),
    /// A piece of the stream.
    Data(Piece<'a>),
    /// Ends the stream before number `seq`.
    Fin {
        /// Number after the last packet or byte.
        seq: u64,
        /// Number of this transmission (native). Such a FIN may arrive before the end of the data.
        packet_number: Option<u64>,
        /// True if the sender accepts an ACK as an answer while the receiver stores.
        understands_ack: bool,
    },
}

/// Packet sent by a receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FromReceiver<'a> {
    /// Answers a SYN (classic).
    SynAck {
        /// First sequence number expected.
        ack: u64,
        /// Receive window, counted from `ack`.
        window: u64,
    },
    /// Acknowledges data.
    Ack(Ack<'a>),
    /// Answers a FIN.
    FinAck {
        /// The number of the FIN.
        ack: u64,
        /// CRC-32 of the stream (classic); 0 if the receiver computes none.
        crc: u32,
    },
}

/// ACK. Numbers count packets (classic) or bytes (native).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ack<'a> {
    /// Cumulative ACK: everything below this number arrived.
    pub ack: u64,
    /// Receive window, counted from `ack`.
    pub window: u64,
    /// SACK blocks above `ack`.
    pub sack: SackBlocks<'a>,
    /// Echo of the newest transmission that arrived (native).
    pub echo: Option<Echo>,
    /// Time of the ACK by the receiver's clock (native), microseconds modulo 2^32.
    pub sent_us: Option<u32>,
    /// Count of duplicate data packets (native), modulo 2^32.
    pub duplicates: Option<u32>,
    /// Counts of ECN codepoints (native).
    pub marks: Option<Marks>,
    /// Count of messages dropped by the receiver's socket (native), modulo 2^32.
    pub overflow: Option<u32>,
}

impl Ack<'_> {
    /// Returns a classic ACK.
    pub(crate) fn plain(ack: u64, window: u64) -> Self {
        Self { ack, window, ..Self::default() }
    }
}

/// Packet number that an ACK echoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// Largest packet number that arrived.
    pub packet_number: u64,
    /// ACK delay: time from the arrival of that packet to the ACK.
    pub delay: Duration,
}

/// Counts of received data packets by ECN codepoint, modulo 2^32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// All data packets received.
    pub packets: u32,
    /// Packets with CE.
    pub ce: u32,
    /// Packets with ECT(0) or ECT(1).
    pub ect: u32,
}

/// Opens a classic transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open {
    /// First sequence number.
    pub seq: u64,
    /// The link that the receiver is asked to emulate.
    pub link: LinkProperties,
}

/// A piece of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Sequence number (classic), or stream offset of the first byte (native).
    pub seq: u64,
    /// Payload; may be empty.
    pub payload: &'a [u8],
    /// Packet number, which a retransmission does not repeat (native).
    pub packet_number: Option<u64>,
    /// True if the sender requests an immediate ACK.
    pub ack_now: bool,
    /// Largest number of packets per ACK that the sender requests. 0: as agreed in the handshake.
    pub ack_every: u16,
}

impl<'a> Piece<'a> {
    /// Returns a classic data packet.
    pub fn classic(seq: u64, payload: &'a [u8]) -> Self {
        Self { seq, payload, packet_number: None, ack_now: false, ack_every: 0 }
    }
}

/// Header fields of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataHeader {
    /// Sequence number.
    pub seq: u64,
    /// Number of this transmission.
    pub packet_number: u64,
    /// True to request an immediate ACK (native).
    pub ack_now: bool,
    /// Largest number of packets per ACK to request (native). 0: as agreed in the handshake.
    pub ack_every: u16,
}

impl<'a> FromSender<'a> {
    /// Decodes a classic datagram. Its number is unwrapped around `near`, the next one expected.
    ///
    /// # Errors
    /// The datagram is invalid.
    pub fn decode(datagram: &'a [u8], near: u64) -> Result<Self, WireError> {
        classic::decode_from_sender(datagram, near)
    }
}

impl<'a> FromReceiver<'a> {
    /// Decodes a classic datagram. Its number is unwrapped around `near`, the sender's `snd_una`.
    ///
    /// # Errors
    /// The datagram is invalid.
    pub fn decode(datagram: &'a [u8], near: u64) -> Result<Self, WireError> {
        classic::decode_from_receiver(datagram, near)
    }

    pub(crate) fn kind(&self) -> PacketKind {
        match self {
            Self::SynAck { .. } => PacketKind::SynAck,
            Self::Ack(_) => PacketKind::Ack,
            Self::FinAck { .. } => PacketKind::FinAck,
        }
    }
}

/// A reply that waits in a receiver's queue: 24 bytes, where [`FromReceiver`] has over 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    SynAck { ack: u64, window: u64 },
    Ack { ack: u64, window: u64 },
    FinAck { ack: u64, crc: u32 },
}
