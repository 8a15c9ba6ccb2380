//! Packets, their ECN codepoints, and their times at the stages of a link.

use std::time::{Duration, Instant};

/// ECN codepoint: RFC 3168, section 5; ECT(0) and ECT(1) are distinct (RFC 8311, RFC 9331).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not support ECN.
    #[default]
    NotEct = 0b00,
    /// The sender supports ECN and requests the marking of RFC 9331 (L4S).
    Ect1 = 0b01,
    /// The sender supports ECN.
    Ect0 = 0b10,
    /// Congestion experienced: a queue on the path marked the packet.
    Ce = 0b11,
}

impl Ecn {
    /// Returns the codepoint in the two low bits of an IP traffic class, ignoring the others.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the codepoint as the two low bits of an IP traffic class.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns whether a queue may mark a packet with this codepoint CE.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet to push into a link. A conversion from `Vec<u8>` sets [`Ecn::NotEct`] and tag 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packet {
    /// The payload.
    pub bytes: Vec<u8>,
    /// ECN codepoint that the sender set.
    pub ecn: Ecn,
    /// Value that the link returns with the packet and its copies. It can identify one of several
    /// callers that use the same link.
    pub tag: u32,
}

impl Packet {
    /// Sets the ECN codepoint.
    #[must_use]
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// Sets the tag, which the link returns with the packet.
    #[must_use]
    pub fn with_tag(self, tag: u32) -> Self {
        Self { tag, ..self }
    }
}

impl From<Vec<u8>> for Packet {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, ecn: Ecn::NotEct, tag: 0 }
    }
}

/// Times of one packet at the serialiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// Time for which the packet occupies the serialiser. It exceeds `end - start` on 802.11, where
    /// ACK and back-off follow, and if the instants saturate.
    pub(crate) busy: Duration,
}

/// Times of one packet in the link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// Time at which the packet arrives at the link.
    pub(crate) enters: Instant,
    /// Time at which its serialisation starts.
    pub(crate) starts: Instant,
    /// Time at which its last bit arrives at the far end.
    pub(crate) due: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_those_of_rfc_3168() {
        let bits = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].map(Ecn::bits);
        assert_eq!(bits, [0, 1, 2, 3]);
        for bits in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 3);
        }
        assert!(!Ecn::NotEct.is_capable());
        assert!([Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().all(Ecn::is_capable));
    }

    #[test]
    fn bytes_alone_are_an_unmarked_packet() {
        let packet = Packet::from(vec![1, 2]);
        assert_eq!(packet, Packet { bytes: vec![1, 2], ecn: Ecn::NotEct, tag: 0 });
        let packet = packet.with_ecn(Ecn::Ect0).with_tag(9);
        assert_eq!(packet, Packet { bytes: vec![1, 2], ecn: Ecn::Ect0, tag: 9 });
    }
}
