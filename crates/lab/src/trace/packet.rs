//! From a captured packet to the fields of its TCP segment.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, ip_number};
use pcap_parser::Linktype;

use super::capture::Frame;

/// Bytes of the headers of both Linux cooked captures, and of BSD's loopback.
const COOKED: usize = 16;
const COOKED_2: usize = 20;
const LOOPBACK: usize = 4;
/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;
/// Largest window scale (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;
/// Number of SACK blocks that fit into the options (RFC 2018, section 3).
const MAX_SACK_BLOCKS: usize = 4;

/// Flags of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "bits of the TCP header")]
pub(super) struct Flags {
    /// Synchronise sequence numbers.
    pub(super) syn: bool,
    /// No more data from the sender.
    pub(super) fin: bool,
    /// Reset of the connection.
    pub(super) rst: bool,
    /// The acknowledgement number is valid.
    pub(super) ack: bool,
    /// Push to the application.
    pub(super) psh: bool,
    /// The urgent pointer is valid.
    pub(super) urg: bool,
}

/// TCP segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Address of the sender.
    pub(super) source: SocketAddr,
    /// Address of the receiver.
    pub(super) target: SocketAddr,
    /// Identification of the IPv4 header. `None` with IPv6.
    pub(super) ip_id: Option<u16>,
    /// Sequence number.
    pub(super) seq: u32,
    /// Acknowledgement number.
    pub(super) ack: u32,
    /// Flags.
    pub(super) flags: Flags,
    /// Window as it is in the header, unscaled.
    pub(super) window: u16,
    /// Urgent pointer.
    pub(super) urgent: u16,
    /// Bytes of data that the packet had on the wire.
    pub(super) data: u32,
    /// Bytes of these that were not captured.
    pub(super) missing: u32,
    /// Maximum segment size of a SYN.
    pub(super) mss: Option<u16>,
    /// Window scale of a SYN, in bits.
    pub(super) scale: Option<u8>,
    /// True if the segment has the timestamps option.
    pub(super) timestamp: bool,
    /// True if the SYN permits selective acknowledgements.
    pub(super) sack_permitted: bool,
    /// Blocks of selective acknowledgements, `[start, end)`.
    pub(super) sack: Vec<(u32, u32)>,
}

/// Kind of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    /// A TCP segment.
    Tcp(Box<Segment>),
    /// A fragment of an IP packet. Fragments are not reassembled.
    Fragment,
    /// TCP whose header is damaged, or was not captured whole.
    Short,
    /// Not TCP over IP.
    Other,
    /// A packet whose link type is unknown.
    UnknownLink,
}

/// Reads the headers of a packet. Truncated options count as far as they were captured.
pub(super) fn parse(frame: &Frame<'_>) -> Packet {
    let Some(first) = FirstHeader::of(frame.link) else { return Packet::UnknownLink };
    let Some((sliced, header)) = first.slice(frame.bytes) else { return Packet::Other };
    let Some(payload) = sliced.ip_payload() else { return Packet::Other };
    if payload.ip_number != ip_number::TCP {
        return Packet::Other;
    }
    if payload.fragmented {
        return Packet::Fragment;
    }
    let skipped = (frame.bytes.len() - header).saturating_sub(payload.payload.len()) + header;
    let whole = frame.length.saturating_sub(u32::try_from(skipped).unwrap_or(u32::MAX));
    let (addresses, ip_id, length) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => {
            let it = ip.header();
            // With segmentation offload the length may be 0: the network card writes it later.
            let length = match it.total_len() {
                0 => whole,
                _ => u32::from(it.payload_len().unwrap_or(0)),
            };
            let addresses = (IpAddr::V4(it.source_addr()), IpAddr::V4(it.destination_addr()));
            (addresses, Some(it.identification()), length)
        }
        Some(LaxNetSlice::Ipv6(ip)) => {
            let it = ip.header();
            let extensions = u32::try_from(ip.extensions().slice().len()).unwrap_or(u32::MAX);
            let length = match it.payload_length() {
                0 => whole,
                length => u32::from(length).saturating_sub(extensions),
            };
            ((IpAddr::V6(it.source_addr()), IpAddr::V6(it.destination_addr())), None, length)
        }
        _ => return Packet::Other,
    };
    segment(payload.payload, addresses, ip_id, length).map_or(Packet::Short, |it| Packet::Tcp(Box::new(it)))
}

/// First header of a packet, by the link type.
enum FirstHeader {
    Ethernet,
    /// Linux cooked: length of the header, and offset of its protocol number.
    Cooked(usize, usize),
    /// IP after a header of this length.
    Ip(usize),
}

impl FirstHeader {
    fn of(link: Linktype) -> Option<Self> {
        match link {
            Linktype::ETHERNET => Some(Self::Ethernet),
            Linktype::LINUX_SLL => Some(Self::Cooked(COOKED, COOKED - 2)),
            // LINKTYPE_LINUX_SLL2.
            Linktype(276) => Some(Self::Cooked(COOKED_2, 0)),
            // DLT_RAW is 12 on most systems and 14 on OpenBSD.
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => Some(Self::Ip(0)),
            Linktype::NULL | Linktype::LOOP => Some(Self::Ip(LOOPBACK)),
            _ => None,
        }
    }

    /// Returns the packet in slices, and the length of a header that they do not include.
    fn slice(self, bytes: &[u8]) -> Option<(LaxSlicedPacket<'_>, usize)> {
        match self {
            Self::Ethernet => Some((LaxSlicedPacket::from_ethernet(bytes).ok()?, 0)),
            Self::Cooked(length, at) => {
                let kind = u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]);
                let rest = bytes.get(length..)?;
                Some((LaxSlicedPacket::from_ether_type(EtherType(kind), rest), length))
            }
            Self::Ip(length) => Some((LaxSlicedPacket::from_ip(bytes.get(length..)?).ok()?, length)),
        }
    }
}

/// Reads the TCP header and as many options as were captured.
fn segment(
    bytes: &[u8],
    (source, target): (IpAddr, IpAddr),
    ip_id: Option<u16>,
    length: u32,
) -> Option<Segment> {
    let (header, rest) = bytes.split_first_chunk::<TCP_HEADER>()?;
    let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let long = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
    let header_length = usize::from(header[12] >> 4) * 4;
    let options = header_length.checked_sub(TCP_HEADER)?;
    let bit = |bit: u8| header[13] & bit != 0;
    let data = length.checked_sub(u32::try_from(header_length).ok()?)?;
    let captured = u32::try_from(rest.len().saturating_sub(options)).unwrap_or(u32::MAX);
    let mut segment = Segment {
        source: SocketAddr::new(source, short(0)),
        target: SocketAddr::new(target, short(2)),
        ip_id,
        seq: long(4),
        ack: long(8),
        flags: Flags {
            fin: bit(0x01),
            syn: bit(0x02),
            rst: bit(0x04),
            psh: bit(0x08),
            ack: bit(0x10),
            urg: bit(0x20),
        },
        window: short(14),
        urgent: short(18),
        data,
        missing: data.saturating_sub(captured),
        mss: None,
        scale: None,
        timestamp: false,
        sack_permitted: false,
        sack: Vec::new(),
    };
    read_options(&rest[..options.min(rest.len())], &mut segment);
    Some(segment)
}

/// Reads the options up to the first incomplete one, and skips unknown ones. The iterator of
/// etherparse ends at an unknown option.
fn read_options(mut bytes: &[u8], segment: &mut Segment) {
    while let [kind, rest @ ..] = bytes {
        match kind {
            0 => return,
            1 => {
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let Some((length, _)) = rest.split_first() else { return };
        let length = usize::from(*length);
        let Some(value) = bytes.get(2..length) else { return };
        match (kind, value) {
            (2, [high, low]) => segment.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => segment.scale = Some((*shift).min(MAX_SCALE)),
            (4, []) => segment.sack_permitted = true,
            (5, blocks) => {
                let edge = |at: &[u8]| u32::from_be_bytes([at[0], at[1], at[2], at[3]]);
                let blocks = blocks.chunks_exact(8).map(|block| (edge(&block[..4]), edge(&block[4..])));
                segment.sack = blocks.take(MAX_SACK_BLOCKS).collect();
            }
            (8, _) => segment.timestamp = true,
            _ => {}
        }
        bytes = &bytes[length..];
    }
}
