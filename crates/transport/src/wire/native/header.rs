//! What every packet begins with, and the reading and writing of numbers at fixed places. Knows no
//! field beyond the first 16 bytes.

use super::super::WireError;
use super::check;

/// The version that this module speaks, 1 to 15.
pub(crate) const VERSION: u8 = 1;
/// Bytes that every packet begins with.
pub(crate) const HEADER: usize = 16;

/// High half of byte 0 of every packet; the low half is the version.
const MARK: u8 = 0xD0;
/// Byte 1 of a packet in the classic format, and so never a type here.
const CLASSIC: u8 = 0xAA;

/// Packet types, byte 1. 5 is reserved: PROBE of earlier receivers.
pub(super) mod kind {
    pub(in super::super) const SYN: u8 = 1;
    pub(in super::super) const RETRY: u8 = 2;
    pub(in super::super) const SYN_ACK: u8 = 3;
    pub(in super::super) const DATA: u8 = 4;
    pub(in super::super) const ACK: u8 = 6;
    pub(in super::super) const FIN: u8 = 7;
    pub(in super::super) const FIN_ACK: u8 = 8;
    pub(in super::super) const CLOSE: u8 = 9;
    pub(in super::super) const VERSIONS: u8 = 10;
}

/// True for a packet of this format, whatever its version; all else is left to the classic one.
/// Looks at the first two bytes only.
pub fn recognize(datagram: &[u8]) -> bool {
    matches!(datagram, [mark, kind, ..] if mark & 0xF0 == MARK && *kind != CLASSIC)
}

/// The connection that a datagram says it belongs to, to find its machine by; `None` for one that
/// is too short or of another format. Nothing vouches for it before the datagram is decoded.
pub fn connection_id(datagram: &[u8]) -> Option<u64> {
    let header = datagram.first_chunk::<HEADER>()?;
    recognize(datagram).then(|| u64_at(header, 8))
}

/// The type of a packet of this version. Its check is not looked at.
pub(super) fn kind_of(datagram: &[u8]) -> Result<u8, WireError> {
    let header = datagram.first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
    if !recognize(header) {
        return Err(WireError::Magic);
    }
    let kind = header[1];
    // A VERSIONS packet is of version 0, so that senders of every version can read it.
    let expected = if kind == kind::VERSIONS { 0 } else { VERSION };
    if header[0] == MARK | expected { Ok(kind) } else { Err(WireError::Version) }
}

/// Versions other than ours that a SYN, checked or not, may be of: `None` for any other packet.
pub(super) fn other_version_of(datagram: &[u8]) -> Option<u8> {
    let version = datagram.first().filter(|_| recognize(datagram))? & 0x0F;
    (version != 0 && version != VERSION && datagram[1] == kind::SYN).then_some(version)
}

/// A packet without payload whose check is right and whose length is exactly `N`.
pub(super) fn exact<const N: usize>(datagram: &[u8]) -> Result<&[u8; N], WireError> {
    if datagram.len() < N {
        return Err(WireError::Truncated);
    }
    let packet = datagram.try_into().map_err(|_| WireError::Length)?;
    check::verify(datagram, 0)?;
    Ok(packet)
}

/// The type-specific half-word.
pub(super) fn info<const N: usize>(packet: &[u8; N]) -> u16 {
    u16_at(packet, 2)
}

/// An error unless the type-specific half-word, which this type does not use, is zero.
pub(super) fn no_info<const N: usize>(packet: &[u8; N]) -> Result<(), WireError> {
    if info(packet) == 0 { Ok(()) } else { Err(WireError::Reserved) }
}

/// Writes the first [`HEADER`] bytes, the check as zero.
pub(super) fn begin(kind: u8, info: u16, connection_id: u64, out: &mut [u8]) {
    let version = if kind == kind::VERSIONS { 0 } else { VERSION };
    out[..2].copy_from_slice(&[MARK | version, kind]);
    put(out, 2, info.to_le_bytes());
    put(out, 4, [0; 4]);
    put(out, 8, connection_id.to_le_bytes());
}

/// Fills in the check of a packet whose payload, if it has one, has the CRC-32 `payload_crc` and is
/// not in `packet`.
pub(super) fn seal(packet: &mut [u8], payload_crc: u32) {
    put(packet, 4, check::of(packet, payload_crc).to_le_bytes());
}

/// Writes little-endian bytes at a place that the caller knows to be inside.
pub(super) fn put<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

/// Reads at a constant place inside an array whose length was checked, as the two below do.
pub(super) fn u16_at<const N: usize>(packet: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([packet[at], packet[at + 1]])
}

pub(super) fn u32_at<const N: usize>(packet: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

pub(super) fn u64_at<const N: usize>(packet: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(packet, at)) | u64::from(u32_at(packet, at + 4)) << 32
}
