//! DATA and FIN packets. Each has a transmission number, unique in a transfer.

use super::super::{WireError, seq};
use super::check;
use super::header::{self, HEADER, exact, info, kind, no_info, put, u32_at, u64_at};
use crate::crc;

/// Length of a DATA packet's header, bytes.
pub const DATA_HEADER: usize = HEADER + 12;
/// Length of a FIN, bytes.
pub(crate) const FIN_LEN: usize = HEADER + 16;

const TX: usize = HEADER;
const OFFSET: usize = HEADER + 4;
const ACK_NOW: u16 = 1;
/// Bits 1 to 15 of the flags: [`DataHeader::ack_every`].
const ACK_EVERY_SHIFT: u32 = 1;
/// Largest value of [`DataHeader::ack_every`].
pub(crate) const MAX_ACK_EVERY: u16 = u16::MAX >> ACK_EVERY_SHIFT;

/// DATA packet, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Header fields.
    pub header: DataHeader,
    /// Payload; empty in a keep-alive. `offset` plus its length is at most 2^64 - 1.
    pub payload: &'a [u8],
    /// CRC-32 of `payload`.
    pub payload_crc: u32,
}

/// Header fields of a DATA packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// Number of this transmission.
    pub packet_number: u64,
    /// Stream offset of the payload, bytes.
    pub offset: u64,
    /// True if the sender requests an immediate ACK.
    pub ack_now: bool,
    /// Largest number of packets per ACK that the sender requests, at most `MAX_ACK_EVERY`. 0: as
    /// in the transport parameters.
    pub ack_every: u16,
}

/// FIN: ends the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fin {
    /// Number of this transmission.
    pub packet_number: u64,
    /// Length of the stream, bytes.
    pub length: u64,
    /// CRC-32 of the stream.
    pub crc: u32,
}

/// Writes the header of a DATA packet into the first [`DATA_HEADER`] bytes of `out`. The payload
/// that follows has the CRC-32 `payload_crc`.
pub fn encode_data_header(connection_id: u64, data: &DataHeader, payload_crc: u32, out: &mut [u8]) {
    let flags = data.ack_every << ACK_EVERY_SHIFT | if data.ack_now { ACK_NOW } else { 0 };
    // Built in a local array because the check reads it: zero-copy memory is slow to read back.
    let mut head = [0; DATA_HEADER];
    header::begin(kind::DATA, flags, connection_id, &mut head);
    put(&mut head, TX, seq::wrap(data.packet_number).to_le_bytes());
    put(&mut head, OFFSET, data.offset.to_le_bytes());
    header::seal(&mut head, payload_crc);
    out[..DATA_HEADER].copy_from_slice(&head);
}

/// Writes a FIN; `out` has [`FIN_LEN`] bytes.
pub(crate) fn encode_fin(connection_id: u64, fin: &Fin, out: &mut [u8]) {
    header::begin(kind::FIN, 0, connection_id, out);
    put(out, TX, seq::wrap(fin.packet_number).to_le_bytes());
    put(out, HEADER + 4, fin.length.to_le_bytes());
    put(out, HEADER + 12, fin.crc.to_le_bytes());
    header::seal(&mut out[..FIN_LEN], 0);
}

pub(super) fn decode_data(datagram: &[u8], near: u64) -> Result<Data<'_>, WireError> {
    let (head, payload, payload_crc) = split(datagram)?;
    let flags = info(head);
    let offset = u64_at(head, OFFSET);
    offset.checked_add(payload.len() as u64).ok_or(WireError::Sequence)?;
    let packet_number = transmission(u32_at(head, TX), near)?;
    let header = DataHeader {
        packet_number,
        offset,
        ack_now: flags & ACK_NOW != 0,
        ack_every: flags >> ACK_EVERY_SHIFT,
    };
    Ok(Data { header, payload, payload_crc })
}

pub(super) fn decode_fin(datagram: &[u8], near: u64) -> Result<Fin, WireError> {
    let packet = exact::<FIN_LEN>(datagram)?;
    no_info(packet)?;
    Ok(Fin {
        packet_number: transmission(u32_at(packet, TX), near)?,
        length: u64_at(packet, HEADER + 4),
        crc: u32_at(packet, HEADER + 12),
    })
}

/// Unwraps a transmission number around `near`.
pub(super) fn transmission(low: u32, near: u64) -> Result<u64, WireError> {
    seq::unwrap_near(low, near).ok_or(WireError::Sequence)
}

/// Verifies the check and returns the header, the payload and its CRC-32.
fn split(datagram: &[u8]) -> Result<(&[u8; DATA_HEADER], &[u8], u32), WireError> {
    let (head, payload) = datagram.split_first_chunk().ok_or(WireError::Truncated)?;
    let payload_crc = crc::hash(payload);
    check::verify(head, payload_crc)?;
    Ok((head, payload, payload_crc))
}
