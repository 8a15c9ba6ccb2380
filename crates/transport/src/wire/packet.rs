//! The packets of both formats: what a sender sends, what a receiver sends, and which decoder reads
//! each kind. Fields that a format lacks are `None`.

use std::time::Duration;

use super::native::{self, Close, CloseReason, LinkRequest, Params, SackBlocks, Versions};
use super::{LinkProperties, Wire, WireError, classic};
use crate::cookie::Cookie;

/// Length of the longest reply, bytes.
pub(crate) const MAX_REPLY: usize = native::ack_len(native::MAX_SACK_BLOCKS);

/// Kind of a packet. The numbers are the types of the native format; its type 5 is reserved.
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
    Ack = 6,
    Fin = 7,
    FinAck = 8,
    Close = 9,
    Versions = 10,
    // Version 2 alone.
    Auth = 11,
    Path = 12,
    Reset = 13,
    Refuse = 14,
}

impl PacketKind {
    /// Returns the kind with this type in version 1 of the native format.
    pub(super) const fn from_type(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Syn,
            2 => Self::Retry,
            3 => Self::SynAck,
            4 => Self::Data,
            6 => Self::Ack,
            7 => Self::Fin,
            8 => Self::FinAck,
            9 => Self::Close,
            10 => Self::Versions,
            _ => return None,
        })
    }
}

/// Packet sent by a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FromSender<'a> {
    /// Opens a transfer.
    Syn(Open<'a>),
    /// A piece of the stream.
    Data(Piece<'a>),
    /// Ends the stream before number `seq`.
    Fin {
        /// Number after the last packet or byte.
        seq: u64,
        /// Further fields (native), with which the FIN may arrive before the end of the data.
        seal: Option<Seal>,
        /// True if the sender accepts an ACK, not only a FIN-ACK, as an answer while the receiver
        /// stores.
        understands_ack: bool,
    },
    /// The sender aborted the transfer.
    Close(Close<'a>),
}

/// Packet sent by a receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FromReceiver<'a> {
    /// Answers a SYN.
    SynAck {
        /// First sequence number expected.
        ack: u64,
        /// Receive window, counted from `ack`.
        window: u64,
        /// Transport parameters (native).
        params: Option<Params>,
    },
    /// Requests the SYN again, with this cookie.
    Retry(Cookie),
    /// Acknowledges data.
    Ack(Ack<'a>),
    /// Answers a FIN.
    FinAck {
        /// The number of the FIN.
        ack: u64,
        /// CRC-32 of the stream; 0 if the receiver computes none.
        crc: u32,
    },
    /// Ends the transfer before its time, or refuses it.
    Close(Close<'a>),
    /// The receiver does not support the SYN's version, but these.
    Versions(Versions),
}

/// ACK. Numbers count packets (classic) or bytes (native).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack<'a> {
    /// Cumulative ACK: everything below this number arrived.
    pub ack: u64,
    /// Receive window, counted from `ack`.
    pub window: u64,
    /// SACK blocks above `ack`.
    pub sack: SackBlocks<'a>,
    /// Echo of the newest transmission that arrived (native).
    pub echo: Option<Echo>,
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
        Self {
            ack,
            window,
            sack: SackBlocks::default(),
            echo: None,
            duplicates: None,
            marks: None,
            overflow: None,
        }
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

/// Fields of a FIN that may arrive before the end of the data (native).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// CRC-32 of the stream.
    pub crc: u32,
    /// Number of this transmission.
    pub packet_number: u64,
}

/// Opens a transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Open<'a> {
    /// Format of the transfer, with the connection ID.
    pub wire: Wire,
    /// First sequence number.
    pub seq: u64,
    /// Proof of the sender's address.
    pub cookie: Option<Cookie>,
    /// The link that the receiver is asked to emulate.
    pub link: Option<LinkWanted>,
    /// Transport parameters of the sender (native).
    pub params: Option<Params>,
    /// Name that the sender suggests for the stream (native).
    pub name: Option<&'a str>,
}

impl Open<'_> {
    /// Returns a classic SYN.
    pub fn classic(seq: u32, link: LinkProperties) -> Self {
        let link = Some(LinkWanted::Packets(link));
        Self { wire: Wire::Classic, seq: u64::from(seq), cookie: None, link, params: None, name: None }
    }

    /// Returns the attempt number of this SYN (native); 1 in the classic format.
    pub(crate) fn attempt(&self) -> u8 {
        self.params.map_or(1, |params| params.attempt)
    }
}

/// Emulated link that a sender requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkWanted {
    /// With a buffer in packets.
    Packets(LinkProperties),
    /// With a queue in bytes.
    Bytes(LinkRequest),
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
    /// CRC-32 of the payload, if the check of the packet computed it (native).
    pub crc: Option<u32>,
    /// True if the sender requests an immediate ACK.
    pub ack_now: bool,
    /// Largest number of packets per ACK that the sender requests. 0: as agreed in the handshake.
    pub ack_every: u16,
}

impl<'a> Piece<'a> {
    /// Returns a classic data packet.
    pub fn classic(seq: u64, payload: &'a [u8]) -> Self {
        Self { seq, payload, packet_number: None, crc: None, ack_now: false, ack_every: 0 }
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

/// References for unwrapping sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Near {
    /// The next number expected, or `snd_una` of a sender.
    pub seq: u64,
    /// The newest transmission received, or the next one of a sender.
    pub packet_number: u64,
}

impl<'a> FromSender<'a> {
    /// Decodes a datagram of either format. [`native::connection_id`] has its connection ID.
    ///
    /// # Errors
    /// The datagram is invalid.
    // Returned as it is, not in a tuple: a move would copy the largest variant, a SYN.
    pub fn decode(datagram: &'a [u8], near: Near) -> Result<Self, WireError> {
        if native::recognize(datagram) {
            native::decode_from_sender(datagram, near.packet_number)
        } else {
            classic::decode_from_sender(datagram, near.seq)
        }
    }

    /// Returns the packet number of DATA and FIN packets (native), which a sender sends only after
    /// its SYN.
    pub(crate) fn packet_number(&self) -> Option<u64> {
        match self {
            Self::Data(piece) => piece.packet_number,
            Self::Fin { seal, .. } => seal.map(|seal| seal.packet_number),
            Self::Syn(_) | Self::Close(_) => None,
        }
    }
}

impl<'a> FromReceiver<'a> {
    /// Decodes a datagram of either format.
    ///
    /// # Errors
    /// The datagram is invalid.
    pub fn decode(datagram: &'a [u8], near: Near) -> Result<Self, WireError> {
        if native::recognize(datagram) {
            native::decode_from_receiver(datagram, near.packet_number)
        } else {
            classic::decode_from_receiver(datagram, near.seq)
        }
    }

    pub(crate) fn kind(&self) -> PacketKind {
        match self {
            Self::SynAck { .. } => PacketKind::SynAck,
            Self::Retry(_) => PacketKind::Retry,
            Self::Ack(_) => PacketKind::Ack,
            Self::FinAck { .. } => PacketKind::FinAck,
            Self::Close(_) => PacketKind::Close,
            Self::Versions(_) => PacketKind::Versions,
        }
    }
}

/// A reply that waits in a receiver's queue: 24 bytes, where [`FromReceiver`] has over 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Answers the SYN with this attempt number.
    SynAck {
        ack: u64,
        window: u64,
        attempt: u8,
    },
    Ack {
        ack: u64,
        window: u64,
    },
    FinAck {
        ack: u64,
        crc: u32,
    },
}

/// Converts a window in packets to 32 bits, saturating.
fn packets(window: u64) -> u32 {
    u32::try_from(window).unwrap_or(u32::MAX)
}

/// Writes a classic ACK as [`encode_answer`] would; `out` has its length.
pub(crate) fn encode_plain_ack(ack: u64, window: u64, out: &mut [u8]) {
    classic::encode_reply(PacketKind::Ack, ack, packets(window), out);
}

/// Writes a reply in the format of its transfer and returns its length; `None` if the format has no
/// such reply. `params` returns the receiver's transport parameters for a native SYN-ACK.
pub(crate) fn encode_answer(
    wire: Wire,
    answer: Answer,
    params: impl FnOnce() -> Params,
    out: &mut [u8; MAX_REPLY],
) -> Option<usize> {
    let len = match wire {
        Wire::Classic => {
            let (kind, ack, value) = match answer {
                Answer::SynAck { ack, window, .. } => (PacketKind::SynAck, ack, packets(window)),
                Answer::Ack { ack, window } => (PacketKind::Ack, ack, packets(window)),
                Answer::FinAck { ack, crc } => (PacketKind::FinAck, ack, crc),
            };
            classic::encode_reply(kind, ack, value, &mut out[..classic::REPLY_LEN]);
            classic::REPLY_LEN
        }
        Wire::Native { connection_id } => match answer {
            Answer::SynAck { window, attempt, .. } => {
                let params = Params { attempt, ..params() };
                let syn_ack = native::SynAck { window, params };
                let len = native::syn_ack_len(&syn_ack);
                native::encode_syn_ack(connection_id, &syn_ack, &mut out[..len]);
                len
            }
            // Native ACKs are written by `encode_ack`.
            Answer::Ack { .. } => return None,
            Answer::FinAck { ack, crc } => {
                let fin_ack = native::FinAck { length: ack, crc };
                native::encode_fin_ack(connection_id, &fin_ack, &mut out[..native::FIN_ACK_LEN]);
                native::FIN_ACK_LEN
            }
        },
    };
    Some(len)
}

/// Writes a RETRY and returns its length.
pub(crate) fn encode_retry(connection_id: u64, cookie: &Cookie, out: &mut [u8; MAX_REPLY]) -> usize {
    native::encode_retry(connection_id, cookie, &mut out[..native::RETRY_LEN]);
    native::RETRY_LEN
}

/// Writes a VERSIONS and returns its length.
pub(crate) fn encode_versions(connection_id: u64, versions: Versions, out: &mut [u8; MAX_REPLY]) -> usize {
    native::encode_versions(connection_id, versions, &mut out[..native::VERSIONS_LEN]);
    native::VERSIONS_LEN
}

/// Writes a CLOSE and returns its length.
pub(crate) fn encode_close(connection_id: u64, reason: CloseReason, out: &mut [u8; MAX_REPLY]) -> usize {
    put_close(connection_id, &Close::new(reason, ""), out)
}

/// Writes the CLOSE that answers packet `packet_number` of an unknown connection, and returns its
/// length.
pub(crate) fn encode_no_connection(
    connection_id: u64,
    packet_number: u64,
    out: &mut [u8; MAX_REPLY],
) -> usize {
    put_close(connection_id, &Close::to_unknown(packet_number), out)
}

fn put_close(connection_id: u64, close: &Close<'_>, out: &mut [u8; MAX_REPLY]) -> usize {
    let len = native::close_len(close);
    native::encode_close(connection_id, close, &mut out[..len]);
    len
}
