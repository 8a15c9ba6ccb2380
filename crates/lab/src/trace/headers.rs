//! Headers below IP, and those of tunnels: for each the header that follows, and where.

use std::fmt;

use etherparse::{EtherType, IpNumber};

use super::links;

/// First value of an Ethernet type field that is a type. Smaller ones are lengths (IEEE 802.3).
const FIRST_TYPE: u16 = 0x0600;
/// Length of an MPLS label, bytes.
const LABEL: usize = 4;

/// A header, or what a packet has instead of one that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Header {
    /// First header of a packet with this link type.
    Link(i32),
    /// Destination, source and type of Ethernet.
    Ethernet,
    /// Header that an Ethernet type names.
    Type(u16),
    /// IEEE 802.2, with SNAP.
    Llc,
    /// Header that a service access point of IEEE 802.2 names.
    Sap(u8),
    /// PPP with or without the address and control bytes of HDLC.
    Ppp,
    /// Header that a protocol number of PPP names.
    PppProtocol(u16),
    /// MPLS labels.
    Mpls,
    /// IPv4 or IPv6.
    Ip,
    /// Header that a protocol number of IP names.
    Protocol(u8),
    /// IEEE 802.11.
    Wifi,
    /// A header by its name.
    Named(&'static str),
}

/// Next header and the length of the one before it. `None` if it cannot be read.
pub(super) type Step = Option<(Header, usize)>;

/// Returns a big-endian number of 16 bits.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

/// Returns the step to the header that the Ethernet type at an offset names.
pub(super) fn typed(bytes: &[u8], at: usize, length: usize) -> Step {
    let kind = number(bytes, at)?;
    Some((if kind < FIRST_TYPE { Header::Llc } else { Header::Type(kind) }, length))
}

impl Header {
    /// True if other packets may follow this header.
    pub(super) fn is_tunnel(self) -> bool {
        matches!(self, Self::Protocol(4 | 17 | 41 | 47 | 97 | 137 | 143))
    }

    /// Returns the header after this one. Below a header of IP or TCP there is none.
    pub(super) fn step(self, bytes: &[u8]) -> Step {
        match self {
            Self::Link(link) => links::step(link, bytes),
            Self::Ethernet => typed(bytes, 12, 14),
            Self::Type(kind) => ether_type(kind, bytes),
            Self::Llc => llc(bytes),
            Self::Ppp => ppp(bytes),
            Self::Mpls => mpls(bytes),
            Self::Protocol(protocol) => ip_protocol(protocol, bytes),
            Self::Wifi => links::wifi(bytes),
            Self::Sap(_) | Self::PppProtocol(_) | Self::Ip | Self::Named(_) => None,
        }
    }
}

fn ether_type(kind: u16, bytes: &[u8]) -> Step {
    match kind {
        0x0800 | 0x86DD => Some((Header::Ip, 0)),
        // VLAN tags: IEEE 802.1Q, 802.1ad, and older types of QinQ.
        0x8100 | 0x88A8 | 0x9100 | 0x9200 | 0x9300 => typed(bytes, 2, 4),
        0x8847 | 0x8848 => Some((Header::Mpls, 0)),
        // PPPoE sessions (RFC 2516), PPP in GRE.
        0x8864 => Some((Header::Ppp, 6)),
        0x880B => Some((Header::Ppp, 0)),
        // Transparent Ethernet bridging, and IEEE 802.1ah after its tag.
        0x6558 => Some((Header::Ethernet, 0)),
        0x88E7 => Some((Header::Ethernet, 4)),
        0x8870 => Some((Header::Llc, 0)),
        // Cisco's FabricPath, VN-Tag and metadata; HSR.
        0x8903 => Some((Header::Ethernet, 2)),
        0x8926 | 0x892F => typed(bytes, 4, 6),
        0x8909 => typed(bytes, 6, 8),
        // MACsec, unless it is encrypted (IEEE 802.1AE, section 9).
        0x88E5 if bytes.first()? & 0x0C == 0 => {
            let length = if bytes.first()? & 0x20 == 0 { 6 } else { 14 };
            typed(bytes, length, length + 2)
        }
        0x894F => service_header(bytes),
        // ERSPAN type III, with or without its platform header.
        0x22EB => Some((Header::Ethernet, if bytes.get(11)? & 1 == 0 { 12 } else { 20 })),
        _ => None,
    }
}

/// Network service header (RFC 8300).
fn service_header(bytes: &[u8]) -> Step {
    let length = usize::from(bytes.get(1)? & 0x3F) * 4;
    Some((next_protocol(*bytes.get(3)?)?, length))
}

/// Returns the header that a protocol number of the network service header or of VXLAN-GPE names.
fn next_protocol(number: u8) -> Option<Header> {
    match number {
        1 | 2 => Some(Header::Ip),
        3 => Some(Header::Ethernet),
        4 => Some(Header::Type(0x894F)),
        5 => Some(Header::Mpls),
        _ => None,
    }
}

fn llc(bytes: &[u8]) -> Step {
    match bytes {
        // SNAP (RFC 1042): an organisation, then an Ethernet type.
        [0xAA, 0xAA, 3, 0, 0, 0 | 0xF8, ..] => typed(bytes, 6, 8),
        // Bridged Ethernet with padding (RFC 2684).
        [0xAA, 0xAA, 3, 0, 0x80, 0xC2, 0, 1 | 7, ..] => Some((Header::Ethernet, 10)),
        [0xAA, 0xAA, 3, ..] => Some((Header::Named("SNAP of another organisation"), 8)),
        [6, 6, 3, ..] => Some((Header::Ip, 3)),
        // NLPID of IP (RFC 2684).
        [0xFE, 0xFE, 3, 0xCC, ..] => Some((Header::Ip, 4)),
        [sap, ..] => Some((Header::Sap(*sap), 3)),
        [] => None,
    }
}

/// Reads PPP (RFC 1661), whose address, control and leading zero may be left out.
fn ppp(bytes: &[u8]) -> Step {
    let begin = if bytes.starts_with(&[0xFF, 3]) { 2 } else { 0 };
    let first = *bytes.get(begin)?;
    let (protocol, length) = if first & 1 == 1 { (u16::from(first), 1) } else { (number(bytes, begin)?, 2) };
    let next = match protocol {
        0x21 | 0x57 => Header::Ip,
        0x281 | 0x283 => Header::Mpls,
        // Multilink: only packets in one piece (RFC 1990).
        0x3D if bytes.get(begin + length)? & 0xC0 == 0xC0 => {
            return Some((Header::Ppp, begin + length + 4));
        }
        _ => Header::PppProtocol(protocol),
    };
    Some((next, begin + length))
}

/// Skips labels up to the bottom of the stack. The first half-byte tells IP, a control word before
/// Ethernet (RFC 4385), and Ethernet apart.
fn mpls(bytes: &[u8]) -> Step {
    let labels = bytes.chunks_exact(LABEL).position(|label| label[2] & 1 == 1)?;
    let length = (labels + 1) * LABEL;
    Some(match bytes.get(length)? >> 4 {
        4 | 6 => (Header::Ip, length),
        0 if ethernet_follows(bytes, length + LABEL) => (Header::Ethernet, length + LABEL),
        _ => (Header::Ethernet, length),
    })
}

/// True if the type field of an Ethernet header at an offset has a type of IP, VLAN or ARP.
fn ethernet_follows(bytes: &[u8], at: usize) -> bool {
    matches!(number(bytes, at + 12), Some(0x0800 | 0x86DD | 0x8100 | 0x88A8 | 0x0806))
}

fn ip_protocol(protocol: u8, bytes: &[u8]) -> Step {
    match protocol {
        // IP in IP (RFC 2003), IPv6 in IP (RFC 4213).
        4 | 41 => Some((Header::Ip, 0)),
        17 => udp(bytes),
        47 => gre(bytes),
        // EtherIP (RFC 3378), Ethernet (RFC 8986), MPLS in IP (RFC 4023).
        97 => Some((Header::Ethernet, 2)),
        143 => Some((Header::Ethernet, 0)),
        137 => Some((Header::Mpls, 0)),
        _ => None,
    }
}

/// Reads GRE (RFC 2784, RFC 2890), and that of PPTP (RFC 2637).
fn gre(bytes: &[u8]) -> Step {
    let (flags, kind) = (number(bytes, 0)?, number(bytes, 2)?);
    // Checksum or routing, key, sequence number; acknowledgement number of PPTP.
    let fields = [0xC000, 0x2000, 0x1000, if flags & 7 == 1 { 0x80 } else { 0 }];
    let length = 4 + 4 * fields.iter().filter(|field| flags & **field != 0).count();
    match kind {
        // ERSPAN: type I has no header, and no sequence number.
        0x88BE if flags & 0x1000 == 0 => Some((Header::Ethernet, length)),
        0x88BE => Some((Header::Ethernet, length + 8)),
        // WCCP has a header of its own if IP does not follow.
        0x883E if bytes.get(length)? >> 4 == 4 => Some((Header::Ip, length)),
        0x883E => Some((Header::Ip, length + 4)),
        _ => Some((Header::Type(kind), length)),
    }
}

/// Reads UDP, and the header of the tunnel that a port names.
fn udp(bytes: &[u8]) -> Step {
    const LENGTH: usize = 8;
    let ports = [number(bytes, 2)?, number(bytes, 0)?];
    let payload = bytes.get(LENGTH..)?;
    let (next, length) = ports.into_iter().find_map(|port| tunnel(port, payload))?;
    Some((next, LENGTH + length))
}

fn tunnel(port: u16, bytes: &[u8]) -> Step {
    match port {
        // VXLAN (RFC 7348), also on Linux's older port.
        4789 | 8472 if bytes.first()? & 8 != 0 => Some((Header::Ethernet, 8)),
        4790 if bytes.first()? & 4 != 0 => Some((next_protocol(*bytes.get(3)?)?, 8)),
        4790 => Some((Header::Ethernet, 8)),
        // GENEVE (RFC 8926).
        6081 => typed(bytes, 2, 8 + usize::from(bytes.first()? & 0x3F) * 4),
        2152 => gtp(bytes),
        // GTP version 0 (3GPP TS 09.60).
        3386 if bytes.get(1) == Some(&255) => Some((Header::Ip, 20)),
        1701 => l2tp(bytes),
        3544 => teredo(bytes),
        4341 => Some((Header::Ip, 8)),
        4754 => gre(bytes),
        6635 => Some((Header::Mpls, 0)),
        500 | 4500 => Some((Header::Named("IPsec in UDP"), 0)),
        51820 if matches!(bytes, [1..=4, 0, 0, 0, ..]) => Some((Header::Named("WireGuard"), 0)),
        _ => None,
    }
}

/// Reads GTP-U (3GPP TS 29.281): flags, type, length, tunnel, and optional fields.
fn gtp(bytes: &[u8]) -> Step {
    const USER_DATA: u8 = 255;
    let (flags, kind) = (*bytes.first()?, *bytes.get(1)?);
    if flags >> 4 != 3 || kind != USER_DATA {
        return None;
    }
    let mut length = if flags.trailing_zeros() >= 3 { 8 } else { 12 };
    let mut extension = flags & 4 != 0 && *bytes.get(11)? != 0;
    while extension {
        let words = usize::from(*bytes.get(length)?);
        if words == 0 {
            return None;
        }
        length += words * 4;
        extension = *bytes.get(length - 1)? != 0;
    }
    matches!(bytes.get(length)? >> 4, 4 | 6).then_some((Header::Ip, length))
}

/// Reads a data message of L2TP version 2 (RFC 2661): its flags say which fields it has.
fn l2tp(bytes: &[u8]) -> Step {
    let flags = number(bytes, 0)?;
    if flags & 0x8000 != 0 || flags & 0xF != 2 {
        return None;
    }
    let has = |flag: u16, length: usize| if flags & flag == 0 { 0 } else { length };
    let offset_at = 6 + has(0x4000, 2) + has(0x0800, 4);
    let padding = if flags & 0x0200 == 0 { 0 } else { 2 + usize::from(number(bytes, offset_at)?) };
    Some((Header::Ppp, offset_at + padding))
}

/// Skips authentication and origin of Teredo (RFC 4380, section 5.1.1).
fn teredo(bytes: &[u8]) -> Step {
    let authentication = match bytes {
        [0, 1, id, value, ..] => 13 + usize::from(*id) + usize::from(*value),
        _ => 0,
    };
    let rest = bytes.get(authentication..)?;
    let length = authentication + if rest.starts_with(&[0, 0]) { 8 } else { 0 };
    (bytes.get(length)? >> 4 == 6).then_some((Header::Ip, length))
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(link) => match links::name(*link) {
                Some(name) => write!(f, "{name} (link type {link})"),
                None => write!(f, "of link type {link}"),
            },
            Self::Type(kind) => match type_name(*kind) {
                Some(name) => f.write_str(name),
                None => write!(f, "Ethernet type {:#06x}", EtherType(*kind).0),
            },
            Self::Sap(sap) => match sap {
                0x42 => f.write_str("spanning tree"),
                0xE0 | 0xFF => f.write_str("IPX"),
                0xF0 => f.write_str("NetBIOS"),
                0xFE => f.write_str("OSI"),
                _ => write!(f, "LLC {sap:#04x}"),
            },
            Self::PppProtocol(protocol) => match protocol {
                0xFD | 0xFB => f.write_str("compressed PPP"),
                0x53 | 0x55 => f.write_str("encrypted PPP"),
                0x2D | 0x2F => f.write_str("TCP with compressed headers"),
                _ => write!(f, "PPP {protocol:#06x}"),
            },
            Self::Protocol(50) => f.write_str("ESP, which is encrypted"),
            Self::Protocol(protocol) => match IpNumber(*protocol).keyword_str() {
                Some(name) => f.write_str(name),
                None => write!(f, "IP protocol {protocol}"),
            },
            Self::Ethernet => f.write_str("cut short in Ethernet"),
            Self::Llc => f.write_str("cut short in LLC"),
            Self::Ppp => f.write_str("cut short in PPP"),
            Self::Mpls => f.write_str("cut short in MPLS"),
            Self::Wifi => f.write_str("802.11 without readable data"),
            Self::Ip => f.write_str("damaged IP"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

fn type_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x0806 => "ARP",
        0x2000 => "CDP",
        0x8035 => "RARP",
        0x8137 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x888E => "EAPOL",
        0x88CC => "LLDP",
        0x88E5 => "MACsec, which is encrypted",
        0x88F7 => "PTP",
        0x8902 => "Ethernet OAM",
        0x8906 => "FCoE",
        0x9000 => "Ethernet loopback test",
        _ => return None,
    })
}
