//! ACK and FIN-ACK.

use std::time::Duration;

use super::super::{self as wire, Echo, Marks, PacketKind, WireError, wrap};
use super::header::{self, HEADER, exact, info, no_info, put, u32_at, u64_at};
use super::varint::{self, put_varint};
use super::{check, stream};

/// Length of the packet number, which precedes the varints, bytes.
const LARGEST: usize = 4;
/// Length of an ACK before its varints, bytes.
pub(crate) const ACK_HEADER: usize = HEADER + LARGEST;
/// Largest number of SACK blocks in an ACK.
pub(crate) const MAX_SACK_BLOCKS: usize = 32;
/// Length of a FIN-ACK, bytes.
pub(crate) const FIN_ACK_LEN: usize = HEADER + 13;

/// Length of the longest ACK without SACK blocks, bytes: two varints of 64 bits and six of 32.
const LONGEST: usize = ACK_HEADER + 2 * varint::MAX_U64 + 6 * varint::MAX_U32;
/// Length of the longest SACK block, bytes.
const BLOCK: usize = 2 * varint::MAX_U64;
/// Bits 0 to 5 of the type-specific field: number of SACK blocks.
const BLOCKS: u16 = (1 << 6) - 1;
/// Bit of the type-specific field: the ACK has ECN counts.
const HAS_MARKS: u16 = 1 << 14;
/// Bit of the type-specific field: the ACK has the count of socket drops.
const HAS_OVERFLOW: u16 = 1 << 15;
/// Status of a stored transfer; other values are reserved.
const STORED: u8 = 0;

/// Fields of an ACK except its SACK blocks. Counts wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the cumulative ACK has this name in all formats")]
pub(crate) struct Ack {
    /// Largest number among the transmissions received.
    pub largest_received: u64,
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
    /// Messages of any sender dropped by the receiver's full socket since the SYN, if the sender
    /// requested the count.
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

/// SACK blocks of an ACK, decoded by the iterator: `ack < start < end`, and each begins above the
/// end of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks<'a> {
    /// Cumulative ACK: the first block's gap counts from here.
    ack: u64,
    count: usize,
    /// Two validated varints for each block: its distance from the end of the previous one, and its
    /// length.
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

/// FIN-ACK: all data has arrived, and the application has stored it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinAck {
    /// Length of the stream, bytes.
    pub length: u64,
    /// CRC-32 of the stream as the receiver computed it.
    pub crc: u32,
}

/// Returns the length of the longest ACK with this number of SACK blocks (at most 32 count), bytes.
pub(crate) const fn ack_len(blocks: usize) -> usize {
    LONGEST + BLOCK * if blocks < MAX_SACK_BLOCKS { blocks } else { MAX_SACK_BLOCKS }
}

/// Returns the number of SACK blocks that always fit an ACK of `bytes` bytes.
pub(crate) fn most_blocks(bytes: usize) -> usize {
    (bytes.saturating_sub(LONGEST) / BLOCK).min(MAX_SACK_BLOCKS)
}

/// Writes an ACK and returns its length; `out` has [`ack_len`] bytes. The blocks must ascend
/// without touching; those after the 32nd are omitted.
pub(crate) fn encode_ack(connection_id: u64, ack: &Ack, blocks: &[SackBlock], out: &mut [u8]) -> usize {
    let (info, len) = encode_body(ack, blocks, &mut out[HEADER..]);
    header::begin(PacketKind::Ack, info, connection_id, out);
    header::seal(&mut out[..HEADER + len], 0);
    HEADER + len
}

/// Writes the fields of an ACK, without a header. Returns the type-specific field and the length.
pub(in super::super) fn encode_body(ack: &Ack, blocks: &[SackBlock], out: &mut [u8]) -> (u16, usize) {
    let blocks = &blocks[..blocks.len().min(MAX_SACK_BLOCKS)];
    #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
    let mut info = blocks.len() as u16;
    let has_marks = ack.ce != 0 || ack.ect != 0;
    info |= if has_marks { HAS_MARKS } else { 0 };
    info |= ack.overflow.map_or(0, |_| HAS_OVERFLOW);
    let largest_received = wrap(ack.largest_received);
    put(out, 0, largest_received.to_le_bytes());
    let mut at = LARGEST;
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
    (info, at)
}

/// Returns the number of transmissions up to the largest that did not arrive, minus copies made by
/// the network. The function is its own inverse: with the missing number it returns the count of
/// packets.
fn missing(largest_received: u32, packets: u32) -> u32 {
    largest_received.wrapping_add(1).wrapping_sub(packets)
}

/// Writes a FIN-ACK; `out` has [`FIN_ACK_LEN`] bytes.
pub(crate) fn encode_fin_ack(connection_id: u64, fin_ack: &FinAck, out: &mut [u8]) {
    header::begin(PacketKind::FinAck, 0, connection_id, out);
    put(out, HEADER, fin_ack.length.to_le_bytes());
    put(out, HEADER + 8, fin_ack.crc.to_le_bytes());
    put(out, HEADER + 12, [STORED]);
    header::seal(&mut out[..FIN_ACK_LEN], 0);
}

pub(in super::super) fn decode_ack(datagram: &[u8], near: u64) -> Result<wire::Ack<'_>, WireError> {
    let head = datagram.first_chunk::<ACK_HEADER>().ok_or(WireError::Truncated)?;
    check::verify(datagram, 0)?;
    let mut rest = &datagram[HEADER..];
    let ack = decode_body(info(head), &mut rest, near)?;
    if rest.is_empty() { Ok(ack) } else { Err(WireError::Length) }
}

/// Decodes the fields of an ACK at the start of `rest` and removes them from it. `info` is the
/// type-specific field.
pub(in super::super) fn decode_body<'a>(
    info: u16,
    rest: &mut &'a [u8],
    near: u64,
) -> Result<wire::Ack<'a>, WireError> {
    if info & !(BLOCKS | HAS_MARKS | HAS_OVERFLOW) != 0 {
        return Err(WireError::Reserved);
    }
    let (low, fields) = rest.split_first_chunk::<LARGEST>().ok_or(WireError::Truncated)?;
    *rest = fields;
    let low = u32::from_le_bytes(*low);
    let largest_received = stream::transmission(low, near)?;
    let echo_delay_us = varint::take_u32(rest)?;
    let ack = varint::take(rest)?;
    let window = varint::take(rest)?;
    ack.checked_add(window).ok_or(WireError::Window)?;
    let packets = missing(low, varint::take_u32(rest)?);
    let duplicates = varint::take_u32(rest)?;
    let (mut ce, mut ect) = (0, 0);
    if info & HAS_MARKS != 0 {
        ce = varint::take_u32(rest)?;
        ect = packets.wrapping_sub(varint::take_u32(rest)?).wrapping_sub(ce);
    }
    let sack = take_blocks(ack, usize::from(info & BLOCKS), rest)?;
    let overflow = if info & HAS_OVERFLOW == 0 { None } else { Some(varint::take_u32(rest)?) };
    let delay = Duration::from_micros(u64::from(echo_delay_us));
    Ok(wire::Ack {
        ack,
        window,
        sack,
        echo: Some(Echo { packet_number: largest_received, delay }),
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

pub(in super::super) fn decode_fin_ack(datagram: &[u8]) -> Result<FinAck, WireError> {
    let packet = exact::<FIN_ACK_LEN>(datagram)?;
    no_info(packet)?;
    if packet[HEADER + 12] != STORED {
        return Err(WireError::Reserved);
    }
    Ok(FinAck { length: u64_at(packet, HEADER), crc: u32_at(packet, HEADER + 8) })
}
