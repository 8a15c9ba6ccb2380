//! Format of a captured packet in the file: an IP packet.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rdt_emulator::{Direction, Ecn};

/// A packet that goes into a link or comes out.
#[derive(Debug, Clone, Copy)]
pub struct Carried<'a> {
    /// Which way it goes.
    pub direction: Direction,
    /// Payload type of the link.
    pub bytes: &'a [u8],
    /// Its codepoint now.
    pub ecn: Ecn,
    /// Tag of the packet; see [`rdt_emulator::Packet::tag`].
    pub tag: u32,
}

/// Makes IP packets of what a link carries.
pub trait Frame {
    /// Appends the packet to `out`. True if it left the link with [`Ecn::Ce`] and did not come so,
    /// as far as that can be known.
    fn write(&self, packet: Carried<'_>, out: &mut Vec<u8>) -> bool;
}

/// Payloads of UDP, which get the headers with which a network would have carried them. The
/// argument tells the addresses, source first, by direction and tag.
pub struct Datagrams<A>(pub A);

impl<A: Fn(Direction, u32) -> [SocketAddr; 2]> Frame for Datagrams<A> {
    fn write(&self, packet: Carried<'_>, out: &mut Vec<u8>) -> bool {
        let ends = self.0(packet.direction, packet.tag);
        let ecn = packet.ecn.bits();
        match ends.map(|end| end.ip().to_canonical()) {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let start = out.len();
                out.extend([0x45, ecn]);
                out.extend(word(IPV4_HEADER + UDP_HEADER + packet.bytes.len()));
                // Identification 0, "don't fragment", 64 hops, UDP, a checksum to come.
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

/// RFC 768.
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
    // A sum of 0 is sent as its other form: 0 means that there is none.
    let checksum = match !sum(u64::from(sum(0, &pseudo)), &out[start..]) {
        0 => u16::MAX,
        sum => sum,
    };
    out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
}

/// The sum of RFC 1071 of whatever was summed before and these bytes.
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

/// A length; longer ones than a header can tell are those of no packet.
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
