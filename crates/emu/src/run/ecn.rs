//! ECN codepoint in IP packets: RFC 3168, section 5.

use rdt_emulator::Ecn;

/// Returns the codepoint of a packet; Not-ECT if the bytes are not an IP packet.
pub(crate) fn read(packet: &[u8]) -> Ecn {
    match *packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(second),
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Sets the codepoint of a packet. The IPv4 header checksum is updated incrementally, so that a
/// wrong checksum remains wrong.
pub(crate) fn write(packet: &mut [u8], ecn: Ecn) {
    match *packet {
        [first, second, ..] if first >> 4 == 4 && packet.len() >= 20 => {
            let old = u16::from_be_bytes([first, second]);
            let new = (old & !0b11) | u16::from(ecn.bits());
            packet[1] = new.to_be_bytes()[1];
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            packet[10..12].copy_from_slice(&update(sum, old, new).to_be_bytes());
        }
        [first, second, ..] if first >> 4 == 6 => {
            packet[1] = (second & !0b11_0000) | (ecn.bits() << 4);
        }
        _ => {}
    }
}

/// Updates a checksum after a change of one 16-bit word: RFC 1624, equation 3.
fn update(sum: u16, old: u16, new: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!old) + u32::from(new);
    let folded = (total & 0xffff) + (total >> 16);
    // The sum of three words has at most 2 in the upper half, and after one fold at most 1.
    !((folded & 0xffff) as u16).wrapping_add((folded >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

    /// Computes the Internet checksum: RFC 1071.
    fn checksum(header: &[u8]) -> u16 {
        let mut sum: u32 =
            header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn ipv4_ecn_change_keeps_checksum_valid() {
        for low in 0..=255 {
            for (from, to) in ALL.iter().flat_map(|from| ALL.map(|to| (*from, to))) {
                let mut header = [
                    0x45,
                    0x28 | from.bits(),
                    5,
                    0xdc,
                    low,
                    1,
                    0x40,
                    0,
                    64,
                    6,
                    0,
                    0,
                    10,
                    0,
                    0,
                    2,
                    10,
                    0,
                    0,
                    1,
                ];
                let sum = checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                assert_eq!(read(&header), from);
                write(&mut header, to);
                assert_eq!(read(&header), to);
                assert_eq!(header[1] & !3, 0x28, "the rest of the byte is another field");
                assert_eq!(checksum(&header), 0);
            }
        }
    }

    #[test]
    fn ipv6_ecn_spans_two_bytes() {
        let mut header = [0x6a, 0xbc, 0xde, 0xf0];
        assert_eq!(read(&header), Ecn::Ce);
        write(&mut header, Ecn::Ect0);
        assert_eq!(header, [0x6a, 0xac, 0xde, 0xf0]);
    }

    #[test]
    fn non_ip_bytes_stay_unchanged() {
        for bytes in [vec![], vec![0x45], vec![0x45, 3], vec![0x75, 3, 0], vec![0x45; 19]] {
            let mut copy = bytes.clone();
            write(&mut copy, Ecn::NotEct);
            assert_eq!(copy, bytes);
            let _ = read(&bytes);
        }
    }
}
