//! Wire formats: encoding and decoding of packets. Outside this module sequence numbers are
//! unwrapped `u64`, compared with `<`.
//!
//! Each direction has its own types, so that a receiver's `match` has no arm for packets that only
//! a receiver sends.

mod classic;
mod codec;
mod link;
pub mod native;
mod packet;
mod seq;

pub use classic::{
    DATA_HEADER, FIN_LEN, REPLY_LEN, SYN_LEN, decode_from_receiver, decode_from_sender, encode_data_header,
    encode_fin, encode_reply, encode_syn,
};
pub(crate) use codec::{Ack, Codec, DataHead, Echo, Marks, Reply};
pub use codec::{Numbering, Wire};
pub use link::LinkProperties;
pub(crate) use packet::{
    Answer, encode_ack, encode_answer, encode_close, encode_no_connection, encode_plain_ack, encode_retry,
    encode_versions,
};
pub use packet::{LinkWanted, MAX_REPLY, Near, Open, Packet, Piece, Seal, Wishes};

/// A packet that a sender sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FromSender<'a> {
    /// Starts or restarts a transfer.
    Syn(Syn),
    /// One packet of the stream.
    Data {
        /// Packet number.
        seq: u64,
        /// Payload; may be empty.
        payload: &'a [u8],
    },
    /// Ends the transfer.
    Fin {
        /// One past the number of the last data packet.
        seq: u64,
        /// True if the sender accepts an ACK, not only a FIN-ACK, as an answer while the receiver
        /// stores.
        understands_ack: bool,
    },
}

/// Opens a transfer and requests an emulated link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Syn {
    /// Number of the first data packet.
    pub seq: u32,
    /// Link that the receiver is to emulate.
    pub link: LinkProperties,
}

/// A packet that a receiver sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromReceiver {
    /// Answers a SYN.
    SynAck {
        /// Number of the first packet expected.
        ack: u64,
        /// Window, in packets.
        window: u32,
    },
    /// Acknowledges everything below `ack`.
    Ack {
        /// Number of the next packet expected.
        ack: u64,
        /// Window, in packets.
        window: u32,
    },
    /// Answers a FIN.
    FinAck {
        /// The FIN's number.
        ack: u64,
        /// CRC-32 of the stream; 0 if the receiver computes none.
        crc: u32,
    },
}

/// Reason why a datagram is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Shorter than its header.
    #[error("truncated")]
    Truncated,
    /// A packet of fixed size with another size.
    #[error("wrong length")]
    Length,
    /// Bits 8 to 31 of the flags are not the protocol's.
    #[error("wrong magic")]
    Magic,
    /// One of bits 0 to 4 is set.
    #[error("reserved bits set")]
    Reserved,
    /// A combination of flags that this direction does not have.
    #[error("wrong flags")]
    Flags,
    /// A SYN whose link properties are out of range or not numbers.
    #[error("bad link properties")]
    Link,
    /// A sequence number that is below zero once unwrapped, or an offset beyond 2^64.
    #[error("sequence number out of range")]
    Sequence,
    /// Native format, but another version.
    #[error("another version")]
    Version,
    /// A type that this direction does not have.
    #[error("wrong type")]
    Type,
    /// Another connection ID.
    #[error("another connection")]
    Connection,
    /// The check does not match the bytes.
    #[error("wrong check")]
    Check,
    /// A parameter that is repeated, cut, or out of range.
    #[error("bad parameters")]
    Params,
    /// A number of variable length that is too large, or longer than it needs to be.
    #[error("bad number of variable length")]
    Varint,
    /// A window that ends beyond offset 2^64 - 1.
    #[error("window out of range")]
    Window,
    /// More SACK blocks than are allowed, an empty one, or one that does not lie beyond a hole.
    #[error("bad SACK blocks")]
    Sack,
    /// The reason of a CLOSE is not UTF-8.
    #[error("text is not UTF-8")]
    Text,
}
