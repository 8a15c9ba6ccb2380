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

pub(crate) mod ack;
pub(super) mod check;
pub(crate) mod close;
pub(crate) mod handshake;
pub(super) mod header;
pub(super) mod params;
pub(crate) mod stream;
#[cfg(test)]
pub(super) mod tests;
mod varint;

use super::{FromReceiver, FromSender, WireError};

pub(crate) use ack::most_blocks;
pub use ack::{Ack, SackBlock, SackBlocks, ack_len, encode_ack};
pub(crate) use ack::{FIN_ACK_LEN, FinAck, MAX_SACK_BLOCKS, encode_fin_ack};
pub use close::{Close, CloseReason, close_len, encode_close};
pub(crate) use handshake::{
    FIRST_WINDOW, LEAST_FIRST_WINDOW, RETRY_LEN, SYN_MIN, VERSIONS_LEN, encode_retry, encode_syn,
    encode_versions, syn_len,
};
pub use handshake::{Syn, SynAck, encode_syn_ack, other_version, syn_ack_len};
pub(super) use header::kind_of;
pub use header::{connection_id, recognize};
pub use params::{LinkRequest, Params, Versions};
pub use stream::{DATA_HEADER, encode_data_header};
pub(crate) use stream::{FIN_LEN, Fin, MAX_ACK_EVERY, encode_fin};

/// Bytes of the largest datagram that every path carries: 576 with the headers of IPv4 and UDP (RFC
/// 1122, section 3.3.3).
pub(crate) const SMALLEST_PATH: usize = 548;

/// Decodes a packet for a receiver. Transmission numbers are unwrapped around `near`: the largest
/// received in this transfer, or 0 before the first.
pub fn decode_from_sender(datagram: &[u8], near: u64) -> Result<FromSender<'_>, WireError> {
    FromSender::decode_native(datagram, near)
}

/// Decodes a packet for a sender. Transmission numbers are unwrapped around `near`, the largest
/// sent in this transfer.
pub fn decode_from_receiver(datagram: &[u8], near: u64) -> Result<FromReceiver<'_>, WireError> {
    FromReceiver::decode_native(datagram, near)
}
