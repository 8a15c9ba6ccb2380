//! Conversion of a link's packets to IP packets, for a capture.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpEcn, Ipv4Header, Ipv6Header, UdpHeader, ip_number};
use rdt_emulator::{Direction, Ecn};

/// Packet that enters or leaves a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried<'a> {
    pub(crate) direction: Direction,
    /// Bytes that the link carries: an IP packet or a UDP payload.
    pub(crate) bytes: &'a [u8],
    pub(crate) ecn: Ecn,
    /// Tag of the packet; see [`rdt_emulator::Packet::tag`].
    pub(crate) tag: u32,
}

pub(crate) trait Frame {
    /// Appends the IP packet to `out`. Returns true if the link is known to have set [`Ecn::Ce`].
    fn write(&self, packet: Carried<'_>, out: &mut Vec<u8>) -> bool;
}

/// Frame format of a link that carries UDP payloads: adds the IP and UDP headers that a network
/// would carry. The function returns source and destination address for a direction and tag.
pub(crate) struct Datagrams<A>(pub A);

impl<A: Fn(Direction, u32) -> [SocketAddr; 2]> Frame for Datagrams<A> {
    fn write(&self, packet: Carried<'_>, out: &mut Vec<u8>) -> bool {
        let ends = self.0(packet.direction, packet.tag);
        let [source_port, destination_port] = ends.map(|end| end.port());
        // A datagram that is too long for its headers does not occur.
        let length = u16::try_from(UdpHeader::LEN + packet.bytes.len()).unwrap_or(u16::MAX);
        let mut udp = UdpHeader { source_port, destination_port, length, checksum: 0 };
        match ends.map(|end| end.ip().to_canonical()) {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let (from, to) = (from.octets(), to.octets());
                udp.checksum = udp.calc_checksum_ipv4_raw(from, to, packet.bytes).unwrap_or(0);
                let mut ip = Ipv4Header::new(length, HOPS, ip_number::UDP, from, to).unwrap_or_default();
                ip.ecn = IpEcn::try_new(packet.ecn.bits()).unwrap_or_default();
                ip.header_checksum = ip.calc_header_checksum();
                out.extend(ip.to_bytes());
            }
            ends => {
                let [source, destination] = ends.map(|end| match end {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                });
                udp.checksum = udp.calc_checksum_ipv6_raw(source, destination, packet.bytes).unwrap_or(0);
                let ip = Ipv6Header {
                    traffic_class: packet.ecn.bits(),
                    payload_length: length,
                    next_header: ip_number::UDP,
                    hop_limit: HOPS,
                    source,
                    destination,
                    ..Ipv6Header::default()
                };
                out.extend(ip.to_bytes());
            }
        }
        out.extend(udp.to_bytes());
        out.extend(packet.bytes);
        packet.ecn == Ecn::Ce
    }
}

const HOPS: u8 = 64;
