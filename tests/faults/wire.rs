//! Packets of a connection without a cipher (`docs/PROTOCOL.md`), decoded and forged without the
//! codec that is under test.

use rdt_testing::packets;

pub(super) const SYN: u8 = 1;
pub(super) const DATA: u8 = 4;
pub(super) const ACK: u8 = 6;
pub(super) const FIN: u8 = 7;
pub(super) const FIN_ACK: u8 = 8;
pub(super) const CLOSE: u8 = 9;
pub(super) const AUTH: u8 = 11;
pub(super) const PATH: u8 = 12;
/// First byte of every packet.
const MARK: u8 = 0xD2;
/// Bits of the type-specific field: the key phase.
const PHASE: u16 = 0b11;
/// Bit of it: an ACK precedes the payload.
const HAS_ACK: u16 = 1 << 3;
/// Bits of the first field of an ACK.
const BLOCKS: u16 = 0x3F;
const HAS_ECN: u16 = 1 << 14;
const HAS_DROPS: u16 = 1 << 15;

/// Decoded sealed packet.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    pub(super) kind: u8,
    /// Key phase modulo 4.
    pub(super) phase: u16,
    pub(super) number: u32,
    pub(super) id: u64,
    /// Offset of the payload (DATA), or length of the stream (FIN, FIN-ACK).
    pub(super) offset: u64,
    pub(super) ack: Option<Ack>,
    pub(super) payload: &'a [u8],
}

/// Fields of an ACK without ECN counts and drops.
#[derive(Debug, Clone)]
pub(super) struct Ack {
    pub(super) largest: u32,
    pub(super) delay_us: u64,
    pub(super) cumulative: u64,
    pub(super) window: u64,
    pub(super) missing: u64,
    pub(super) duplicates: u64,
    /// First byte of each SACK block and one past its last.
    pub(super) blocks: Vec<(u64, u64)>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Decodes a number of variable length and advances `rest`.
fn take_varint(rest: &mut &[u8]) -> u64 {
    let len = 1 + rest.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let (bytes, tail) = rest.split_at(len);
    *rest = tail;
    bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
}

/// Decodes an ACK and advances `rest`.
fn take_ack(rest: &mut &[u8]) -> Ack {
    let (flags, largest) = (u16_at(rest, 0), u32_at(rest, 2));
    // The time of the ACK follows.
    *rest = &rest[10..];
    let [delay_us, cumulative, window, missing, duplicates] = std::array::from_fn(|_| take_varint(rest));
    if flags & HAS_ECN != 0 {
        take_varint(rest);
        take_varint(rest);
    }
    let mut edge = cumulative;
    let blocks = (0..flags & BLOCKS).map(|_| {
        let start = edge + take_varint(rest);
        edge = start + take_varint(rest);
        (start, edge)
    });
    let blocks = blocks.collect();
    if flags & HAS_DROPS != 0 {
        take_varint(rest);
    }
    Ack { largest, delay_us, cumulative, window, missing, duplicates, blocks }
}

/// Returns the connection ID of a packet of this kind, sealed or not.
pub(super) fn id_of(datagram: &[u8], kind: u8) -> Option<u64> {
    let header = datagram.first_chunk::<16>().filter(|header| header[0] == MARK && header[1] == kind)?;
    Some(u64_at(header, 8))
}

/// True for a sealed packet, by its first bytes.
pub(super) fn is_sealed(header: &[u8]) -> bool {
    header[0] == MARK && matches!(header[1], DATA | ACK | FIN | FIN_ACK | CLOSE | PATH)
}

/// Decodes a sealed packet. `None` for others, and for damaged ones.
pub(super) fn decode(datagram: &[u8]) -> Option<Packet<'_>> {
    let mut rest = packets::unencrypted_body(datagram).filter(|_| is_sealed(datagram))?;
    let kind = datagram[1];
    let (phase, number, id) = (u16_at(datagram, 2) & PHASE, u32_at(datagram, 4), u64_at(datagram, 8));
    let mut offset = 0;
    if matches!(kind, DATA | FIN | FIN_ACK) {
        offset = u64_at(rest, 0);
        rest = &rest[8..];
    }
    let has_ack = matches!(kind, DATA | FIN) && u16_at(datagram, 2) & HAS_ACK != 0;
    let ack = (kind == ACK || has_ack).then(|| take_ack(&mut rest));
    Some(Packet { kind, phase, number, id, offset, ack, payload: rest })
}

/// Returns an ACK packet with the header of `datagram`, another one, but the next number.
pub(super) fn forge_ack(datagram: &[u8], ack: &Ack) -> Vec<u8> {
    let mut body = u16::try_from(ack.blocks.len()).unwrap().to_le_bytes().to_vec();
    body.extend(ack.largest.to_le_bytes());
    body.extend([0; 4]);
    let mut edge = ack.cumulative;
    let fields = [ack.delay_us, ack.cumulative, ack.window, ack.missing, ack.duplicates].into_iter();
    let steps = ack.blocks.iter().flat_map(|(start, end)| {
        let before = std::mem::replace(&mut edge, *end);
        [start - before, end - start]
    });
    fields.chain(steps).for_each(|value| packets::varint(value, &mut body));
    packets::unencrypted(ACK, u16_at(datagram, 2), u32_at(datagram, 4) + 1, u64_at(datagram, 8), &body)
}
