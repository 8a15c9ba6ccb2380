//! Payload of the reference senders, and its CRC-32.

/// Published values of arrays of 2^power words: power, checksum, number of packets with 1464 bytes
/// of payload, bytes in the last packet.
pub(crate) const PUBLISHED: [(u32, u32, u32, usize); 9] = [
    (0, 0x2144_DF1C, 1, 4),
    (1, 0xDD9E_B80C, 1, 8),
    (8, 0xF0E3_59BB, 1, 1024),
    (9, 0x6FEC_A6E2, 2, 584),
    (10, 0xF15F_689B, 3, 1168),
    (12, 0x2F57_00C1, 12, 280),
    (14, 0xFC19_A074, 45, 1120),
    (15, 0xFC69_4CF3, 90, 776),
    (17, 0xAADE_9921, 359, 176),
];

/// Returns 2^power little-endian words; word i is i.
pub(crate) fn array(power: u32) -> Vec<u8> {
    (0..1_u32 << power).flat_map(u32::to_le_bytes).collect()
}

/// Computes CRC-32 bit by bit: reflected polynomial, all ones at the start, inverted at the end.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)))
    })
}

#[test]
fn array_and_checksum_match_published_values() {
    for (power, checksum, packets, last) in PUBLISHED {
        let array = array(power);
        let pieces: Vec<_> = array.chunks(1464).collect();
        let found = (crc32(&array), pieces.len(), pieces[pieces.len() - 1].len());
        assert_eq!(found, (checksum, packets as usize, last), "2^{power} words");
    }
}
