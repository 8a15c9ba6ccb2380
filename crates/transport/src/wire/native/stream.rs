//! DATA and FIN packets, numbered in the data space. Both may carry an ACK, before the payload.

use super::super::{Ack, DataHeader, PacketKind, Piece, WireError};
use super::Body;
use super::ack::take_ack;
use super::header::{self, HEADER, Header, TAG, put};

/// Length of a DATA packet before an ACK or the payload, bytes: header and sealed offset.
pub(crate) const DATA_HEADER: usize = HEADER + 8;
/// Length of a FIN before an ACK, bytes: header and sealed length of the stream.
pub(crate) const FIN_HEADER: usize = HEADER + 8;
/// Length of a FIN without an ACK, bytes.
pub(crate) const FIN_LEN: usize = FIN_HEADER + TAG;

/// Bit of the type-specific field: an ACK is wanted at once (DATA).
const ACK_NOW: u16 = 1 << 2;
/// Bit of the type-specific field: the packet carries an ACK.
const HAS_ACK: u16 = 1 << 3;
/// Bits 4 to 15 of the type-specific field: [`DataHeader::ack_every`].
const ACK_EVERY_SHIFT: u32 = 4;
/// Largest value of [`DataHeader::ack_every`].
pub(crate) const MAX_ACK_EVERY: u16 = u16::MAX >> ACK_EVERY_SHIFT;

/// Writes the first [`DATA_HEADER`] bytes of DATA. An ACK, if `has_ack`, payload and tag follow.
#[inline]
pub(crate) fn encode_data_header(
    connection_id: u64,
    phase: u8,
    data: &DataHeader,
    has_ack: bool,
    out: &mut [u8],
) {
    let flags = data.ack_every.min(MAX_ACK_EVERY) << ACK_EVERY_SHIFT
        | if data.ack_now { ACK_NOW } else { 0 }
        | if has_ack { HAS_ACK } else { 0 };
    header::begin_sealed(PacketKind::Data, (phase, flags), data.packet_number, connection_id, out);
    put(out, HEADER, data.seq.to_le_bytes());
}

/// Writes the first [`FIN_HEADER`] bytes of a FIN. An ACK, if `has_ack`, and the tag follow.
pub(crate) fn encode_fin_header(
    connection_id: u64,
    phase: u8,
    packet_number: u64,
    length: u64,
    has_ack: bool,
    out: &mut [u8],
) {
    let flags = if has_ack { HAS_ACK } else { 0 };
    header::begin_sealed(PacketKind::Fin, (phase, flags), packet_number, connection_id, out);
    put(out, HEADER, length.to_le_bytes());
}

#[inline]
pub(super) fn decode_data<'a>(
    header: &Header,
    packet_number: u64,
    body: &'a [u8],
    near: u64,
) -> Result<Body<'a>, WireError> {
    let (seq, mut payload) = split(body)?;
    let ack = optional_ack(header, &mut payload, near)?;
    seq.checked_add(payload.len() as u64).ok_or(WireError::Sequence)?;
    let (ack_now, ack_every) = ack_request(header);
    let packet_number = Some(packet_number);
    Ok(Body::Data { piece: Piece { seq, payload, packet_number, ack_now, ack_every }, ack })
}

/// Returns [`Piece::ack_now`] and [`Piece::ack_every`] of a DATA packet.
#[inline]
pub(super) fn ack_request(header: &Header) -> (bool, u16) {
    let flags = header.flags();
    (flags & ACK_NOW != 0, flags >> ACK_EVERY_SHIFT)
}

/// True if a DATA packet or FIN carries an ACK.
#[inline]
pub(super) fn has_ack(header: &Header) -> bool {
    header.flags() & HAS_ACK != 0
}

pub(super) fn decode_fin<'a>(header: &Header, body: &'a [u8], near: u64) -> Result<Body<'a>, WireError> {
    if header.flags() & !HAS_ACK != 0 {
        return Err(WireError::Reserved);
    }
    let (length, mut rest) = split(body)?;
    let ack = optional_ack(header, &mut rest, near)?;
    if rest.is_empty() { Ok(Body::Fin { length, ack }) } else { Err(WireError::Length) }
}

/// Splits the number at the start off.
#[inline]
fn split(body: &[u8]) -> Result<(u64, &[u8]), WireError> {
    let (number, rest) = body.split_first_chunk().ok_or(WireError::Truncated)?;
    Ok((u64::from_le_bytes(*number), rest))
}

#[inline]
fn optional_ack<'a>(header: &Header, rest: &mut &'a [u8], near: u64) -> Result<Option<Ack<'a>>, WireError> {
    if has_ack(header) { take_ack(rest, near).map(Some) } else { Ok(None) }
}
