//! Common header of all packets (16 bytes), and reading and writing of numbers at fixed positions.

use super::super::{PacketKind, WireError};
use super::check;

/// Version of this module, 1 to 15.
pub(crate) const VERSION: u8 = 1;
/// Length of the common header, bytes.
pub(crate) const HEADER: usize = 16;

/// High half of byte 0 of every packet; the low half is the version.
pub(in super::super) const MARK: u8 = 0xD0;
/// Byte 1 of a packet in the classic format, and so never a type here.
const CLASSIC: u8 = 0xAA;

/// True for a packet of any version of this format, judging by the first two bytes. Other datagrams
/// are classic.
pub(crate) fn recognize(datagram: &[u8]) -> bool {
    matches!(datagram, [mark, kind, ..] if mark & 0xF0 == MARK && *kind != CLASSIC)
}

/// Returns the connection ID of a datagram, to find its sender or receiver; `None` if it is too
/// short or of another format. Not verified before the datagram is decoded.
pub fn connection_id(datagram: &[u8]) -> Option<u64> {
    let header = datagram.first_chunk::<HEADER>()?;
    recognize(datagram).then(|| u64_at(header, 8))
}

/// Returns the kind of a packet of this version. Does not verify the check.
pub(in super::super) fn kind_of(datagram: &[u8]) -> Result<PacketKind, WireError> {
    let header = datagram.first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
    if !recognize(header) {
        return Err(WireError::Magic);
    }
    let kind = header[1];
    // VERSIONS has version 0, so that senders of every version can decode it.
    let expected = if kind == PacketKind::Versions as u8 { 0 } else { VERSION };
    if header[0] != MARK | expected {
        return Err(WireError::Version);
    }
    PacketKind::from_type(kind).ok_or(WireError::Type)
}

/// Returns the version of a SYN. Does not verify the check.
pub(super) fn version_of_syn(datagram: &[u8]) -> Option<u8> {
    let version = datagram.first().filter(|_| recognize(datagram))? & 0x0F;
    (version != 0 && datagram[1] == PacketKind::Syn as u8).then_some(version)
}

/// Verifies the check and the exact length of a packet without payload.
pub(super) fn exact<const N: usize>(datagram: &[u8]) -> Result<&[u8; N], WireError> {
    if datagram.len() < N {
        return Err(WireError::Truncated);
    }
    let packet = datagram.try_into().map_err(|_| WireError::Length)?;
    check::verify(datagram, 0)?;
    Ok(packet)
}

/// Returns the type-specific field (16 bits).
pub(super) fn info<const N: usize>(packet: &[u8; N]) -> u16 {
    u16_at(packet, 2)
}

/// Requires the type-specific field, unused by this type, to be zero.
pub(super) fn no_info<const N: usize>(packet: &[u8; N]) -> Result<(), WireError> {
    if info(packet) == 0 { Ok(()) } else { Err(WireError::Reserved) }
}

/// Writes the common header with a check of zero.
pub(super) fn begin(kind: PacketKind, info: u16, connection_id: u64, out: &mut [u8]) {
    let version = if kind == PacketKind::Versions { 0 } else { VERSION };
    out[..2].copy_from_slice(&[MARK | version, kind as u8]);
    put(out, 2, info.to_le_bytes());
    put(out, 4, [0; 4]);
    put(out, 8, connection_id.to_le_bytes());
}

/// Writes the check of a packet. Its payload, not in `packet`, has the CRC-32 `payload_crc` (0 if
/// empty).
pub(super) fn seal(packet: &mut [u8], payload_crc: u32) {
    put(packet, 4, check::of(packet, payload_crc).to_le_bytes());
}

/// Writes little-endian bytes at index `at`, which must be inside `out`.
pub(in super::super) fn put<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

/// Reads 16 bits at index `at`, which must be inside the array.
pub(in super::super) fn u16_at<const N: usize>(packet: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([packet[at], packet[at + 1]])
}

pub(in super::super) fn u32_at<const N: usize>(packet: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

pub(in super::super) fn u64_at<const N: usize>(packet: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(packet, at)) | u64::from(u32_at(packet, at + 4)) << 32
}
