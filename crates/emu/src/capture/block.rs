//! Blocks of a capture file in the pcapng format (draft-ietf-opsawg-pcapng, sections 3 and 4), in
//! little-endian byte order.

/// Link type of raw IPv4 or IPv6 packets: `LINKTYPE_RAW` of
/// <https://www.tcpdump.org/linktypes.html>.
const LINK_TYPE: u16 = 101;
/// Timestamps are in units of 10^-9 s.
const RESOLUTION: u8 = 9;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Version 1.0: major and minor number, 16 bits each.
const VERSION: u32 = 1;
/// Section length that means "not known in advance".
const UNKNOWN_LENGTH: u64 = u64::MAX;
const NO_LIMIT: u32 = 0;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const PACKET_FLAGS: u16 = 2;
const DESCRIPTION: u16 = 3;
const USER_APPLICATION: u16 = 4;
const TIME_RESOLUTION: u16 = 9;

/// Direction relative to the link, as in the lowest bits of the packet flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    In = 1,
    Out = 2,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// Interface number, from 0 in the order of the interface blocks.
    pub(super) interface: u32,
    /// Time since 1970, nanoseconds.
    pub(super) time_ns: u64,
    pub(super) way: Way,
}

/// Appends the section header, the first block of a file.
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

/// Appends the description of the next interface. Of each packet the first `limit` bytes are kept.
pub(super) fn interface(out: &mut Vec<u8>, name: &str, description: &str, limit: Option<u32>) {
    let start = begin(out, INTERFACE);
    put(out, u32::from(LINK_TYPE));
    put(out, limit.unwrap_or(NO_LIMIT));
    option(out, NAME, name.as_bytes());
    option(out, DESCRIPTION, description.as_bytes());
    option(out, TIME_RESOLUTION, &[RESOLUTION]);
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
}

/// Appends a packet block; `write` appends the packet's bytes, and its result is returned. The
/// block keeps the first `limit` bytes, and the length of the packet.
pub(super) fn packet<T>(
    out: &mut Vec<u8>,
    about: About,
    limit: Option<u32>,
    write: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
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
    let len = length(out.len() - bytes);
    let kept = limit.map_or(len, |limit| limit.min(len));
    out.truncate(bytes + kept as usize);
    out[lengths..lengths + 4].copy_from_slice(&kept.to_le_bytes());
    out[lengths + 4..bytes].copy_from_slice(&len.to_le_bytes());
    pad(out);
    option(out, PACKET_FLAGS, &(about.way as u32).to_le_bytes());
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
    result
}

/// Adds a comment to the packet block at `start`, which must be the last block.
pub(super) fn comment(out: &mut Vec<u8>, start: usize, text: &str) {
    // Remove the end-of-options mark and the trailing length, 4 bytes each.
    out.truncate(out.len() - 8);
    option(out, COMMENT, text.as_bytes());
    option(out, END_OF_OPTIONS, &[]);
    end(out, start);
}

/// Returns the total length of the complete blocks in `bytes`, and the number of packets in them.
pub(super) fn whole(bytes: &[u8]) -> (usize, u64) {
    let (mut len, mut packets) = (0, 0);
    while let Some((kind, block)) = first(&bytes[len..]) {
        len += block.len();
        packets += u64::from(kind == ENHANCED_PACKET);
    }
    (len, packets)
}

/// Returns the type and bytes of the first block; `None` if it is incomplete.
fn first(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (kind, rest) = bytes.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
    // At least type and two lengths, so that a corrupt length of 0 does not stall the caller.
    Some((u32::from_le_bytes(*kind), bytes.get(..len.max(12))?))
}

/// Begins a block whose length is not known yet, and returns its offset.
fn begin(out: &mut Vec<u8>, kind: u32) -> usize {
    let start = out.len();
    put(out, kind);
    put(out, 0);
    start
}

/// Ends a block: writes its total length at both ends.
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

/// Pads to a multiple of 4 bytes, as the format requires of blocks and options.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

fn put(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_le_bytes());
}

/// Converts the length of a packet or block; both are far below 4 GiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
