//! Packets, and their times at the stages of a link.

use std::time::{Duration, Instant};

use rdt_datagram::Ecn;

/// A packet to push into a link. A conversion from `Vec<u8>` sets [`Ecn::NotEct`] and tag 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packet {
    /// The payload.
    pub bytes: Vec<u8>,
    /// ECN codepoint that the sender set.
    pub ecn: Ecn,
    /// Value that the link returns with the packet and its copies, to identify one of its users.
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
    fn bytes_alone_are_an_unmarked_packet() {
        let packet = Packet::from(vec![1, 2]);
        assert_eq!(packet, Packet { bytes: vec![1, 2], ecn: Ecn::NotEct, tag: 0 });
        let packet = packet.with_ecn(Ecn::Ect0).with_tag(9);
        assert_eq!(packet, Packet { bytes: vec![1, 2], ecn: Ecn::Ect0, tag: 9 });
    }
}
