//! From a captured packet to the fields of its TCP segment.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TcpHeader, ip_number};
use pcap_parser::Linktype;

use super::capture::Frame;

/// Bytes of the headers of both Linux cooked captures, and of BSD's loopback.
const COOKED: usize = 16;
const COOKED_2: usize = 20;
const LOOPBACK: usize = 4;
/// Largest window scale (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;
/// Number of SACK blocks that fit into the options (RFC 2018, section 3).
const MAX_SACK_BLOCKS: usize = 4;

/// TCP segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Address of the sender.
    pub(super) source: SocketAddr,
    /// Address of the receiver.
    pub(super) target: SocketAddr,
    /// Identification of the IPv4 header. `None` with IPv6.
    pub(super) ip_id: Option<u16>,
    /// Header without its options.
    pub(super) header: TcpHeader,
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
    // Length of a header that the slices do not include.
    let (sliced, header) = match frame.link {
        Linktype::ETHERNET => (LaxSlicedPacket::from_ethernet(frame.bytes).ok(), 0),
        Linktype::LINUX_SLL => (cooked(frame.bytes, COOKED, COOKED - 2), COOKED),
        // LINKTYPE_LINUX_SLL2.
        Linktype(276) => (cooked(frame.bytes, COOKED_2, 0), COOKED_2),
        // DLT_RAW is 12 on most systems and 14 on OpenBSD.
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => (ip(frame.bytes, 0), 0),
        Linktype::NULL | Linktype::LOOP => (ip(frame.bytes, LOOPBACK), LOOPBACK),
        _ => return Packet::UnknownLink,
    };
    let Some(sliced) = sliced else { return Packet::Other };
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
        Some(LaxNetSlice::Ipv4(net)) => {
            let it = net.header();
            // With segmentation offload the length may be 0: the network card writes it later.
            let length = match it.total_len() {
                0 => whole,
                _ => u32::from(it.payload_len().unwrap_or(0)),
            };
            let addresses = (IpAddr::V4(it.source_addr()), IpAddr::V4(it.destination_addr()));
            (addresses, Some(it.identification()), length)
        }
        Some(LaxNetSlice::Ipv6(net)) => {
            let it = net.header();
            let extensions = u32::try_from(net.extensions().slice().len()).unwrap_or(u32::MAX);
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

/// Slices a packet after a header of Linux cooked captures of this length, which has the protocol
/// number at an offset.
fn cooked(bytes: &[u8], length: usize, at: usize) -> Option<LaxSlicedPacket<'_>> {
    let kind = u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]);
    Some(LaxSlicedPacket::from_ether_type(EtherType(kind), bytes.get(length..)?))
}

/// Slices an IP packet after a header of this length.
fn ip(bytes: &[u8], length: usize) -> Option<LaxSlicedPacket<'_>> {
    LaxSlicedPacket::from_ip(bytes.get(length..)?).ok()
}

/// Reads the TCP header and as many options as were captured.
fn segment(
    bytes: &[u8],
    (source, target): (IpAddr, IpAddr),
    ip_id: Option<u16>,
    length: u32,
) -> Option<Segment> {
    let (fixed, rest) = bytes.split_first_chunk::<{ TcpHeader::MIN_LEN }>()?;
    let header_length = usize::from(fixed[12] >> 4) * 4;
    let options = header_length.checked_sub(TcpHeader::MIN_LEN)?;
    // Etherparse refuses a header whose options were not captured whole.
    let mut fixed = *fixed;
    fixed[12] = TcpHeader::MIN_DATA_OFFSET << 4;
    let (header, _) = TcpHeader::from_slice(&fixed).ok()?;
    let data = length.checked_sub(u32::try_from(header_length).ok()?)?;
    let captured = u32::try_from(rest.len().saturating_sub(options)).unwrap_or(u32::MAX);
    let mut segment = Segment {
        source: SocketAddr::new(source, header.source_port),
        target: SocketAddr::new(target, header.destination_port),
        ip_id,
        header,
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
