//! Conversion of a link's packets to IP packets, for a capture.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpEcn, IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, ip_number,
};
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
        let ip = match ends.map(|end| end.ip().to_canonical()) {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let ip = Ipv4Header::new(0, HOPS, ip_number::UDP, from.octets(), to.octets());
                let ecn = IpEcn::try_new(packet.ecn.bits()).unwrap_or_default();
                IpHeaders::Ipv4(Ipv4Header { ecn, ..ip.unwrap_or_default() }, Ipv4Extensions::default())
            }
            ends => {
                let [source, destination] = ends.map(|end| match end {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                });
                let traffic_class = packet.ecn.bits();
                let ip = Ipv6Header {
                    traffic_class,
                    hop_limit: HOPS,
                    source,
                    destination,
                    ..Ipv6Header::default()
                };
                IpHeaders::Ipv6(ip, Ipv6Extensions::default())
            }
        };
        let [from, to] = ends.map(|end| end.port());
        // Fails for a datagram that is too long for its headers, which does not occur.
        let _ = PacketBuilder::ip(ip).udp(from, to).write(out, packet.bytes);
        packet.ecn == Ecn::Ce
    }
}

const HOPS: u8 = 64;
