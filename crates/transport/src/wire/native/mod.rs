//! The native format, version 1: byte offsets, numbered transmissions, SACK blocks, a check of
//! every packet. `docs/PROTOCOL.md` has it byte by byte. Little-endian, as the classic one.
//!
//! Every field is checked once, here: nothing panics on bytes from the network, and values that
//! leave this module are within their documented ranges. Encoding expects values within them.
//!
//! | file | owns |
//! |---|---|
//! | `header.rs` | the common header, what tells the formats and versions apart |
//! | `check.rs` | the check, CRC-32 of a stream from those of its pieces |
//! | `handshake.rs`, `params.rs` | SYN, RETRY, SYN-ACK, VERSIONS; name and parameters in them |
//! | `stream.rs` | DATA, FIN |
//! | `ack.rs` | ACK, FIN-ACK |
//! | `varint.rs` | numbers of variable length |
//! | `close.rs` | CLOSE |

pub(super) mod ack;
pub(super) mod check;
pub(super) mod close;
mod handshake;
pub(super) mod header;
pub(super) mod params;
mod stream;
#[cfg(test)]
pub(super) mod tests;
mod varint;

use super::{FromReceiver, FromSender, LinkWanted, Open, PacketKind, Seal, Wire, WireError};

pub(crate) use ack::{
    Ack, FIN_ACK_LEN, FinAck, MAX_SACK_BLOCKS, ack_len, encode_ack, encode_fin_ack, most_blocks,
};
pub use ack::{SackBlock, SackBlocks};
pub use close::{Close, CloseReason};
pub(crate) use close::{close_len, encode_close};
pub use handshake::StreamName;
pub(crate) use handshake::{
    MAX_EARLY_DATA_BYTES, MIN_EARLY_DATA_BYTES, RETRY_LEN, SYN_MIN, Syn, SynAck, VERSIONS_LEN, encode_retry,
    encode_syn, encode_syn_ack, encode_versions, other_version, syn_ack_len, syn_len,
};
pub use header::connection_id;
pub(crate) use header::recognize;
pub use params::{LinkRequest, Params, Versions};
pub(crate) use stream::{DATA_HEADER, FIN_LEN, Fin, MAX_ACK_EVERY, encode_data_header, encode_fin};

/// Bytes of the largest datagram that every path carries: 576 with the headers of IPv4 and UDP (RFC
/// 1122, section 3.3.3).
pub(crate) const SMALLEST_PATH: usize = 548;

/// Decodes a packet for a receiver. Packet numbers are unwrapped around `near`: the largest
/// received in this transfer, or 0 before the first.
pub(crate) fn decode_from_sender(datagram: &[u8], near: u64) -> Result<FromSender<'_>, WireError> {
    match header::kind_of(datagram)? {
        PacketKind::Data => stream::decode_data(datagram, near).map(FromSender::Data),
        PacketKind::Syn => {
            let Syn { cookie, params, name } = handshake::decode_syn(datagram)?;
            let connection_id = connection_id(datagram).ok_or(WireError::Truncated)?;
            let (wire, link) = (Wire::Native { connection_id }, params.link.map(LinkWanted::Bytes));
            Ok(FromSender::Syn(Open { wire, seq: 0, cookie, link, params: Some(params), name }))
        }
        PacketKind::Fin => {
            let Fin { packet_number, length, crc } = stream::decode_fin(datagram, near)?;
            let seal = Some(Seal { crc, packet_number });
            Ok(FromSender::Fin { seq: length, seal, understands_ack: true })
        }
        PacketKind::Close => close::decode_close(datagram, near).map(FromSender::Close),
        _ => Err(WireError::Type),
    }
}

/// Decodes a packet for a sender. Packet numbers are unwrapped around `near`, the largest sent in
/// this transfer.
pub(crate) fn decode_from_receiver(datagram: &[u8], near: u64) -> Result<FromReceiver<'_>, WireError> {
    match header::kind_of(datagram)? {
        PacketKind::Ack => ack::decode_ack(datagram, near).map(FromReceiver::Ack),
        PacketKind::Retry => handshake::decode_retry(datagram).map(FromReceiver::Retry),
        PacketKind::SynAck => {
            let SynAck { window, params } = handshake::decode_syn_ack(datagram)?;
            Ok(FromReceiver::SynAck { ack: 0, window, params: Some(params) })
        }
        PacketKind::FinAck => {
            let FinAck { length, crc } = ack::decode_fin_ack(datagram)?;
            Ok(FromReceiver::FinAck { ack: length, crc })
        }
        PacketKind::Close => close::decode_close(datagram, near).map(FromReceiver::Close),
        PacketKind::Versions => handshake::decode_versions(datagram).map(FromReceiver::Versions),
        _ => Err(WireError::Type),
    }
}
