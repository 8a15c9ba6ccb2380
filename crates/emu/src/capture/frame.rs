//! Conversion of a link's packets to IP packets, for a capture.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

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
        let ecn = packet.ecn.bits();
        match ends.map(|end| end.ip().to_canonical()) {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let start = out.len();
                out.extend([0x45, ecn]);
                out.extend(word(IPV4_HEADER + UDP_HEADER + packet.bytes.len()));
                // Identification 0, DF, TTL 64, UDP; the checksum follows below.
                out.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
                out.extend(from.octets());
                out.extend(to.octets());
                let checksum = !sum(0, &out[start..]);
                out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            ends => {
                let [from, to] = ends.map(as_v6);
                out.extend([0x60, ecn << 4, 0, 0]);
                out.extend(word(UDP_HEADER + packet.bytes.len()));
                out.extend([UDP, HOPS]);
                out.extend(from.octets());
                out.extend(to.octets());
            }
        }
        udp(ends, packet.bytes, out);
        packet.ecn == Ecn::Ce
    }
}

/// Appends a UDP header (RFC 768) and the payload.
fn udp(ends: [SocketAddr; 2], payload: &[u8], out: &mut Vec<u8>) {
    let len = word(UDP_HEADER + payload.len());
    let mut pseudo = Vec::with_capacity(40);
    for end in ends {
        match end.ip().to_canonical() {
            IpAddr::V4(address) => pseudo.extend(address.octets()),
            IpAddr::V6(address) => pseudo.extend(address.octets()),
        }
    }
    pseudo.extend([0, UDP]);
    pseudo.extend(len);
    let start = out.len();
    for end in ends {
        out.extend(end.port().to_be_bytes());
    }
    out.extend(len);
    out.extend([0, 0]);
    out.extend(payload);
    // RFC 768 replaces a computed 0 by 0xffff, because 0 means that there is no checksum.
    let checksum = match !sum(u64::from(sum(0, &pseudo)), &out[start..]) {
        0 => u16::MAX,
        sum => sum,
    };
    out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns the one's complement sum (RFC 1071) of `before` and `bytes`.
fn sum(before: u64, bytes: &[u8]) -> u16 {
    let pairs =
        bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let mut total = before + pairs.sum::<u64>();
    loop {
        let Ok(sum) = u16::try_from(total) else {
            total = (total & 0xffff) + (total >> 16);
            continue;
        };
        return sum;
    }
}

/// Converts a length to a 16-bit header field. Longer packets do not occur.
fn word(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;
const HOPS: u8 = 64;
