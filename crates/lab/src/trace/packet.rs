//! From a captured packet to the fields of its TCP segment.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpFragOffset, LaxIpSlice, TcpHeader, ip_number};

use super::capture::Frame;
use super::fragments::{Fragment, Fragments};
use super::headers::Header;

/// Limit on the headers below TCP. A packet with more is no packet of a real network.
const MAX_HEADERS: usize = 32;
/// Largest window scale (RFC 7323, section 2.3).
pub(super) const MAX_SCALE: u32 = 14;
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
    /// Bytes on the wire of the frames that had the segment, with all their headers.
    pub(super) frame_bytes: u64,
    /// Header without its options.
    pub(super) header: TcpHeader,
    /// Bytes of data that the packet had on the wire.
    pub(super) data: u32,
    /// Bytes of these that were not captured.
    pub(super) missing: u32,
    /// Maximum segment size of a SYN.
    pub(super) mss: Option<u16>,
    /// True if not all options were captured.
    pub(super) is_cut: bool,
    /// Window scale of a SYN, in bits.
    pub(super) scale: Option<u32>,
    /// Value and echo of the timestamps option.
    pub(super) timestamp: Option<u64>,
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
    /// A fragment of an IP packet whose other fragments have not come yet.
    Fragment,
    /// TCP whose header is damaged, or was not captured whole.
    Short,
    /// A packet without TCP, or one with a header that cannot be read.
    Other(Header),
}

/// Bytes behind a header.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    /// Captured bytes.
    bytes: &'a [u8],
    /// Number of bytes on the wire.
    length: u32,
}

impl Part<'_> {
    /// Returns the part behind this number of bytes. `None` if they were not captured.
    fn skip(self, count: usize) -> Option<Self> {
        let bytes = self.bytes.get(count..)?;
        Some(Self { bytes, length: self.length.saturating_sub(u32::try_from(count).ok()?) })
    }

    /// Returns the first bytes of this part. A damaged length may be longer than the part.
    fn limit(self, length: u32) -> Self {
        let length = length.min(self.length);
        let captured = usize::try_from(length).unwrap_or(usize::MAX).min(self.bytes.len());
        Self { bytes: &self.bytes[..captured], length }
    }
}

/// IP packet.
struct Ip<'a> {
    addresses: (IpAddr, IpAddr),
    /// Identification of the IPv4 header.
    id: Option<u16>,
    /// Number of the protocol behind the header and its extensions.
    protocol: u8,
    payload: Part<'a>,
    /// Identification, and place of the payload in the whole packet, if it is a fragment.
    fragment: Option<Fragment>,
}

/// Reader of packets, which puts fragments of IP together.
#[derive(Debug, Default)]
pub(super) struct Packets {
    pub(super) fragments: Fragments,
}

impl Packets {
    /// Reads the headers of a packet. Truncated options count as far as they were captured.
    pub(super) fn parse(&mut self, frame: &Frame<'_>) -> Packet {
        let length = frame.length.max(u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX));
        let part = Part { bytes: frame.bytes, length };
        self.walk(frame, Header::Link(frame.link), part, frame.length.into(), MAX_HEADERS)
    }

    /// Reads headers from this one on. `frame_bytes` is the length of all frames that had them.
    fn walk(
        &mut self,
        frame: &Frame<'_>,
        mut header: Header,
        mut part: Part<'_>,
        frame_bytes: u64,
        headers: usize,
    ) -> Packet {
        for left in (0..headers).rev() {
            if header != Header::Ip {
                let step = header.step(part.bytes);
                let Some((next, behind)) = step.and_then(|(next, it)| Some((next, part.skip(it)?))) else {
                    return Packet::Other(header);
                };
                (header, part) = (next, behind);
                continue;
            }
            let Some(ip) = ip(part) else { return Packet::Other(header) };
            let Some(fragment) = &ip.fragment else {
                if ip.protocol == ip_number::TCP.0 {
                    return tcp(&ip, frame_bytes);
                }
                (header, part) = (Header::Protocol(ip.protocol), ip.payload);
                continue;
            };
            let inner = Header::Protocol(ip.protocol);
            if ip.protocol != ip_number::TCP.0 && !inner.is_tunnel() {
                return Packet::Other(inner);
            }
            let owner = (frame.interface, ip.addresses, ip.protocol);
            let Some(whole) = self.fragments.add(owner, fragment, ip.payload.bytes, frame_bytes) else {
                return Packet::Fragment;
            };
            let payload = Part { bytes: &whole.bytes, length: whole.length };
            if ip.protocol == ip_number::TCP.0 {
                return tcp(&Ip { payload, ..ip }, whole.frame_bytes);
            }
            return self.walk(frame, inner, payload, whole.frame_bytes, left);
        }
        Packet::Other(header)
    }
}

/// Reads an IP header and its extensions.
fn ip(part: Part<'_>) -> Option<Ip<'_>> {
    let (sliced, _) = LaxIpSlice::from_slice(part.bytes).ok()?;
    let protocol = sliced.payload_ip_number().0;
    let addresses = (sliced.source_addr(), sliced.destination_addr());
    match &sliced {
        LaxIpSlice::Ipv4(packet) => {
            let it = packet.header();
            let header = it.slice().len() + packet.extensions().auth.map_or(0, |auth| auth.slice().len());
            // With segmentation offload the length may be 0: the network card writes it later.
            let whole = match u32::from(it.total_len()) {
                0 => part,
                length => part.limit(length),
            };
            let payload = whole.skip(header)?;
            let fragment = it.is_fragmenting_payload().then(|| Fragment {
                id: it.identification().into(),
                offset: it.fragments_offset(),
                more: it.more_fragments(),
                length: payload.length,
            });
            Some(Ip { addresses, id: Some(it.identification()), protocol, payload, fragment })
        }
        LaxIpSlice::Ipv6(packet) => {
            const HEADER: u32 = 40;
            let whole = match u32::from(packet.header().payload_length()) {
                0 => part,
                length => part.limit(HEADER + length),
            };
            let extensions = packet.extensions();
            let payload = whole.skip(HEADER as usize + extensions.slice().len())?;
            let first = packet.header().next_header().0;
            let fragment = fragment(first, extensions.slice()).filter(|_| packet.is_payload_fragmented());
            let fragment = fragment.map(|it| Fragment { length: payload.length, ..it });
            Some(Ip { addresses, id: None, protocol, payload, fragment })
        }
    }
}

/// Finds the fragment header among extensions of IPv6 (RFC 8200, section 4). Etherparse's iterator
/// reads beyond extensions that were not captured whole.
fn fragment(mut kind: u8, mut extensions: &[u8]) -> Option<Fragment> {
    while let [next, length, ..] = *extensions {
        if let Some(header) = extensions.first_chunk::<8>().filter(|_| kind == ip_number::IPV6_FRAG.0) {
            let place = u16::from_be_bytes([header[2], header[3]]);
            return Some(Fragment {
                id: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
                offset: IpFragOffset::try_new(place >> 3).ok()?,
                more: place & 1 == 1,
                length: 0,
            });
        }
        let length = usize::from(length);
        let skipped = if kind == ip_number::AUTH.0 { (length + 2) * 4 } else { (length + 1) * 8 };
        (kind, extensions) = (next, extensions.get(skipped..)?);
    }
    None
}

/// Reads the segment in an IP packet.
fn tcp(ip: &Ip<'_>, frame_bytes: u64) -> Packet {
    segment(ip, frame_bytes).map_or(Packet::Short, |it| Packet::Tcp(Box::new(it)))
}

/// Reads the TCP header and as many options as were captured.
fn segment(ip: &Ip<'_>, frame_bytes: u64) -> Option<Segment> {
    let Part { bytes, length } = ip.payload;
    let (source, target) = ip.addresses;
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
        ip_id: ip.id,
        frame_bytes,
        header,
        data,
        missing: data.saturating_sub(captured),
        mss: None,
        is_cut: rest.len() < options,
        scale: None,
        timestamp: None,
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
            (3, [shift]) => segment.scale = Some(u32::from(*shift).min(MAX_SCALE)),
            (4, []) => segment.sack_permitted = true,
            (5, blocks) => {
                let edge = |at: &[u8]| u32::from_be_bytes([at[0], at[1], at[2], at[3]]);
                let blocks = blocks.chunks_exact(8).map(|block| (edge(&block[..4]), edge(&block[4..])));
                segment.sack = blocks.take(MAX_SACK_BLOCKS).collect();
            }
            (8, value) => segment.timestamp = value.first_chunk().map(|it| u64::from_be_bytes(*it)),
            _ => {}
        }
        bytes = &bytes[length..];
    }
}
