//! The blocks of a capture file: the pcapng format, draft-ietf-opsawg-pcapng, sections 3 and 4.
//!
//! Owns the bytes. A section's byte order is the writer's choice; this one's is little-endian.

/// Bytes are IP packets, of version 4 or 6: `LINKTYPE_RAW` of
/// <https://www.tcpdump.org/linktypes.html>.
const LINK_TYPE: u16 = 101;
/// Times are in units of 10 to the power of minus this, seconds.
const RESOLUTION: u8 = 9;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Major and minor number, each 16 bits: 1.0.
const VERSION: u32 = 1;
/// The length of a section that is not known when it begins.
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// No bound on the length of packets.
const NO_LIMIT: u32 = 0;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const PACKET_FLAGS: u16 = 2;
const DESCRIPTION: u16 = 3;
const USER_APPLICATION: u16 = 4;
const TIME_RESOLUTION: u16 = 9;

/// Which way a packet passes the interface, as in the lowest bits of its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Into the link.
    In = 1,
    /// Out of it.
    Out = 2,
}

/// Metadata of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// The number of the interface, from 0, in the order in which they are described.
    pub(super) interface: u32,
    /// Since 1970, nanoseconds.
    pub(super) time_ns: u64,
    pub(super) way: Way,
}

/// The first block.
pub(super) fn section(out: &mut Vec<u8>, application: &str, comment: &str) {
    let start = begin(out, SECTION_HEADER);
    put(out, BYTE_ORDER);
    put(out, VERSION);
    out.extend(UNKNOWN_LENGTH.to_le_bytes());
    option(out, USER_APPLICATION, application.as_bytes());
    option(out, COMMENT, comment.as_bytes());
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
}

/// Describes the next interface.
pub(super) fn interface(out: &mut Vec<u8>, name: &str, description: &str) {
    let start = begin(out, INTERFACE);
    put(out, u32::from(LINK_TYPE));
    put(out, NO_LIMIT);
    option(out, NAME, name.as_bytes());
    option(out, DESCRIPTION, description.as_bytes());
    option(out, TIME_RESOLUTION, &[RESOLUTION]);
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
}

/// A packet, whose bytes `write` adds.
pub(super) fn packet<T>(out: &mut Vec<u8>, about: About, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = begin(out, ENHANCED_PACKET);
    put(out, about.interface);
    let [low @ .., a, b, c, d] = about.time_ns.to_le_bytes();
    out.extend([a, b, c, d]);
    out.extend(low);
    let lengths = out.len();
    put(out, 0);
    put(out, 0);
    let bytes = out.len();
    let result = write(out);
    let len = length(out.len() - bytes).to_le_bytes();
    out[lengths..lengths + 4].copy_from_slice(&len);
    out[lengths + 4..bytes].copy_from_slice(&len);
    pad(out);
    option(out, PACKET_FLAGS, &(about.way as u32).to_le_bytes());
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
    result
}

/// Adds a comment to the packet whose block begins at `start`, which is the last one.
pub(super) fn comment(out: &mut Vec<u8>, start: usize, text: &str) {
    // In place of the end of the options and the length.
    out.truncate(out.len() - 8);
    option(out, COMMENT, text.as_bytes());
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
}

/// How many of the first bytes are whole blocks, and how many of these are packets.
pub(super) fn whole(bytes: &[u8]) -> (usize, u64) {
    let (mut len, mut packets) = (0, 0);
    while let Some((kind, block)) = first(&bytes[len..]) {
        len += block.len();
        packets += u64::from(kind == ENHANCED_PACKET);
    }
    (len, packets)
}

/// The block that these bytes begin with, and its kind, if all of it is there.
fn first(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (kind, rest) = bytes.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
    // A block has its length at both ends and its kind, so none is empty.
    Some((u32::from_le_bytes(*kind), bytes.get(..len.max(12))?))
}

/// Begins a block, of whose length nothing is known yet; gives its place.
fn begin(out: &mut Vec<u8>, kind: u32) -> usize {
    let start = out.len();
    put(out, kind);
    put(out, 0);
    start
}

/// Ends it: its whole length stands at both ends.
fn end(out: &mut Vec<u8>, start: usize) {
    let len = length(out.len() - start + 4).to_le_bytes();
    out.extend(len);
    out[start + 4..start + 8].copy_from_slice(&len);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend(code.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(&value[..usize::from(len)]);
    pad(out);
}

/// Blocks are whole words, so that the file's length tells where words begin.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

fn put(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_le_bytes());
}

/// No packet is longer than 64 KiB, no block much longer than its packet.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
