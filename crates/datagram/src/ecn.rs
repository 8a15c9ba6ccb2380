//! ECN field of the IP header.

/// Codepoint of Explicit Congestion Notification (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable, or not known.
    #[default]
    NotEct = 0b00,
    /// ECT(1): like ECT(0), or a request for the low-latency service (L4S) of RFC 9331.
    Ect1 = 0b01,
    /// ECT(0): the sender reduces its rate in response to CE marks.
    Ect0 = 0b10,
    /// Congestion experienced: a router marked the packet instead of dropping it.
    Ce = 0b11,
}

impl Ecn {
    /// Decodes the two low bits of an IP traffic class, ignoring the others.
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

    /// True if a congested queue may mark the packet.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_match_rfc_3168() {
        assert_eq!([Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].map(Ecn::bits), [0, 1, 2, 3]);
        for bits in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 3);
            assert_eq!(Ecn::from_bits(bits).is_capable(), bits & 3 != 0);
        }
    }
}
