//! Packets, their ECN codepoint, and the times at which they pass the stages of a link.

use std::time::{Duration, Instant};

/// ECN codepoint: RFC 3168, section 5. The two ECT codepoints differ, as RFC 8311 and RFC 9331
/// require.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not support ECN.
    #[default]
    NotEct = 0b00,
    /// The sender supports ECN and asks for the marks of RFC 9331 (L4S).
    Ect1 = 0b01,
    /// The sender supports ECN.
    Ect0 = 0b10,
    /// Congestion experienced: a queue on the path marked the packet.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in the two low bits of a traffic class. The other bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two low bits of a traffic class.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns whether a congested queue may mark the packet.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet to push into a link. Bytes alone become one that is [`Ecn::NotEct`] with tag 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packet {
    /// The payload.
    pub bytes: Vec<u8>,
    /// The codepoint of the sender.
    pub ecn: Ecn,
    /// A value for the caller, returned with the packet and its copies. It can identify one of
    /// several owners that share the link.
    pub tag: u32,
}

impl Packet {
    /// Sets the codepoint.
    #[must_use]
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// Sets the tag.
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
    /// Time in service. It exceeds `end - start` if the packet arrives before the next may follow
    /// (802.11), and where instants saturate.
    pub(crate) busy: Duration,
}

/// Times of one packet in the link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// Arrival at the link.
    pub(crate) enters: Instant,
    /// Start of service.
    pub(crate) starts: Instant,
    /// Arrival of the last bit at the far end.
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
