//! Packets of both formats as bytes (docs/PROTOCOL.md), written without the encoders that are under
//! test.

/// Bytes of the native header.
pub const HEADER: usize = 16;
/// Bytes before the payload of DATA.
pub const DATA_HEADER: usize = 28;
/// Type of DATA.
const DATA: u8 = 4;

/// Returns a native packet of this type: header, body, and the correct check.
pub fn native(kind: u8, info: u16, connection_id: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![if kind == 10 { 0xD0 } else { 0xD1 }, kind];
    packet.extend(info.to_le_bytes());
    packet.extend([0; 4]);
    packet.extend(connection_id.to_le_bytes());
    packet.extend(body);
    seal(&mut packet);
    packet
}

/// Returns a packet of version 2 that is not sealed: header, body, and the correct check.
pub fn clear(kind: u8, info: u16, connection_id: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = native(kind, info, connection_id, body);
    packet[0] = 0xD2;
    seal(&mut packet);
    packet
}

/// Returns the connection ID of a packet of version 2.
pub fn connection_id(packet: &[u8]) -> Option<u64> {
    let header = packet.first_chunk::<HEADER>().filter(|header| header[0] == 0xD2)?;
    header.last_chunk().copied().map(u64::from_le_bytes)
}

/// Writes the correct check: CRC-32 of the payload followed by the header (PROTOCOL, N1).
pub fn seal(packet: &mut [u8]) {
    if packet.len() < HEADER {
        return;
    }
    packet[4..8].fill(0);
    let header = if packet[1] == DATA { DATA_HEADER.min(packet.len()) } else { packet.len() };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&packet[header..]);
    hasher.update(&packet[..header]);
    let check = hasher.finalize();
    packet[4..8].copy_from_slice(&check.to_le_bytes());
}

/// Appends a number of variable length: seven bits a byte, the lowest first.
pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns a classic packet: flags, magic, then the fields.
pub fn classic(flags: u8, fields: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![flags, 0xAA, 0x11, 0x83];
    for field in fields {
        packet.extend(field.to_le_bytes());
    }
    packet.extend(payload);
    packet
}
