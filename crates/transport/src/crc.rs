//! CRC-32 of packets, and the CRC-32 of a stream combined from those of its pieces, so that each
//! byte is read once. libdeflate is the fastest library at the size of packets
//! (docs/measurements/2026-11-22-crc32.md).

use std::fmt;

use crc32fast::Hasher;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use libdeflater::Crc as Register;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
use portable::Register;

/// Polynomial of CRC-32, reflected (IEEE 802.3).
pub(crate) const POLYNOMIAL: u32 = 0xEDB8_8320;
/// Shortest piece, in bytes, that is combined: a shorter one is read as quickly.
const WORTH_COMBINING: usize = 64;

/// Incremental CRC-32.
pub(crate) struct Crc32(Register);

impl Crc32 {
    pub(crate) fn new() -> Self {
        Self(Register::new())
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the CRC-32 of all bytes so far.
    pub(crate) fn sum(&self) -> u32 {
        self.0.sum()
    }
}

impl fmt::Debug for Crc32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crc32({:08x})", self.sum())
    }
}

/// Returns the CRC-32 of `bytes`.
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(bytes);
    crc.sum()
}

/// Implementation in Rust, for platforms where libdeflate was not measured.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod portable {
    use std::sync::LazyLock;

    use crc32fast::Hasher;

    /// Initial state. Its construction detects CPU features, which costs as much as 200 bytes.
    static EMPTY: LazyLock<Hasher> = LazyLock::new(Hasher::new);

    pub(super) struct Register(Hasher);

    impl Register {
        pub(super) fn new() -> Self {
            Self(EMPTY.clone())
        }

        pub(super) fn update(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        pub(super) fn sum(&self) -> u32 {
            self.0.clone().finalize()
        }
    }
}

/// Combines CRCs of consecutive pieces. If two pieces in a row have the same length, a table makes
/// each further one of that length cost four look-ups.
#[derive(Debug, Default)]
pub(crate) struct Combiner {
    /// Length of the previous piece, bytes.
    length: usize,
    /// Length for which `table` was built, bytes; 0 if there is none.
    table_length: usize,
    table: Option<Box<Table>>,
}

/// Effect of a fixed number of zero bytes on a CRC register: `table[k][v]` is the result for the
/// register whose byte `k` is `v` and whose other bytes are 0.
type Table = [[u32; 256]; 4];

impl Combiner {
    /// Returns the CRC-32 of a piece with CRC `crc` followed by `bytes`. `next` is the CRC-32 of
    /// `bytes`, if known.
    pub(crate) fn extend(&mut self, crc: u32, bytes: &[u8], next: Option<u32>) -> u32 {
        if let Some(next) = next
            && bytes.len() >= WORTH_COMBINING
            && let Some(table) = self.table(bytes.len())
        {
            return shift(table, crc) ^ next;
        }
        let mut hasher = Hasher::new_with_initial(crc);
        hasher.update(bytes);
        hasher.finalize()
    }

    /// Returns the CRC-32 of a piece with CRC `crc` followed by a piece of `length` bytes with CRC
    /// `next`.
    pub(crate) fn append(&mut self, crc: u32, next: u32, length: usize) -> u32 {
        if length == 0 {
            return crc;
        }
        match self.table(length) {
            Some(table) => shift(table, crc) ^ next,
            None => combine(crc, next, length as u64),
        }
    }

    /// Returns the table for this length, and builds it if the previous piece had the same length.
    fn table(&mut self, length: usize) -> Option<&Table> {
        let again = std::mem::replace(&mut self.length, length) == length;
        if self.table_length != length && again {
            self.table_length = length;
            build(self.table.get_or_insert_with(|| Box::new([[0; 256]; 4])), length);
        }
        self.table.as_deref().filter(|_| self.table_length == length)
    }
}

fn shift(table: &Table, crc: u32) -> u32 {
    let [a, b, c, d] = crc.to_le_bytes().map(usize::from);
    table[0][a] ^ table[1][b] ^ table[2][c] ^ table[3][d]
}

/// Fills the table. `length` zero bytes multiply the register by x^(8 length), which is linear: the
/// images of single bits give those of all bytes. The top bit is x^0, the bit below it x^1.
fn build(table: &mut Table, length: usize) {
    let mut image = combine(1 << 31, 0, length as u64);
    for bit in (0..32).rev() {
        table[bit / 8][1 << (bit % 8)] = image;
        image = (image >> 1) ^ if image & 1 == 1 { POLYNOMIAL } else { 0 };
    }
    for row in table {
        for value in 1..256_usize {
            row[value] = row[value & (value - 1)] ^ row[value & value.wrapping_neg()];
        }
    }
}

/// Returns the CRC-32 of two pieces with CRCs `first` and `second`; `length` is that of the second,
/// in bytes.
pub(crate) fn combine(first: u32, second: u32, length: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial_len(first, 0);
    hasher.combine(&Hasher::new_with_initial_len(second, length));
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_agree_on_pieces_of_any_length() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        for length in (0..200).chain([255, 256, 257, 1464, 2047, 2048, 4096, 5000]) {
            assert_eq!(hash(&bytes[..length]), crc32fast::hash(&bytes[..length]), "{length} bytes");
            let mut crc = Crc32::new();
            bytes[..length].chunks(1 + length / 3).for_each(|piece| crc.update(piece));
            assert_eq!(crc.sum(), crc32fast::hash(&bytes[..length]), "{length} bytes in pieces");
        }
    }

    #[test]
    fn combined_pieces_give_crc_of_whole() {
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
