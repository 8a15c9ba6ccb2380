//! Internal part of rdt: batches of datagrams, the interface between protocol state machines and
//! sockets.
//!
//! The crate has no protocol, no clock and no system call, so that the state machines in
//! `rdt-transport`, the sockets in `rdt-udp` and the network in `rdt-sim` do not depend on each
//! other.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | I/O | `lib.rs` | trait of a socket or a simulated network: batches in, batches out |
//! | source | `lib.rs` | number of the host that limits count an address towards |
//! | jitter | `lib.rs` | of datagrams that carry their time of sending, for measurements |
//! | batch | `transmit_buf.rs` | datagrams to one peer, laid out for segmentation offload |
//! | frame | `frame.rs` | memory of unacknowledged packets, for zero-copy sending |
#![forbid(unsafe_code)]

mod frame;
mod transmit_buf;

pub use frame::{FileOffset, Frame, FrameSource, Reuse};
pub use transmit_buf::{MAX_DATAGRAM, TransmitBuf};

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Batched datagram I/O, which a socket or a simulated network implements.
pub trait DatagramIo {
    /// Address of a remote endpoint; `()` if there is only one.
    type Peer: Copy;

    /// Returns the next received batch, or `None` if nothing is readable now.
    fn recv(&mut self) -> Option<Received<'_, Self::Peer>>;

    /// Returns a peer for which ICMP port-unreachable errors arrived, and their number since the
    /// last call for this peer. Call until it returns `None`.
    fn take_refused(&mut self) -> Option<(Self::Peer, u64)> {
        None
    }

    /// Returns the number of messages dropped at a full receive buffer since the last call.
    /// Includes only drops that the messages read so far report (`SO_RXQ_OVFL`).
    fn take_overflow(&mut self) -> u64 {
        0
    }

    /// Returns an empty batch, after sending the rest of an earlier one, which the protocol counts
    /// as transmitted. `None` while the full send buffer prevents that.
    fn transmit_buf(&mut self) -> Option<&mut TransmitBuf>;

    /// Sends the batch of the last [`DatagramIo::transmit_buf`] to `peer`. If the send buffer is
    /// full, a later call of `transmit_buf` sends the rest.
    fn flush(&mut self, peer: Self::Peer);

    /// Called at the end of each turn. Releases the memory of a sent batch to other sockets.
    fn leave(&mut self) {}

    /// Returns the current time; in virtual time, `now`. Called after input was processed, so that
    /// packets sent next get their true send time.
    fn present(&self, now: Instant) -> Instant {
        now
    }
}

/// Datagrams from one peer with one ECN codepoint, as receive offload (GRO) coalesces them.
#[derive(Debug)]
pub struct Received<'a, P> {
    /// Peer that sent the datagrams.
    pub peer: P,
    /// Concatenated payloads of the datagrams. The reader may overwrite them.
    pub bytes: &'a mut [u8],
    /// Payload bytes of each datagram; the last may be shorter. 0 for a single empty datagram.
    pub stride: usize,
    /// ECN codepoint of all datagrams; [`Ecn::NotEct`] if the system does not report it.
    pub ecn: Ecn,
    /// Arrival time, from the kernel's timestamp if there is one. Never in the future.
    pub at: Instant,
}

impl<'a, P> Received<'a, P> {
    /// Returns the datagrams with another form of their peer's address.
    pub fn with_peer<Q>(self, convert: impl FnOnce(P) -> Q) -> Received<'a, Q> {
        let Self { peer, bytes, stride, ecn, at } = self;
        Received { peer: convert(peer), bytes, stride, ecn, at }
    }
}

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

/// Interarrival jitter (RFC 3550, section 6.4.1) of datagrams that carry the time at which they
/// were sent: smoothed change of the transit time. The clocks of both ends need no common zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Jitter {
    seconds: f64,
    transit: Option<Duration>,
}

impl Jitter {
    /// Adds a datagram whose transit time, with any constant offset, was `transit`.
    pub fn add(&mut self, transit: Duration) {
        if let Some(before) = self.transit.replace(transit) {
            self.seconds += (transit.abs_diff(before).as_secs_f64() - self.seconds) / 16.0;
        }
    }

    /// Returns the jitter, seconds; 0 before the second datagram.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Returns the number of the source that limits count an address towards: an IPv4 address, or the
/// first 56 bits of an IPv6 address, whose customer chooses the other ones (RFC 6177).
pub fn source_number(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 72) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports and interfaces do not count.
    #[test]
    fn source_is_ipv4_address_or_ipv6_network() {
        let source = |text: &str| source_number(text.parse().unwrap());
        assert_eq!(source("192.0.2.1"), 0xc000_0201);
        assert_eq!(source("::ffff:192.0.2.1"), 0xc000_0201);
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), 0x0020_010d_b800_0100);
        assert_eq!(source("2001:db8:1:ff::1"), source("2001:db8:1::2"));
        assert_ne!(source("2001:db8:1:100::1"), source("2001:db8:1::1"));
    }

    #[test]
    fn codepoints_match_rfc_3168() {
        assert_eq!([Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].map(Ecn::bits), [0, 1, 2, 3]);
        for bits in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 3);
            assert_eq!(Ecn::from_bits(bits).is_capable(), bits & 3 != 0);
        }
    }

    #[test]
    fn jitter_smooths_changes_of_transit() {
        let mut jitter = Jitter::default();
        for ms in [10, 10, 26, 47] {
            jitter.add(Duration::from_millis(ms));
        }
        assert!((jitter.seconds() * 1e3 - (1.0 + (21.0 - 1.0) / 16.0)).abs() < 1e-9, "{jitter:?}");
    }
}
