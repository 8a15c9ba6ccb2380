//! The CRC-32 of a whole from those of its pieces, so that no byte is read twice.

use crc32fast::Hasher;

/// The polynomial of CRC-32, reflected (IEEE 802.3).
const POLYNOMIAL: u32 = 0xEDB8_8320;
/// For pieces shorter than this, reading them is as fast as combining.
const WORTH_COMBINING: usize = 64;

/// Appends pieces of one length cheaply: four look-ups, once that length came twice in a row.
#[derive(Debug, Default)]
pub(crate) struct Combiner {
    /// Of the piece before, in bytes.
    length: usize,
    /// Length that `table` is for, in bytes; 0 is none.
    table_length: usize,
    /// `table[k][v]`: what the byte `v` at place `k` of a CRC becomes behind `table_length` more bytes.
    table: Vec<[u32; 256]>,
}

impl Combiner {
    /// The CRC of what `crc` is for and then `bytes`, whose own is `next`, if it is known.
    pub(crate) fn extend(&mut self, crc: u32, bytes: &[u8], next: Option<u32>) -> u32 {
        if let Some(next) = next
            && bytes.len() >= WORTH_COMBINING
            && self.knows(bytes.len())
        {
            return self.shift(crc) ^ next;
        }
        let mut hasher = Hasher::new_with_initial(crc);
        hasher.update(bytes);
        hasher.finalize()
    }

    /// The same where only the length of the piece is at hand, in bytes.
    pub(crate) fn append(&mut self, crc: u32, next: u32, length: usize) -> u32 {
        if length == 0 {
            return crc;
        }
        if self.knows(length) { self.shift(crc) ^ next } else { combine(crc, next, length as u64) }
    }

    /// Makes the table if this length came twice in a row; true if it is for this length.
    fn knows(&mut self, length: usize) -> bool {
        let again = std::mem::replace(&mut self.length, length) == length;
        if self.table_length != length && again {
            self.build(length);
        }
        self.table_length == length
    }

    fn shift(&self, crc: u32) -> u32 {
        let bytes = crc.to_le_bytes();
        self.table.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }

    /// Multiplication by x^(8 length) is linear: the image of each bit gives that of each byte. The top bit
    /// stands for 1, and each bit below for one power of x more.
    fn build(&mut self, length: usize) {
        self.table_length = length;
        self.table.resize(4, [0; 256]);
        let mut image = combine(1 << 31, 0, length as u64);
        for bit in (0..32).rev() {
            let (table, low) = (&mut self.table[bit / 8], 1 << (bit % 8));
            table[low] = image;
            image = (image >> 1) ^ if image & 1 == 1 { POLYNOMIAL } else { 0 };
        }
        for table in &mut self.table {
            for value in 1..256_usize {
                table[value] = table[value & (value - 1)] ^ table[value & value.wrapping_neg()];
            }
        }
    }
}

/// The CRC of two pieces from theirs and the length of the second, in bytes.
pub(crate) fn combine(first: u32, second: u32, length: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial_len(first, 0);
    hasher.combine(&Hasher::new_with_initial_len(second, length));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_appended_by_their_lengths_give_the_crc_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(40_000).collect();
        let mut combiner = Combiner::default();
        let (mut crc, mut rest) = (0, &bytes[..]);
        for length in [7, 0, 0, 1444, 1444, 1444, 100, 0, 1444, 8944, 8944, 8944, 1, 1, 7] {
            let (piece, after) = rest.split_at(length);
            crc = combiner.append(crc, crc32fast::hash(piece), length);
            rest = after;
            assert_eq!(crc, crc32fast::hash(&bytes[..bytes.len() - rest.len()]), "{length} bytes");
        }
    }
}
