//! Packets of both formats as bytes (`docs/PROTOCOL.md`, `docs/CLASSIC.md`), written without the
//! encoders that are under test.

/// Bytes of the native header.
pub const HEADER: usize = 16;
/// Bytes of the tag at the end of a sealed packet.
pub const TAG: usize = 16;
/// Type of VERSIONS, which has version 0.
const VERSIONS: u8 = 10;

/// Flag byte of a classic SYN, ACK and FIN; replies combine them.
pub const SYN: u8 = 0x20;
/// See [`SYN`].
pub const ACK: u8 = 0x40;
/// See [`SYN`].
pub const FIN: u8 = 0x80;

/// Returns a native packet that is not sealed: header, body, and the correct check.
pub fn native(kind: u8, info: u16, connection_id: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![if kind == VERSIONS { 0xD0 } else { 0xD2 }, kind];
    packet.extend(info.to_le_bytes());
    packet.extend([0; 4]);
    packet.extend(connection_id.to_le_bytes());
    packet.extend(body);
    set_check(&mut packet);
    packet
}

/// Returns a sealed packet of a connection without a cipher: header, body, and the correct tag.
pub fn unencrypted(kind: u8, info: u16, number: u32, connection_id: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xD2, kind];
    packet.extend(info.to_le_bytes());
    packet.extend(number.to_le_bytes());
    packet.extend(connection_id.to_le_bytes());
    packet.extend(body);
    packet.extend(tag(&packet));
    packet
}

/// Returns the body of such a packet; `None` if the tag is wrong, or there is none.
pub fn unencrypted_body(packet: &[u8]) -> Option<&[u8]> {
    let (checked, end) = packet.split_last_chunk::<TAG>()?;
    let body = checked.get(HEADER..).filter(|_| packet[0] == 0xD2)?;
    (*end == tag(checked)).then_some(body)
}

/// Tag without a cipher: the CRC-32 of header and body, and zeros (PROTOCOL, N8).
fn tag(checked: &[u8]) -> [u8; TAG] {
    u128::from(crc32fast::hash(checked)).to_le_bytes()
}

/// Returns the connection ID of a native packet of any version.
pub fn connection_id(packet: &[u8]) -> Option<u64> {
    let header = packet.first_chunk::<HEADER>().filter(|header| header[0] & 0xF0 == 0xD0)?;
    header.last_chunk().copied().map(u64::from_le_bytes)
}

/// Writes the correct check: CRC-32 of the packet, in which the check counts as zero.
pub fn set_check(packet: &mut [u8]) {
    if packet.len() < HEADER {
        return;
    }
    packet[4..8].fill(0);
    let check = crc32fast::hash(packet);
    packet[4..8].copy_from_slice(&check.to_le_bytes());
}

/// Appends a number of variable length: seven bits a byte, the lowest first.
pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Returns a classic packet: flags, magic, then the fields and the payload. DATA has flags 0 and
/// its number, a SYN its number and five fields, a reply window and number.
pub fn classic(flags: u8, fields: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![flags, 0xAA, 0x11, 0x83];
    for field in fields {
        packet.extend(field.to_le_bytes());
    }
    packet.extend(payload);
    packet
}

/// Returns a classic SYN that requests a link with this RTT (seconds), rate (bits per second), loss
/// forward and reverse, and buffer (packets).
pub fn classic_syn(rtt_s: f32, speed_bps: f32, loss: [f32; 2], buffer: u32) -> Vec<u8> {
    let [forward, reverse] = loss.map(f32::to_bits);
    classic(SYN, &[0, rtt_s.to_bits(), speed_bps.to_bits(), forward, reverse, buffer], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_has_seven_bits_a_byte() {
        for (value, bytes) in [(0, &[0][..]), (0x7F, &[0x7F]), (0x80, &[0x80, 1]), (300, &[0xAC, 2])] {
            let mut out = Vec::new();
            varint(value, &mut out);
            assert_eq!(out, bytes, "{value}");
        }
    }

    #[test]
    fn unencrypted_body_needs_its_tag() {
        let mut packet = unencrypted(6, 0, 3, 7, b"body");
        assert_eq!(unencrypted_body(&packet), Some(&b"body"[..]));
        packet[20] ^= 1;
        assert_eq!(unencrypted_body(&packet), None);
    }

    #[test]
    fn connection_id_is_read_back() {
        assert_eq!(connection_id(&native(1, 0, 7, &[1; 12])), Some(7));
        assert_eq!(connection_id(&native(VERSIONS, 4, 9, &[])), Some(9));
        assert_eq!(connection_id(&classic(SYN, &[0; 6], &[])), None);
    }
}
