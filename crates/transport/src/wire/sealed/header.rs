//! Common header of all packets (16 bytes), and the kinds of packets by their first two bytes.

use rdt_crypto::{HEADER_BYTES, Space, TAG_BYTES};

use super::super::native::header::{MARK, put, u16_at, u32_at, u64_at};
use super::super::{PacketKind, WireError, wrap};
use super::VERSION;

/// Length of the common header, bytes. In a sealed packet it is the associated data.
pub(crate) const HEADER: usize = HEADER_BYTES;
/// Length of the tag at the end of a sealed packet, bytes.
pub(crate) const TAG: usize = TAG_BYTES;
/// Length of the shortest sealed packet, bytes: a CLOSE without text.
pub(super) const SEALED_MIN: usize = HEADER + 6 + TAG;

/// Bits 0 and 1 of the type-specific field of a sealed packet: key phase modulo 4.
const PHASE: u16 = 0b11;

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

    /// Returns the space of the packet's number.
    pub(crate) fn space(&self) -> Space {
        match self.kind {
            PacketKind::Data | PacketKind::Fin => Space::Data,
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

/// Byte 0 of every packet of version 2, and of no packet of another version or of the classic
/// format.
pub const FIRST_BYTE: u8 = MARK | VERSION;

/// True for a packet of version 2, judging by the first two bytes.
pub(crate) fn recognize(datagram: &[u8]) -> bool {
    matches!(datagram, [mark, kind, ..] if *mark == MARK | VERSION && kind_of_type(*kind).is_some())
}

/// Returns the connection ID of a packet of version 2. Not authenticated.
pub(crate) fn connection_id(datagram: &[u8]) -> Option<u64> {
    let header = datagram.first_chunk::<HEADER>()?;
    recognize(header).then(|| u64_at(header, 8))
}

/// Returns the header of a sealed packet, before it is opened. `None` for other datagrams.
#[inline]
pub(crate) fn peek(datagram: &[u8]) -> Option<Header> {
    let header = datagram.first_chunk::<HEADER>().filter(|_| datagram.len() >= SEALED_MIN)?;
    if header[0] != MARK | VERSION {
        return None;
    }
    let kind = kind_of_type(header[1]).filter(|kind| is_sealed(*kind))?;
    let (info, number, connection_id) = (u16_at(header, 2), u32_at(header, 4), u64_at(header, 8));
    Some(Header { kind, info, number, connection_id })
}

/// Returns the kind of a packet that is not sealed.
pub(super) fn clear_kind(datagram: &[u8]) -> Result<PacketKind, WireError> {
    let header = datagram.first_chunk::<HEADER>().ok_or(WireError::Truncated)?;
    if header[0] != MARK | VERSION {
        return Err(WireError::Version);
    }
    kind_of_type(header[1]).filter(|kind| !is_sealed(*kind)).ok_or(WireError::Type)
}

/// Writes the common header. `word` is the check, or the low bits of the packet's number.
pub(super) fn begin(kind: PacketKind, info: u16, word: u32, connection_id: u64, out: &mut [u8]) {
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&[MARK | VERSION, kind as u8]);
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

const fn kind_of_type(number: u8) -> Option<PacketKind> {
    Some(match number {
        1 => PacketKind::Syn,
        2 => PacketKind::Retry,
        3 => PacketKind::SynAck,
        4 => PacketKind::Data,
        6 => PacketKind::Ack,
        7 => PacketKind::Fin,
        8 => PacketKind::FinAck,
        9 => PacketKind::Close,
        11 => PacketKind::Auth,
        12 => PacketKind::Path,
        13 => PacketKind::Reset,
        14 => PacketKind::Refuse,
        _ => return None,
    })
}

const fn is_sealed(kind: PacketKind) -> bool {
    matches!(
        kind,
        PacketKind::Data
            | PacketKind::Ack
            | PacketKind::Fin
            | PacketKind::FinAck
            | PacketKind::Close
            | PacketKind::Path
    )
}
