//! Packets of sender and receiver, independent of the format. Fields that a format lacks are
//! `None`.

use std::time::Duration;

use super::native::{self, CloseReason, LinkRequest, Params, Versions};
use super::{FromSender, LinkProperties, Wire, WireError, classic};
use crate::cookie::Cookie;

/// Length of the longest reply, bytes.
pub const MAX_REPLY: usize = native::ack_len(native::MAX_SACK_BLOCKS);

/// Packet sent by a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Packet<'a> {
    /// Opens a transfer.
    Syn(Open),
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
    Close,
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
pub struct Open {
    /// Format of the transfer, with the connection ID.
    pub wire: Wire,
    /// First sequence number.
    pub seq: u64,
    /// Proof of the sender's address.
    pub cookie: Option<Cookie>,
    /// The link that the receiver is asked to emulate.
    pub link: Option<LinkWanted>,
    /// ACK preferences of the sender; native format only.
    pub wishes: Option<Wishes>,
    /// Attempt number of this SYN (native); 1 in the classic format.
    pub attempt: u8,
}

/// ACK preferences of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// Largest datagram, bytes.
    pub max_datagram: usize,
    /// Longest delay of an ACK.
    pub ack_delay: Duration,
    /// Largest number of data packets per ACK.
    pub ack_every: u32,
    /// True if ACKs are to report drops in the receiver's socket.
    pub overflow: bool,
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
    /// Packet number (classic), or stream offset of the first byte (native).
    pub seq: u64,
    /// Payload; may be empty.
    pub payload: &'a [u8],
    /// Number of this transmission (native).
    pub packet_number: Option<u64>,
    /// CRC-32 of the payload, if the check of the packet computed it (native).
    pub crc: Option<u32>,
    /// The sender requests an immediate ACK.
    pub ack_now: bool,
    /// Largest number of packets per ACK that it requests. 0: as agreed in the handshake.
    pub ack_every: u16,
}

/// References for unwrapping sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Near {
    /// The next number expected.
    pub seq: u64,
    /// Number of the newest transmission that arrived.
    pub packet_number: u64,
}

impl<'a> Packet<'a> {
    /// Decodes a datagram of either format. Returns the connection ID too, if it has one.
    ///
    /// # Errors
    /// The datagram is invalid.
    pub fn decode(datagram: &'a [u8], near: Near) -> Result<(Option<u64>, Self), WireError> {
        if !native::recognize(datagram) {
            let packet = classic::decode_from_sender(datagram, near.seq)?;
            return Ok((None, Self::from(&packet)));
        }
        let packet = native::decode_from_sender(datagram, near.packet_number)?;
        let connection_id = native::connection_id(datagram).ok_or(WireError::Truncated)?;
        let packet = match packet {
            native::FromSender::Syn(syn) => Self::Syn(Open {
                wire: Wire::Native { connection_id },
                seq: 0,
                cookie: syn.cookie,
                link: syn.params.link.map(LinkWanted::Bytes),
                wishes: Some(Wishes {
                    max_datagram: usize::from(syn.params.max_datagram),
                    ack_delay: Duration::from_micros(u64::from(syn.params.ack_delay_max_us)),
                    ack_every: u32::from(syn.params.ack_every),
                    overflow: syn.params.overflow,
                }),
                attempt: syn.params.attempt,
            }),
            native::FromSender::Data(data) => Self::Data(Piece {
                seq: data.header.offset,
                payload: data.payload,
                packet_number: Some(data.header.packet_number),
                crc: Some(data.payload_crc),
                ack_now: data.header.ack_now,
                ack_every: data.header.ack_every,
            }),
            native::FromSender::Fin(fin) => {
                let seal = Some(Seal { crc: fin.crc, packet_number: fin.packet_number });
                Self::Fin { seq: fin.length, seal, understands_ack: true }
            }
            native::FromSender::Close(_) => Self::Close,
        };
        Ok((Some(connection_id), packet))
    }
}

impl Packet<'_> {
    /// Returns the transmission number of DATA and FIN packets (native), which a sender sends only
    /// after its SYN.
    pub(crate) fn transmission(&self) -> Option<u64> {
        match self {
            Self::Data(piece) => piece.packet_number,
            Self::Fin { seal, .. } => seal.map(|seal| seal.packet_number),
            Self::Syn(_) | Self::Close => None,
        }
    }
}

impl<'a> From<&FromSender<'a>> for Packet<'a> {
    fn from(packet: &FromSender<'a>) -> Self {
        match *packet {
            FromSender::Syn(syn) => Self::Syn(Open {
                wire: Wire::Classic,
                seq: u64::from(syn.seq),
                cookie: None,
                link: Some(LinkWanted::Packets(syn.link)),
                wishes: None,
                attempt: 1,
            }),
            FromSender::Data { seq, payload } => Self::Data(Piece {
                seq,
                payload,
                packet_number: None,
                crc: None,
                ack_now: false,
                ack_every: 0,
            }),
            FromSender::Fin { seq, understands_ack } => Self::Fin { seq, seal: None, understands_ack },
        }
    }
}

/// Reply without SACK blocks.
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
    classic::encode_reply(&super::FromReceiver::Ack { ack, window: packets(window) }, out);
}

/// Writes a reply in the format of its transfer and returns its length; `None` if the format has no
/// such reply. `params` is what a receiver says of itself in a SYN-ACK that can say it.
pub(crate) fn encode_answer(
    wire: Wire,
    answer: Answer,
    params: impl FnOnce() -> Params,
    out: &mut [u8; MAX_REPLY],
) -> Option<usize> {
    let len = match wire {
        Wire::Classic => {
            let reply = match answer {
                Answer::SynAck { ack, window, .. } => {
                    super::FromReceiver::SynAck { ack, window: packets(window) }
                }
                Answer::Ack { ack, window } => super::FromReceiver::Ack { ack, window: packets(window) },
                Answer::FinAck { ack, crc } => super::FromReceiver::FinAck { ack, crc },
            };
            classic::encode_reply(&reply, &mut out[..classic::REPLY_LEN]);
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

/// Writes a native ACK with ascending SACK blocks and returns its length.
pub(crate) fn encode_ack(
    connection_id: u64,
    ack: &native::Ack,
    blocks: &[native::SackBlock],
    out: &mut [u8; MAX_REPLY],
) -> usize {
    native::encode_ack(connection_id, ack, blocks, out)
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
    put_close(connection_id, &native::Close::new(reason, ""), out)
}

/// Writes the CLOSE that answers packet `packet_number` of a connection that is not known, and
/// gives its length.
pub(crate) fn encode_no_connection(
    connection_id: u64,
    packet_number: u64,
    out: &mut [u8; MAX_REPLY],
) -> usize {
    put_close(connection_id, &native::Close::to_unknown(packet_number), out)
}

fn put_close(connection_id: u64, close: &native::Close<'_>, out: &mut [u8; MAX_REPLY]) -> usize {
    let len = native::close_len(close);
    native::encode_close(connection_id, close, &mut out[..len]);
    len
}
