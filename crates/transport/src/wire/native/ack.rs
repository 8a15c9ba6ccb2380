//! What a receiver says of the stream: ACK and FIN-ACK.

use super::super::{WireError, seq};
use super::header::{self, HEADER, exact, info, kind, no_info, put, u32_at, u64_at};
use super::{check, stream};

/// Bytes of an ACK before its SACK blocks.
pub const ACK_HEADER: usize = HEADER + 40;
/// SACK blocks of an ACK at most.
pub const MAX_SACK_BLOCKS: usize = 32;
/// Bytes of a FIN-ACK, exactly.
pub const FIN_ACK_LEN: usize = HEADER + 13;

/// Bytes of a SACK block.
const BLOCK: usize = 16;
/// Bytes of the count of messages that a socket refused.
const OVERFLOW: usize = 4;
/// That the count follows the blocks, beside their number.
const HAS_OVERFLOW: u16 = 1 << 15;
/// The status of a transfer that is stored; others are reserved.
const STORED: u8 = 0;

/// What a receiver has and takes, without the blocks beyond holes. Counts wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Largest number among the transmissions received.
    pub echo_tx: u64,
    /// From the arrival of that one to this ACK, in microseconds; what takes longer stays at the maximum.
    pub echo_delay_us: u32,
    /// Everything below this offset is here (`rcv_nxt`), in bytes.
    pub ack: u64,
    /// Bytes from `ack` on that the receiver takes; the two do not add up to more than 2^64 - 1.
    pub window: u64,
    /// DATA packets received whose check was right, duplicates included.
    pub packets: u32,
    /// Those of them with bytes that were all here before.
    pub duplicates: u32,
    /// Those of `packets` that arrived with the mark CE (RFC 3168).
    pub ce: u32,
    /// Those of `packets` that arrived with ECT(0) or ECT(1).
    pub ect: u32,
    /// Messages, of whomever, that found the buffer of the receiver's socket full since it took the SYN; for a sender that
    /// asked for it.
    pub overflow: Option<u32>,
}

impl Ack {
    /// Bytes with so many SACK blocks; those after the 32nd are left off.
    pub fn len(&self, blocks: usize) -> usize {
        ack_len(blocks) + self.overflow.map_or(0, |_| OVERFLOW)
    }
}

/// Bytes of the stream that are here, beyond a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlock {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

/// The SACK blocks of an ACK, read as they are asked for. Each has `ack < start < end`; nothing is promised
/// of their order, and they may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks<'a> {
    blocks: &'a [[u8; BLOCK]],
}

impl<'a> SackBlocks<'a> {
    /// The blocks in the order in which they were sent, at most [`MAX_SACK_BLOCKS`].
    pub fn iter(self) -> impl ExactSizeIterator<Item = SackBlock> + DoubleEndedIterator + 'a {
        self.blocks.iter().map(|block| SackBlock { start: u64_at(block, 0), end: u64_at(block, 8) })
    }

    /// Their number.
    pub fn len(self) -> usize {
        self.blocks.len()
    }

    /// True if nothing is known beyond `ack`.
    pub fn is_empty(self) -> bool {
        self.blocks.is_empty()
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

/// Bytes of an ACK with so many SACK blocks and nothing beside; those after the 32nd are left off.
pub fn ack_len(blocks: usize) -> usize {
    ACK_HEADER + BLOCK * blocks.min(MAX_SACK_BLOCKS)
}

/// SACK blocks of the longest ACK that fits a datagram of `bytes`, and has a count of overflow or none.
pub(crate) fn most_blocks(bytes: usize, overflow: bool) -> usize {
    let rest = bytes.saturating_sub(ACK_HEADER + if overflow { OVERFLOW } else { 0 });
    (rest / BLOCK).min(MAX_SACK_BLOCKS)
}

/// Writes an ACK; `out` has [`Ack::len`] bytes. The block that changed last comes first (RFC 2018, section
/// 4); those after the 32nd are left off.
pub fn encode_ack(connection_id: u64, ack: &Ack, blocks: &[SackBlock], out: &mut [u8]) {
    let blocks = &blocks[..blocks.len().min(MAX_SACK_BLOCKS)];
    #[expect(clippy::cast_possible_truncation, reason = "at most 32")]
    let count = blocks.len() as u16;
    let flag = ack.overflow.map_or(0, |_| HAS_OVERFLOW);
    header::begin(kind::ACK, count | flag, connection_id, out);
    put(out, HEADER, seq::wrap(ack.echo_tx).to_le_bytes());
    put(out, HEADER + 4, ack.echo_delay_us.to_le_bytes());
    put(out, HEADER + 8, ack.ack.to_le_bytes());
    put(out, HEADER + 16, ack.window.to_le_bytes());
    put(out, HEADER + 24, ack.packets.to_le_bytes());
    put(out, HEADER + 28, ack.duplicates.to_le_bytes());
    put(out, HEADER + 32, ack.ce.to_le_bytes());
    put(out, HEADER + 36, ack.ect.to_le_bytes());
    for (slot, block) in out[ACK_HEADER..].chunks_exact_mut(BLOCK).zip(blocks) {
        put(slot, 0, block.start.to_le_bytes());
        put(slot, 8, block.end.to_le_bytes());
    }
    if let Some(overflow) = ack.overflow {
        put(out, ack_len(blocks.len()), overflow.to_le_bytes());
    }
    header::seal(&mut out[..ack.len(blocks.len())], 0);
}

/// Writes a FIN-ACK; `out` has [`FIN_ACK_LEN`] bytes.
pub fn encode_fin_ack(connection_id: u64, fin_ack: &FinAck, out: &mut [u8]) {
    header::begin(kind::FIN_ACK, 0, connection_id, out);
    put(out, HEADER, fin_ack.length.to_le_bytes());
    put(out, HEADER + 8, fin_ack.crc.to_le_bytes());
    put(out, HEADER + 12, [STORED]);
    header::seal(&mut out[..FIN_ACK_LEN], 0);
}

pub(super) fn decode_ack(datagram: &[u8], near_tx: u64) -> Result<(Ack, SackBlocks<'_>), WireError> {
    let (head, rest) = datagram.split_first_chunk::<ACK_HEADER>().ok_or(WireError::Truncated)?;
    check::verify(datagram, 0)?;
    let (rest, overflow) = match rest.split_last_chunk::<OVERFLOW>() {
        _ if info(head) & HAS_OVERFLOW == 0 => (rest, None),
        Some((rest, count)) => (rest, Some(u32::from_le_bytes(*count))),
        None => return Err(WireError::Length),
    };
    let (blocks, tail) = rest.as_chunks::<BLOCK>();
    if !tail.is_empty() || blocks.len() != usize::from(info(head) & !HAS_OVERFLOW) {
        return Err(WireError::Length);
    }
    let ack = Ack {
        echo_tx: stream::transmission(u32_at(head, HEADER), near_tx)?,
        echo_delay_us: u32_at(head, HEADER + 4),
        ack: u64_at(head, HEADER + 8),
        window: u64_at(head, HEADER + 16),
        packets: u32_at(head, HEADER + 24),
        duplicates: u32_at(head, HEADER + 28),
        ce: u32_at(head, HEADER + 32),
        ect: u32_at(head, HEADER + 36),
        overflow,
    };
    ack.ack.checked_add(ack.window).ok_or(WireError::Window)?;
    let sack = SackBlocks { blocks };
    if blocks.len() > MAX_SACK_BLOCKS || sack.iter().any(|b| b.start <= ack.ack || b.end <= b.start) {
        return Err(WireError::Sack);
    }
    Ok((ack, sack))
}

pub(super) fn decode_fin_ack(datagram: &[u8]) -> Result<FinAck, WireError> {
    let packet = exact::<FIN_ACK_LEN>(datagram)?;
    no_info(packet)?;
    if packet[HEADER + 12] != STORED {
        return Err(WireError::Reserved);
    }
    Ok(FinAck { length: u64_at(packet, HEADER), crc: u32_at(packet, HEADER + 8) })
}
