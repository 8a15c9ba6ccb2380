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
//! | `handshake.rs`, `params.rs` | SYN, RETRY, SYN-ACK, VERSIONS and the parameters in them |
//! | `stream.rs` | DATA, FIN |
//! | `ack.rs` | ACK, FIN-ACK |
//! | `varint.rs` | numbers of variable length |
//! | `close.rs` | CLOSE |

mod ack;
mod check;
mod close;
mod handshake;
mod header;
mod params;
mod stream;
#[cfg(test)]
mod tests;
mod varint;

use super::WireError;
use crate::cookie::Cookie;
use header::kind;

pub(crate) use ack::most_blocks;
pub use ack::{Ack, FinAck, SackBlock, SackBlocks, ack_len, encode_ack};
pub(crate) use ack::{FIN_ACK_LEN, MAX_SACK_BLOCKS, encode_fin_ack};
pub use close::{Close, CloseReason, close_len, encode_close};
pub(crate) use handshake::{
    FIRST_WINDOW, LEAST_FIRST_WINDOW, RETRY_LEN, SYN_MIN, VERSIONS_LEN, encode_retry, encode_syn,
    encode_versions, syn_len,
};
pub use handshake::{Syn, SynAck, encode_syn_ack, other_version, syn_ack_len};
pub use header::{connection_id, recognize};
pub use params::{LinkRequest, Params, Versions};
pub use stream::{DATA_HEADER, Data, DataHeader, Fin, encode_data_header};
pub(crate) use stream::{FIN_LEN, MAX_ACK_EVERY, encode_fin};

/// Bytes of the largest datagram that every path carries: 576 with the headers of IPv4 and UDP (RFC
/// 1122, section 3.3.3).
pub(crate) const SMALLEST_PATH: usize = 548;

/// A packet that a sender sends. Its connection is what [`connection_id`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromSender<'a> {
    /// Opens a transfer.
    Syn(Syn),
    /// A piece of the stream.
    Data(Data<'a>),
    /// Ends the stream.
    Fin(Fin),
    /// Ends the transfer before its time.
    Close(Close<'a>),
}

/// A packet that a receiver sends. Its connection is what [`connection_id`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromReceiver<'a> {
    /// Asks for the SYN again, with this cookie.
    Retry(Cookie),
    /// Answers a SYN.
    SynAck(SynAck),
    /// Says what is here.
    Ack {
        /// All fields but the SACK blocks.
        ack: Ack,
        /// Blocks received beyond holes.
        sack: SackBlocks<'a>,
    },
    /// Answers a FIN.
    FinAck(FinAck),
    /// Ends the transfer before its time, or refuses it.
    Close(Close<'a>),
    /// Answers a SYN of a version that the receiver does not speak: those that it does.
    Versions(Versions),
}

/// Reads a packet on its way to a receiver. Transmissions get the number nearest to `near`, the
/// largest received in this transfer, or 0 where there is none yet.
pub fn decode_from_sender(datagram: &[u8], near: u64) -> Result<FromSender<'_>, WireError> {
    match header::kind_of(datagram)? {
        kind::DATA => stream::decode_data(datagram, near).map(FromSender::Data),
        kind::SYN => handshake::decode_syn(datagram).map(FromSender::Syn),
        kind::FIN => stream::decode_fin(datagram, near).map(FromSender::Fin),
        kind::CLOSE => close::decode_close(datagram, near).map(FromSender::Close),
        _ => Err(WireError::Type),
    }
}

/// Reads a packet on its way to a sender. Transmissions get the number nearest to `near`, the
/// largest sent in this transfer.
pub fn decode_from_receiver(datagram: &[u8], near: u64) -> Result<FromReceiver<'_>, WireError> {
    match header::kind_of(datagram)? {
        kind::ACK => ack::decode_ack(datagram, near).map(|(ack, sack)| FromReceiver::Ack { ack, sack }),
        kind::RETRY => handshake::decode_retry(datagram).map(FromReceiver::Retry),
        kind::SYN_ACK => handshake::decode_syn_ack(datagram).map(FromReceiver::SynAck),
        kind::FIN_ACK => ack::decode_fin_ack(datagram).map(FromReceiver::FinAck),
        kind::CLOSE => close::decode_close(datagram, near).map(FromReceiver::Close),
        kind::VERSIONS => handshake::decode_versions(datagram).map(FromReceiver::Versions),
        _ => Err(WireError::Type),
    }
}
