//! DATA and FIN packets. Each has a packet number, unique in a transfer.

use super::super::{DataHeader, PacketKind, Piece, WireError, unwrap_near, wrap};
use super::check;
use super::header::{self, HEADER, exact, info, no_info, put, u32_at, u64_at};
use crate::crc;

/// Length of a DATA packet's header, bytes.
pub(crate) const DATA_HEADER: usize = HEADER + 12;
/// Length of a FIN, bytes.
pub(crate) const FIN_LEN: usize = HEADER + 16;

const PACKET_NUMBER: usize = HEADER;
const OFFSET: usize = HEADER + 4;
const ACK_NOW: u16 = 1;
/// Bits 1 to 15 of the flags: [`DataHeader::ack_every`].
const ACK_EVERY_SHIFT: u32 = 1;
/// Largest value of [`DataHeader::ack_every`].
pub(crate) const MAX_ACK_EVERY: u16 = u16::MAX >> ACK_EVERY_SHIFT;

/// FIN: ends the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fin {
    /// Number of this transmission.
    pub packet_number: u64,
    /// Length of the stream, bytes.
    pub length: u64,
    /// CRC-32 of the stream.
    pub crc: u32,
}

/// Writes the header of a DATA packet into the first [`DATA_HEADER`] bytes of `out`. The payload
/// that follows has the CRC-32 `payload_crc`.
pub(crate) fn encode_data_header(connection_id: u64, data: &DataHeader, payload_crc: u32, out: &mut [u8]) {
    let flags = data.ack_every << ACK_EVERY_SHIFT | if data.ack_now { ACK_NOW } else { 0 };
    // Built in a local array because the check reads it: zero-copy memory is slow to read back.
    let mut head = [0; DATA_HEADER];
    header::begin(PacketKind::Data, flags, connection_id, &mut head);
    put(&mut head, PACKET_NUMBER, wrap(data.packet_number).to_le_bytes());
    put(&mut head, OFFSET, data.seq.to_le_bytes());
    header::seal(&mut head, payload_crc);
    out[..DATA_HEADER].copy_from_slice(&head);
}

/// Writes a FIN; `out` has [`FIN_LEN`] bytes.
pub(crate) fn encode_fin(connection_id: u64, fin: &Fin, out: &mut [u8]) {
    header::begin(PacketKind::Fin, 0, connection_id, out);
    put(out, PACKET_NUMBER, wrap(fin.packet_number).to_le_bytes());
    put(out, HEADER + 4, fin.length.to_le_bytes());
    put(out, HEADER + 12, fin.crc.to_le_bytes());
    header::seal(&mut out[..FIN_LEN], 0);
}

pub(in super::super) fn decode_data(datagram: &[u8], near: u64) -> Result<Piece<'_>, WireError> {
    let (head, payload, payload_crc) = split(datagram)?;
    let (flags, seq) = (info(head), u64_at(head, OFFSET));
    seq.checked_add(payload.len() as u64).ok_or(WireError::Sequence)?;
    Ok(Piece {
        seq,
        payload,
        packet_number: Some(transmission(u32_at(head, PACKET_NUMBER), near)?),
        crc: Some(payload_crc),
        ack_now: flags & ACK_NOW != 0,
        ack_every: flags >> ACK_EVERY_SHIFT,
    })
}

pub(in super::super) fn decode_fin(datagram: &[u8], near: u64) -> Result<Fin, WireError> {
    let packet = exact::<FIN_LEN>(datagram)?;
    no_info(packet)?;
    Ok(Fin {
        packet_number: transmission(u32_at(packet, PACKET_NUMBER), near)?,
        length: u64_at(packet, HEADER + 4),
        crc: u32_at(packet, HEADER + 12),
    })
}

/// Unwraps a packet number around `near`.
pub(in super::super) fn transmission(low: u32, near: u64) -> Result<u64, WireError> {
    unwrap_near(low, near).ok_or(WireError::Sequence)
}

/// Verifies the check and returns the header, the payload and its CRC-32.
fn split(datagram: &[u8]) -> Result<(&[u8; DATA_HEADER], &[u8], u32), WireError> {
    let (head, payload) = datagram.split_first_chunk().ok_or(WireError::Truncated)?;
    let payload_crc = crc::hash(payload);
    check::verify(head, payload_crc)?;
    Ok((head, payload, payload_crc))
}
