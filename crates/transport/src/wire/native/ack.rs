//! Body of an ACK, as it stands in an ACK, DATA or FIN packet.

use std::time::Duration;

use super::super::{self as wire, Echo, Marks, WireError, unwrap_near, wrap};
use super::SMALLEST_PATH;
use super::header::{HEADER, TAG, put, u16_at};
use super::varint::{self, put_varint};

/// Largest number of SACK blocks in an ACK.
pub(crate) const MAX_SACK_BLOCKS: usize = 32;

/// Length of the flags, which come first, bytes.
const FLAGS: usize = 2;
/// Length of the packet number, bytes.
const LARGEST: usize = 4;
/// Length of the time of the ACK, which precedes the varints, bytes.
const SENT: usize = 4;
/// Length of the longest body without SACK blocks, bytes: two varints of 64 bits and six of 32.
const LONGEST: usize = FLAGS + LARGEST + SENT + 2 * varint::MAX_U64 + 6 * varint::MAX_U32;
/// Length of the longest SACK block, bytes.
const BLOCK: usize = 2 * varint::MAX_U64;
/// Number of SACK blocks that always fit an ACK on the smallest path.
pub(crate) const FITTING_BLOCKS: usize = (SMALLEST_PATH - (HEADER + LONGEST + TAG)) / BLOCK;
/// Bits 0 to 5 of the flags: number of SACK blocks.
const BLOCKS: u16 = (1 << 6) - 1;
/// Bit of the flags: the ACK has ECN counts.
const HAS_MARKS: u16 = 1 << 14;
/// Bit of the flags: the ACK has the count of socket drops.
const HAS_OVERFLOW: u16 = 1 << 15;

/// Fields of an ACK except its SACK blocks. Counts wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the cumulative ACK has this name in all formats")]
pub(crate) struct Ack {
    /// Largest number among the transmissions received.
    pub largest_received: u64,
    /// Time of this ACK by the receiver's clock, microseconds modulo 2^32.
    pub sent_us: u32,
    /// ACK delay since the arrival of `largest_received`, microseconds; saturates.
    pub echo_delay_us: u32,
    /// Cumulative ACK (`rcv_nxt`), stream offset.
    pub ack: u64,
    /// Receive window from `ack` on, bytes; `ack` + `window` is at most 2^64 - 1.
    pub window: u64,
    /// Valid DATA packets received, duplicates included.
    pub packets: u32,
    /// Of `packets`, the duplicates: all payload bytes had arrived before.
    pub duplicates: u32,
    /// Of `packets`, those that arrived with CE (RFC 3168).
    pub ce: u32,
    /// Of `packets`, those that arrived with ECT(0) or ECT(1).
    pub ect: u32,
    /// Messages dropped by the receiver's full socket since the SYN, if the sender requested them.
    pub overflow: Option<u32>,
}

/// SACK block: range of stream bytes received beyond a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlock {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

/// SACK blocks of an ACK, decoded by the iterator: `ack < start < end`, ascending and apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks<'a> {
    /// Cumulative ACK: the first block's gap counts from here.
    ack: u64,
    count: usize,
    /// Two validated varints for each block: distance from the end of the previous one, and length.
    varints: &'a [u8],
}

impl<'a> SackBlocks<'a> {
    /// Iterates over the blocks in ascending order, at most `MAX_SACK_BLOCKS`.
    pub fn iter(self) -> impl ExactSizeIterator<Item = SackBlock> + 'a {
        let Self { ack: mut edge, count, mut varints } = self;
        (0..count).map(move |_| {
            let start = edge + varint::take_valid(&mut varints);
            edge = start + varint::take_valid(&mut varints);
            SackBlock { start, end: edge }
        })
    }
}

/// Returns the length of the longest ACK body with this number of SACK blocks (at most 32), bytes.
pub(crate) const fn ack_body_len(blocks: usize) -> usize {
    LONGEST + BLOCK * if blocks < MAX_SACK_BLOCKS { blocks } else { MAX_SACK_BLOCKS }
}

/// Writes the body of an ACK, which also stands in DATA and FIN, and returns its length; `out` has
/// [`ack_body_len`] bytes. The blocks must ascend without touching; only 32 are written.
pub(crate) fn encode_ack_body(ack: &Ack, blocks: &[SackBlock], out: &mut [u8]) -> usize {
    let blocks = &blocks[..blocks.len().min(MAX_SACK_BLOCKS)];
    #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
    let mut flags = blocks.len() as u16;
    let has_marks = ack.ce != 0 || ack.ect != 0;
    flags |= if has_marks { HAS_MARKS } else { 0 };
    flags |= ack.overflow.map_or(0, |_| HAS_OVERFLOW);
    let largest_received = wrap(ack.largest_received);
    put(out, 0, flags.to_le_bytes());
    put(out, FLAGS, largest_received.to_le_bytes());
    put(out, FLAGS + LARGEST, ack.sent_us.to_le_bytes());
    let mut at = FLAGS + LARGEST + SENT;
    let mut write = |value: u64| at += put_varint(value, &mut out[at..]);
    write(u64::from(ack.echo_delay_us));
    write(ack.ack);
    write(ack.window);
    write(u64::from(missing(largest_received, ack.packets)));
    write(u64::from(ack.duplicates));
    if has_marks {
        write(u64::from(ack.ce));
        write(u64::from(ack.packets.wrapping_sub(ack.ect).wrapping_sub(ack.ce)));
    }
    let mut edge = ack.ack;
    for block in blocks {
        write(block.start - edge);
        write(block.end - block.start);
        edge = block.end;
    }
    if let Some(overflow) = ack.overflow {
        write(u64::from(overflow));
    }
    at
}

/// Returns the number of transmissions up to the largest that did not arrive, minus copies made by
/// the network. The function is its own inverse: given the missing, it returns the packets.
fn missing(largest_received: u32, packets: u32) -> u32 {
    largest_received.wrapping_add(1).wrapping_sub(packets)
}

/// Takes an ACK body off the start of `rest`. Its packet number is unwrapped around `near`.
pub(crate) fn take_ack<'a>(rest: &mut &'a [u8], near: u64) -> Result<wire::Ack<'a>, WireError> {
    let (flags, fields) = rest.split_first_chunk::<FLAGS>().ok_or(WireError::Truncated)?;
    *rest = fields;
    let flags = u16_at(flags, 0);
    if flags & !(BLOCKS | HAS_MARKS | HAS_OVERFLOW) != 0 {
        return Err(WireError::Reserved);
    }
    let (low, fields) = rest.split_first_chunk::<LARGEST>().ok_or(WireError::Truncated)?;
    let low = u32::from_le_bytes(*low);
    let (sent, fields) = fields.split_first_chunk::<SENT>().ok_or(WireError::Truncated)?;
    *rest = fields;
    let largest_received = unwrap_near(low, near).ok_or(WireError::Sequence)?;
    let echo_delay_us = varint::take_u32(rest)?;
    let ack = varint::take(rest)?;
    let window = varint::take(rest)?;
    ack.checked_add(window).ok_or(WireError::Window)?;
    let packets = missing(low, varint::take_u32(rest)?);
    let duplicates = varint::take_u32(rest)?;
    let (mut ce, mut ect) = (0, 0);
    if flags & HAS_MARKS != 0 {
        ce = varint::take_u32(rest)?;
        ect = packets.wrapping_sub(varint::take_u32(rest)?).wrapping_sub(ce);
    }
    let sack = take_blocks(ack, usize::from(flags & BLOCKS), rest)?;
    let overflow = if flags & HAS_OVERFLOW == 0 { None } else { Some(varint::take_u32(rest)?) };
    let delay = Duration::from_micros(u64::from(echo_delay_us));
    Ok(wire::Ack {
        ack,
        window,
        sack,
        echo: Some(Echo { packet_number: largest_received, delay }),
        sent_us: Some(u32::from_le_bytes(*sent)),
        duplicates: Some(duplicates),
        marks: Some(Marks { packets, ce, ect }),
        overflow,
    })
}

/// Validates `count` blocks at the start of `rest` and removes them from it.
fn take_blocks<'a>(ack: u64, count: usize, rest: &mut &'a [u8]) -> Result<SackBlocks<'a>, WireError> {
    if count > MAX_SACK_BLOCKS {
        return Err(WireError::Sack);
    }
    let (varints, mut edge) = (*rest, ack);
    for _ in 0..2 * count {
        let step = varint::take(rest)?;
        edge = edge.checked_add(step).filter(|_| step > 0).ok_or(WireError::Sack)?;
    }
    Ok(SackBlocks { ack, count, varints: &varints[..varints.len() - rest.len()] })
}
