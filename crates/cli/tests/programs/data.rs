//! Test data and its CRC-32.

/// Returns the first `bytes` bytes of the classic payload: 32-bit little-endian words, word i is i.
pub(super) fn array(bytes: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_le_bytes).take(bytes).collect()
}

/// Returns pseudorandom bytes (`SplitMix64`).
pub(super) fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    std::iter::repeat_with(|| word().to_le_bytes()).flatten().take(bytes).collect()
}

/// Computes the CRC-32 of zlib, bit by bit.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

pub(super) fn crc_json(bytes: &[u8]) -> String {
    format!("{:08x}", crc32(bytes))
}

#[test]
fn crc32_matches_zlib() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(&array(4 << 14)), 0xfc19_a074);
}
