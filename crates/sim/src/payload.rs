//! Generated payload of tests and of the classic programs: an array of little-endian 32-bit words,
//! in which word i has the value i mod 2^32. It needs no memory: parts are generated on demand.

/// Size of a word, bytes.
pub const WORD: u64 = 4;

/// Fills `out` with the bytes of the array from byte `offset` on.
pub fn fill(offset: u64, out: &mut [u8]) {
    // The remainder is below 4.
    let into = usize::try_from(offset % WORD).unwrap_or(0);
    let (head, rest) = out.split_at_mut(((4 - into) % 4).min(out.len()));
    head.copy_from_slice(&word_at(offset).to_le_bytes()[into..into + head.len()]);
    let mut word = word_at(offset + head.len() as u64);
    let (words, tail) = rest.as_chunks_mut();
    for bytes in words {
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(1);
    }
    tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
}

/// Returns whether `bytes` equals the bytes of the array from byte `offset` on.
pub fn matches(offset: u64, bytes: &[u8]) -> bool {
    let mut expected = [0; 1024];
    let mut offset = offset;
    bytes.chunks(expected.len()).all(|chunk| {
        fill(offset, &mut expected[..chunk.len()]);
        offset += chunk.len() as u64;
        chunk == &expected[..chunk.len()]
    })
}

#[allow(clippy::cast_possible_truncation, reason = "a word holds the low 32 bits of its number")]
fn word_at(offset: u64) -> u32 {
    (offset / WORD) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(words: u32) -> Vec<u8> {
        (0..words).flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn any_piece_equals_that_of_the_whole() {
        let whole = array(600);
        for offset in 0..40 {
            for len in 0..40 {
                let mut piece = vec![0xEE; len];
                fill(offset as u64, &mut piece);
                assert_eq!(piece, whole[offset..offset + len], "offset {offset} len {len}");
            }
        }
        assert!(matches(3, &whole[3..2300]));
        assert!(!matches(2, &whole[3..2300]));
    }

    #[test]
    fn crc_matches_the_reference_table() {
        // From docs/CLASSIC.md, section 1: CRCs in published traces.
        for (power, crc) in [(0, 0x2144_DF1C), (10, 0xF15F_689B), (14, 0xFC19_A074), (20, 0x5B0_360D_u32)] {
            assert_eq!(crc32fast::hash(&array(1 << power)), crc, "2^{power}");
        }
    }
}
