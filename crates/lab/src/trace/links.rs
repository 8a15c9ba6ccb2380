//! Link types: the first header of a packet, by the registry of draft-ietf-opsawg-pcaplinktype.

use super::headers::{Header, Step, number, typed};

/// Alignment of the header of a PF log, whose first field is its length.
const PF_ALIGNMENT: usize = 4;
/// Type of the packet among the fields of an NFLOG record.
const NFLOG_PACKET: u16 = 9;

/// Returns the first header of a packet with this link type.
pub(super) fn step(link: i32, bytes: &[u8]) -> Step {
    match link {
        1 => Some((Header::Ethernet, 0)),
        // DLT_RAW is 12 on most systems and 14 on OpenBSD.
        12 | 14 | 101 | 228 | 229 => Some((Header::Ip, 0)),
        // Loopback of BSD: the address family in the order of either host.
        0 | 108 => Some((Header::Ip, 4)),
        113 => cooked(bytes),
        276 => typed(bytes, 0, 20),
        9 | 50 if bytes.starts_with(&[0x0F, 0]) => typed(bytes, 2, 4),
        9 | 50 => Some((Header::Ppp, 0)),
        51 => Some((Header::Ppp, 6)),
        // PPP after its direction, which replaces the address or comes before it.
        166 => Some((Header::Ppp, if bytes.get(1) == Some(&3) { 2 } else { 1 })),
        204 => Some((Header::Ppp, 1)),
        104 => typed(bytes, 2, 4),
        205 => typed(bytes, 3, 5),
        107 => frame_relay(bytes, 0),
        206 => frame_relay(bytes, 1),
        6 => token_ring(bytes),
        10 => Some((Header::Llc, 13)),
        100 | 106 => Some((if bytes.first()? >> 4 == 4 { Header::Ip } else { Header::Llc }, 0)),
        123 if bytes.first()? & 0xF == 2 => Some((Header::Llc, 4)),
        105 => Some((Header::Wifi, 0)),
        119 => Some((Header::Wifi, 144)),
        127 => Some((Header::Wifi, usize::from(number(bytes, 2)?.swap_bytes()))),
        163 => Some((Header::Wifi, usize::from(number(bytes, 6)?))),
        192 => per_packet(bytes),
        109 => Some((Header::Ip, 12)),
        117 => Some((Header::Ip, usize::from(*bytes.first()?).next_multiple_of(PF_ALIGNMENT))),
        226 => Some((Header::Ip, 24)),
        239 => nflog(bytes),
        241 => Some((Header::Ethernet, 12)),
        242 => typed(bytes, 40, 44),
        274 => Some((Header::Ethernet, 8)),
        // IP over IEEE 1394; tags of switches, Broadcom's and Marvell's.
        138 | 281 | 284 => typed(bytes, 16, 18),
        240 | 282 => Some((Header::Ethernet, 4)),
        285 => typed(bytes, 20, 22),
        _ => None,
    }
}

/// Linux cooked capture: a protocol below 0x600 is no length, but 4 is LLC.
fn cooked(bytes: &[u8]) -> Step {
    match number(bytes, 14)? {
        1 => Some((Header::Sap(0xFF), 16)),
        _ => typed(bytes, 14, 16),
    }
}

/// Frame relay (RFC 2427), and Cisco's encapsulation, which has an Ethernet type.
fn frame_relay(bytes: &[u8], begin: usize) -> Step {
    let address = bytes.get(begin..)?.iter().position(|byte| byte & 1 == 1)? + 1;
    let at = begin + address;
    match bytes.get(at..)? {
        [3, 0, 0x80, ..] => typed(bytes, at + 6, at + 8),
        [3, 0x80, ..] => typed(bytes, at + 5, at + 7),
        [3, 0xCC | 0x8E, ..] => Some((Header::Ip, at + 2)),
        [3, ..] => Some((Header::Named("frame relay without IP"), at + 2)),
        _ => typed(bytes, at, at + 2),
    }
}

/// Token ring: the first bit of the source says that routing information follows.
fn token_ring(bytes: &[u8]) -> Step {
    const LENGTH: usize = 14;
    let routing = if bytes.get(8)? & 0x80 == 0 { 0 } else { usize::from(bytes.get(LENGTH)? & 0x1F) };
    Some((Header::Llc, LENGTH + routing))
}

/// Per-packet information (PPI): its length and the link type of what follows, little-endian.
fn per_packet(bytes: &[u8]) -> Step {
    const PER_PACKET: i32 = 192;
    let length = usize::from(number(bytes, 2)?.swap_bytes());
    let link = i32::from(number(bytes, 4)?.swap_bytes());
    (link != PER_PACKET).then_some((Header::Link(link), length))
}

/// NFLOG: family, version, resource, then fields with length and type in the order of the host.
fn nflog(bytes: &[u8]) -> Step {
    const HEADER: usize = 4;
    let mut at = HEADER;
    loop {
        let [length, kind] = [number(bytes, at)?.swap_bytes(), number(bytes, at + 2)?.swap_bytes()];
        // The highest bits of the type are flags. A host with another order has them elsewhere.
        let (length, kind) = if kind & 0x3FFF <= 0xFF {
            (length, kind & 0x3FFF)
        } else {
            (length.swap_bytes(), kind.swap_bytes() & 0x3FFF)
        };
        let length = usize::from(length);
        if kind == NFLOG_PACKET {
            return Some((Header::Ip, at + HEADER));
        }
        if length < HEADER {
            return None;
        }
        at += length.next_multiple_of(4);
    }
}

/// Reads the header of an IEEE 802.11 data frame that is neither encrypted nor without data.
pub(super) fn wifi(bytes: &[u8]) -> Step {
    let [control, flags] = *bytes.first_chunk::<2>()?;
    let has_data = control & 0x0C == 8 && control & 0x40 == 0;
    let is_protected = flags & 0x40 != 0;
    if !has_data || is_protected {
        return None;
    }
    // Four addresses, quality of service, HT control.
    let quality = control & 0x80 != 0;
    let addresses = if flags & 3 == 3 { 30 } else { 24 };
    let length = addresses + 2 * usize::from(quality) + 4 * usize::from(quality && flags & 0x80 != 0);
    // Some drivers pad the header to four bytes.
    let is_llc = |at: usize| matches!(bytes.get(at..), Some([0xAA, 0xAA, 3, ..]));
    let padded = length.next_multiple_of(4);
    Some((Header::Llc, if is_llc(padded) { padded } else { length }))
}

/// Returns the name of a link type that is not read, or in which a packet was cut short.
pub(super) fn name(link: i32) -> Option<&'static str> {
    Some(match link {
        105 | 119 | 127 | 163 => "802.11",
        7 | 129 => "ARCNET",
        130..=137 | 178..=184 | 194 | 198 | 200 => "Juniper",
        143 => "DOCSIS",
        147..=162 => "for private use",
        187 | 201 | 254 => "Bluetooth HCI",
        140..=142 => "SS7",
        177 => "LAPD",
        186 | 189 | 220 | 249 | 288 => "USB",
        190 | 227 => "CAN",
        195 | 215 | 230 | 283 => "IEEE 802.15.4",
        212 => "LIN",
        224 | 225 => "Fibre Channel",
        231 => "D-Bus",
        243 => "MPEG transport stream",
        247 => "InfiniBand",
        251 | 255 | 256 => "Bluetooth Low Energy",
        252 => "exported PDUs of Wireshark",
        253 => "netlink",
        271 => "vsock",
        _ => return None,
    })
}
