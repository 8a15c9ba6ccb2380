//! Common header of all packets (16 bytes), and the kinds of packets by their first two bytes.

use rdt_crypto::{HEADER_BYTES, Space, TAG_BYTES};

use super::super::PacketKind::{
    self, Ack, Auth, Close, Data, Fin, FinAck, Open, OpenAck, Path, Refuse, Reset, Retry, Syn, SynAck,
    Versions,
};
use super::super::{WireError, wrap};
use super::VERSION;

/// Length of the common header, bytes. In a sealed packet it is the associated data.
pub(crate) const HEADER: usize = HEADER_BYTES;
/// Length of the tag at the end of a sealed packet, bytes.
pub(crate) const TAG: usize = TAG_BYTES;
/// Length of the shortest sealed packet, bytes: a CLOSE without text.
pub(super) const SEALED_MIN: usize = HEADER + 6 + TAG;

/// High half of byte 0 of every packet of the format; the low half is the version.
const MARK: u8 = 0xD0;
/// Byte 0 of every packet of this version.
const FIRST_BYTE: u8 = MARK | VERSION;
/// Byte 0 of VERSIONS, so that initiators of every version can decode it.
const NO_VERSION: u8 = MARK;
/// Byte 1 of a packet in the classic format, and so never a type here.
const CLASSIC: u8 = 0xAA;

/// Bits 0 and 1 of the type-specific field of a sealed packet: key phase modulo 4.
const PHASE: u16 = 0b11;

/// Kinds of packets by their numbers, from 1.
const KINDS: [PacketKind; 15] =
    [Syn, Retry, SynAck, Data, OpenAck, Ack, Fin, FinAck, Close, Versions, Auth, Path, Reset, Refuse, Open];

/// Key phases that the field can tell apart.
pub(crate) const PHASES: u8 = 4;

/// Header of a sealed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Kind of the packet.
    pub(crate) kind: PacketKind,
    /// Type-specific field: key phase and flags.
    info: u16,
    /// Low 32 bits of the packet's number in its space.
    pub(crate) number: u32,
    /// Connection ID of the side that receives the packet.
    pub(crate) connection_id: u64,
}

impl Header {
    /// Returns the key phase modulo 4.
    pub(crate) fn phase(&self) -> u8 {
        (self.info & PHASE).to_le_bytes()[0]
    }

    pub(crate) fn space(&self) -> Space {
        match self.kind {
            Data | Fin => Space::Data,
            _ => Space::Control,
        }
    }

    /// True if `other` has the same kind and connection ID.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && self.connection_id == other.connection_id
    }

    /// Returns the type-specific field without the key phase.
    pub(super) fn flags(&self) -> u16 {
        self.info & !PHASE
    }

    /// True if the type-specific field has more than the key phase.
    pub(super) fn has_flags(&self) -> bool {
        self.flags() != 0
    }
}

/// True for a packet of any native version, by the first two bytes. Other datagrams are classic.
pub fn recognize(datagram: &[u8]) -> bool {
    matches!(datagram, [mark, kind, ..] if mark & 0xF0 == MARK && *kind != CLASSIC)
}

/// Returns the connection ID of a packet of this version, or of VERSIONS. Not authenticated.
pub(crate) fn connection_id(datagram: &[u8]) -> Option<u64> {
    let header = datagram.first_chunk::<HEADER>()?;
    kind_of(header).map(|_| u64_at(header, 8))
}

/// Returns the version and the connection ID of a SYN of any version. Does not verify its check.
pub(super) fn peek_syn(datagram: &[u8]) -> Option<(u8, u64)> {
    let header = datagram.first_chunk::<HEADER>()?;
    let version = header[0] & 0x0F;
    let is_syn = recognize(header) && version != 0 && header[1] == Syn as u8;
    is_syn.then(|| (version, u64_at(header, 8)))
}

/// Returns the header of a sealed packet, before it is opened. `None` for other datagrams.
#[inline]
pub(crate) fn peek(datagram: &[u8]) -> Option<Header> {
    let header = datagram.first_chunk::<HEADER>().filter(|_| datagram.len() >= SEALED_MIN)?;
    let kind = kind_of(header).filter(|kind| is_sealed(*kind))?;
    let (info, number, connection_id) = (u16_at(header, 2), u32_at(header, 4), u64_at(header, 8));
    Some(Header { kind, info, number, connection_id })
}

pub(super) fn clear_kind(datagram: &[u8]) -> Result<PacketKind, WireError> {
    let header = datagram.first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
    if !matches!(header[0], FIRST_BYTE | NO_VERSION) {
        return Err(WireError::Version);
    }
    kind_of(header).filter(|kind| !is_sealed(*kind)).ok_or(WireError::Type)
}

/// Writes the common header. `word` is the check, or the low bits of the packet's number.
pub(super) fn begin(kind: PacketKind, info: u16, word: u32, connection_id: u64, out: &mut [u8]) {
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&[first_byte(kind), kind as u8]);
    put(&mut header, 2, info.to_le_bytes());
    put(&mut header, 4, word.to_le_bytes());
    put(&mut header, 8, connection_id.to_le_bytes());
    out[..HEADER].copy_from_slice(&header);
}

/// Writes the header of a sealed packet.
pub(super) fn begin_sealed(
    kind: PacketKind,
    (phase, flags): (u8, u16),
    number: u64,
    connection_id: u64,
    out: &mut [u8],
) {
    begin(kind, flags | u16::from(phase) & PHASE, wrap(number), connection_id, out);
}

/// Returns the kind of a packet of this version, or of VERSIONS.
#[inline]
fn kind_of(header: &[u8; HEADER]) -> Option<PacketKind> {
    let kind = *KINDS.get(usize::from(header[1]).wrapping_sub(1))?;
    (header[0] == first_byte(kind)).then_some(kind)
}

#[inline]
fn first_byte(kind: PacketKind) -> u8 {
    if kind == Versions { NO_VERSION } else { FIRST_BYTE }
}

const fn is_sealed(kind: PacketKind) -> bool {
    matches!(kind, Data | OpenAck | Ack | Fin | FinAck | Close | Path)
}

/// Writes little-endian bytes at index `at`, which must be inside `out`.
pub(super) fn put<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

/// Reads 16 bits at index `at`, which must be inside the array.
pub(super) fn u16_at<const N: usize>(packet: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([packet[at], packet[at + 1]])
}

pub(super) fn u32_at<const N: usize>(packet: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

pub(super) fn u64_at<const N: usize>(packet: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(packet, at)) | u64::from(u32_at(packet, at + 4)) << 32
}
