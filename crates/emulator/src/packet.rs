//! What a link carries: bytes, a codepoint that it may change, and a word that it may not.
//!
//! It knows nothing of what the bytes mean or of what becomes of them.

use std::time::{Duration, Instant};

/// The codepoint of Explicit Congestion Notification: RFC 3168, section 5, with the two ECT
/// codepoints told apart as RFC 8311 and RFC 9331 want it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not understand marks.
    #[default]
    NotEct = 0b00,
    /// The sender understands marks and asks for those of RFC 9331 (L4S).
    Ect1 = 0b01,
    /// The sender understands marks.
    Ect0 = 0b10,
    /// Congestion was experienced on the way.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in the two low bits of a traffic class; the others are ignored.
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

    /// Whether a congested queue may mark the packet.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet on its way into a link. Bytes alone become one that is [`Ecn::NotEct`] with tag 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packet {
    /// The payload.
    pub bytes: Vec<u8>,
    /// The codepoint with which it is sent.
    pub ecn: Ecn,
    /// A word of the caller's own, which comes out with the packet and every copy of it: whose the
    /// packet is, say, if several share the link.
    pub tag: u32,
}

impl Packet {
    /// The same packet with another codepoint.
    #[must_use]
    pub fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// The same packet with another tag.
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

/// One packet's time at the serialiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// The time in service. It exceeds `end - start` where the packet is out before the next may follow, as
    /// on the air, and where instants saturate.
    pub(crate) busy: Duration,
}

/// The moments of one packet's passage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// It arrives at the link.
    pub(crate) enters: Instant,
    /// The serialiser begins with it.
    pub(crate) starts: Instant,
    /// Its last bit arrives at the far end.
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
