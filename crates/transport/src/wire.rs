//! Wire formats: encoding and decoding of packets. Outside this module sequence numbers are
//! unwrapped `u64`, compared with `<`.
//!
//! Each direction has its own types, so that a receiver's `match` has no arm for packets that only
//! a receiver sends.

pub(crate) mod classic;
mod codec;
mod link;
pub mod native;
mod packet;

pub use codec::Wire;
pub(crate) use codec::{Codec, Numbering};
pub use link::LinkProperties;
pub use packet::{Ack, Echo, FromReceiver, FromSender, Marks, Open, PacketKind, Piece};
pub(crate) use packet::{Answer, DataHeader};

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

/// Returns the `u64` nearest to `near` whose low 32 bits are `raw` (ties go up); `None` below 0.
pub(crate) fn unwrap_near(raw: u32, near: u64) -> Option<u64> {
    // The distance modulo 2^32, read as a signed number, is in -2^31 ..= 2^31 - 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "arithmetic modulo 2^32")]
    let distance = raw.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(distance))
}

/// Returns the low 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "the wire carries the number modulo 2^32")]
fn wrap(seq: u64) -> u32 {
    seq as u32
}

#[cfg(test)]
mod tests;
