//! The native format: sealed packets and their handshake. `docs/PROTOCOL.md` has it byte by byte.
//! Little-endian, as the classic one.
//!
//! A sealed packet is written with its body in clear and room for the tag, and is sealed in place
//! afterwards; a received one is opened in place before its body is decoded. Every field is checked
//! once, here: nothing panics on bytes from the network, and values that leave this module are
//! within their documented ranges. Encoding expects values within them.
//!
//! | file | owns |
//! |---|---|
//! | `codec.rs` | sealing of what a stream sends |
//! | `header.rs` | the common header, what tells formats, versions and packets apart |
//! | `stream.rs` | DATA and FIN, with or without an ACK in them |
//! | `run.rs` | DATA packets that lie one after another |
//! | `ack.rs`, `varint.rs` | body of an ACK; numbers of variable length in it |
//! | `control.rs`, `close_reason.rs` | OPEN-ACK, ACK, FIN-ACK, CLOSE, PATH; reasons of a CLOSE |
//! | `handshake.rs`, `check.rs` | packets that are not sealed; their check |
//! | `payload.rs`, `params.rs` | payloads of Noise messages, their parameters |
//! | `name.rs`, `service.rs` | names in them: of a stream, of an application protocol |

mod ack;
mod check;
mod close_reason;
mod codec;
mod control;
mod handshake;
mod header;
mod name;
mod params;
mod payload;
mod run;
mod service;
mod stream;
#[cfg(test)]
mod tests;
mod varint;

use rdt_crypto::ResetToken;

use super::{PacketKind, Piece, WireError};

#[cfg(test)]
pub(crate) use ack::take_ack;
pub(crate) use ack::{Ack, FITTING_BLOCKS, ack_body_len, encode_ack_body};
pub use ack::{SackBlock, SackBlocks};
pub use close_reason::CloseReason;
pub(crate) use codec::{NativeCodec, payload_of};
pub(crate) use control::{
    Close, ControlHeader, FIN_ACK_LEN, OPEN_ACK_LEN, PATH_LEN, Probe, ack_len, close_len, encode_ack,
    encode_close, encode_fin_ack, encode_open_ack, encode_path,
};
pub(crate) use handshake::{
    ANY_SYN, Clear, Open, Proof, REFUSE_LEN, RESET_LEN, RETRY_LEN, SYN_MIN, Syn, VERSIONS_LEN, encode_auth,
    encode_open, encode_refuse, encode_reset, encode_retry, encode_syn, encode_syn_ack, encode_versions,
    other_version, prologue, seal_hello, syn_ack_len, syn_len,
};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use header::HEADER;
pub use header::recognize;
pub(crate) use header::{Header, PHASES, TAG, connection_id, peek};
pub use name::StreamName;
pub(crate) use params::Params;
pub use params::{LinkRequest, Versions};
pub(crate) use payload::{Hello, Instead, Reply, Welcome};
pub(crate) use run::{DataRun, RunFields};
pub use service::Service;
pub(crate) use stream::{DATA_HEADER, FIN_LEN, MAX_ACK_EVERY};
#[cfg(test)]
pub(crate) use stream::{encode_data_header, encode_fin_header};

/// Version of this module.
pub(crate) const VERSION: u8 = 2;

/// Largest datagram that every path carries: 576 bytes with IPv4 and UDP (RFC 1122, section 3.3.3).
pub(crate) const SMALLEST_PATH: usize = 548;

/// Body of a sealed packet, after opening.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Body<'a> {
    /// A piece of the stream.
    Data {
        /// The piece; empty as a request for an ACK.
        piece: Piece<'a>,
        /// ACK of the other direction's stream.
        ack: Option<super::Ack<'a>>,
    },
    /// Acknowledges data.
    Ack(super::Ack<'a>),
    /// Ends the stream.
    Fin {
        /// Length of the stream, bytes.
        length: u64,
        /// ACK of the other direction's stream.
        ack: Option<super::Ack<'a>>,
    },
    /// All data has arrived, and the application has confirmed it.
    FinAck {
        /// Length of the stream, bytes.
        length: u64,
    },
    /// Ends the connection.
    Close(Close<'a>),
    /// Probes the path, or answers a probe.
    Path(Probe),
    /// Answers an OPEN, with the token of the responder's RESETs.
    OpenAck(ResetToken),
}

impl<'a> Body<'a> {
    /// Decodes the opened `body` of a packet with this header and the unwrapped number
    /// `packet_number`. Numbers in an ACK are unwrapped around `near`, the largest data number that
    /// this side sent.
    ///
    /// # Errors
    /// The body breaks a rule of the format. Its author has the key, so the connection ends.
    pub(crate) fn decode(
        header: &Header,
        packet_number: u64,
        body: &'a [u8],
        near: u64,
    ) -> Result<Self, WireError> {
        match header.kind {
            PacketKind::Data => stream::decode_data(header, packet_number, body, near),
            PacketKind::Fin => stream::decode_fin(header, body, near),
            _ if header.has_flags() => Err(WireError::Reserved),
            PacketKind::Ack => control::decode_ack(body, near).map(Self::Ack),
            PacketKind::FinAck => control::decode_fin_ack(body).map(|length| Self::FinAck { length }),
            PacketKind::Close => control::decode_close(body).map(Self::Close),
            PacketKind::Path => control::decode_path(body).map(Self::Path),
            PacketKind::OpenAck => control::decode_open_ack(body).map(Self::OpenAck),
            _ => Err(WireError::Type),
        }
    }
}
