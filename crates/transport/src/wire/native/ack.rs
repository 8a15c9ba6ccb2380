//! ACK and FIN-ACK.

use super::super::{WireError, seq};
use super::header::{self, HEADER, exact, info, kind, no_info, put, u32_at, u64_at};
use super::varint::{self, put_varint};
use super::{check, stream};

/// Bytes of an ACK before its varints.
pub(crate) const ACK_HEADER: usize = HEADER + 4;
/// SACK blocks of an ACK at most.
pub(crate) const MAX_SACK_BLOCKS: usize = 32;
/// Bytes of a FIN-ACK, exactly.
pub(crate) const FIN_ACK_LEN: usize = HEADER + 13;

/// Bytes of the longest ACK without SACK blocks: two varints of 64 bits and six of 32.
const LONGEST: usize = ACK_HEADER + 2 * varint::MAX_U64 + 6 * varint::MAX_U32;
/// Bytes of the longest SACK block.
const BLOCK: usize = 2 * varint::MAX_U64;
/// In the type-specific half-word: the number of blocks.
const BLOCKS: u16 = (1 << 6) - 1;
/// The counts of codepoints are there.
const HAS_MARKS: u16 = 1 << 14;
/// The count of messages that found the socket full is there.
const HAS_OVERFLOW: u16 = 1 << 15;
/// The status of a transfer that is stored; others are reserved.
const STORED: u8 = 0;

/// Fields of an ACK except its SACK blocks. Counts wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Largest number among the transmissions received.
    pub largest_received: u64,
    /// From the arrival of that one to this ACK, in microseconds; what takes longer stays at the
    /// maximum.
    pub echo_delay_us: u32,
    /// Everything below this offset is here (`rcv_nxt`), in bytes.
    pub ack: u64,
    /// Bytes from `ack` on that the receiver takes; the two do not add up to more than 2^64 - 1.
    pub window: u64,
    /// DATA packets received whose check was right, duplicates included.
    pub packets: u32,
    /// Duplicates among `packets`: all payload bytes had arrived before.
    pub duplicates: u32,
    /// Packets among `packets` that arrived with CE (RFC 3168).
    pub ce: u32,
    /// Packets among `packets` that arrived with ECT(0) or ECT(1).
    pub ect: u32,
    /// Messages, of whomever, that found the buffer of the receiver's socket full since it took the
    /// SYN; for a sender that asked for it.
    pub overflow: Option<u32>,
}

/// Bytes of the stream that are here, beyond a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlock {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

/// The SACK blocks of an ACK, read as they are asked for: `ack < start < end`, and each begins
/// beyond the end of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks<'a> {
    /// Cumulative ACK, from which the first block's gap counts.
    ack: u64,
    count: usize,
    /// For each block two varints that were found valid: its distance from the end of the one
    /// before, its length.
    varints: &'a [u8],
}

impl<'a> SackBlocks<'a> {
    /// The blocks in ascending order, at most `MAX_SACK_BLOCKS`.
    pub fn iter(self) -> impl ExactSizeIterator<Item = SackBlock> + 'a {
        let Self { ack: mut edge, count, mut varints } = self;
        (0..count).map(move |_| {
            let start = edge + varint::take_valid(&mut varints);
            edge = start + varint::take_valid(&mut varints);
            SackBlock { start, end: edge }
        })
    }
}

/// Ends a transfer: everything is stored where the application wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinAck {
    /// Bytes of the stream.
    pub length: u64,
    /// CRC-32 of the stream as the receiver computed it.
    pub crc: u32,
}

/// Bytes of the longest ACK with this number of SACK blocks, of which 32 at most are sent.
pub const fn ack_len(blocks: usize) -> usize {
    LONGEST + BLOCK * if blocks < MAX_SACK_BLOCKS { blocks } else { MAX_SACK_BLOCKS }
}

/// SACK blocks of an ACK that fits a datagram of `bytes` whatever its numbers are.
pub(crate) fn most_blocks(bytes: usize) -> usize {
    (bytes.saturating_sub(LONGEST) / BLOCK).min(MAX_SACK_BLOCKS)
}

/// Writes an ACK and gives its length; `out` has [`ack_len`] bytes. The blocks ascend and do not
/// touch; those after the 32nd are left off.
pub fn encode_ack(connection_id: u64, ack: &Ack, blocks: &[SackBlock], out: &mut [u8]) -> usize {
    let blocks = &blocks[..blocks.len().min(MAX_SACK_BLOCKS)];
    #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
    let mut info = blocks.len() as u16;
    let has_marks = ack.ce != 0 || ack.ect != 0;
    info |= if has_marks { HAS_MARKS } else { 0 };
    info |= ack.overflow.map_or(0, |_| HAS_OVERFLOW);
    header::begin(kind::ACK, info, connection_id, out);
    let largest_received = seq::wrap(ack.largest_received);
    put(out, HEADER, largest_received.to_le_bytes());
    let mut at = ACK_HEADER;
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
    header::seal(&mut out[..at], 0);
    at
}

/// Transmissions up to the largest that did not arrive, less copies that the network made. Gives
/// the count of packets if it is passed this number.
fn missing(largest_received: u32, packets: u32) -> u32 {
    largest_received.wrapping_add(1).wrapping_sub(packets)
}

/// Writes a FIN-ACK; `out` has [`FIN_ACK_LEN`] bytes.
pub(crate) fn encode_fin_ack(connection_id: u64, fin_ack: &FinAck, out: &mut [u8]) {
    header::begin(kind::FIN_ACK, 0, connection_id, out);
    put(out, HEADER, fin_ack.length.to_le_bytes());
    put(out, HEADER + 8, fin_ack.crc.to_le_bytes());
    put(out, HEADER + 12, [STORED]);
    header::seal(&mut out[..FIN_ACK_LEN], 0);
}

pub(super) fn decode_ack(datagram: &[u8], near: u64) -> Result<(Ack, SackBlocks<'_>), WireError> {
    let (head, mut rest) = datagram.split_first_chunk::<ACK_HEADER>().ok_or(WireError::Truncated)?;
    check::verify(datagram, 0)?;
    let info = info(head);
    if info & !(BLOCKS | HAS_MARKS | HAS_OVERFLOW) != 0 {
        return Err(WireError::Reserved);
    }
    let low = u32_at(head, HEADER);
    let largest_received = stream::transmission(low, near)?;
    let echo_delay_us = varint::take_u32(&mut rest)?;
    let ack = varint::take(&mut rest)?;
    let window = varint::take(&mut rest)?;
    ack.checked_add(window).ok_or(WireError::Window)?;
    let packets = missing(low, varint::take_u32(&mut rest)?);
    let duplicates = varint::take_u32(&mut rest)?;
    let (mut ce, mut ect) = (0, 0);
    if info & HAS_MARKS != 0 {
        ce = varint::take_u32(&mut rest)?;
        ect = packets.wrapping_sub(varint::take_u32(&mut rest)?).wrapping_sub(ce);
    }
    let sack = take_blocks(ack, usize::from(info & BLOCKS), &mut rest)?;
    let overflow = if info & HAS_OVERFLOW == 0 { None } else { Some(varint::take_u32(&mut rest)?) };
    if !rest.is_empty() {
        return Err(WireError::Length);
    }
    let ack = Ack { largest_received, echo_delay_us, ack, window, packets, duplicates, ce, ect, overflow };
    Ok((ack, sack))
}

/// Checks `count` blocks at the beginning of `rest` and takes them off it.
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

pub(super) fn decode_fin_ack(datagram: &[u8]) -> Result<FinAck, WireError> {
    let packet = exact::<FIN_ACK_LEN>(datagram)?;
    no_info(packet)?;
    if packet[HEADER + 12] != STORED {
        return Err(WireError::Reserved);
    }
    Ok(FinAck { length: u64_at(packet, HEADER), crc: u32_at(packet, HEADER + 8) })
}
