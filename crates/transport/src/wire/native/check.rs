//! CRC-32 (IEEE 802.3): the check of a packet, and that of a stream put together from those of its pieces.
//!
//! The check covers the payload first and the header after it, as if they were sent in that order: so the
//! CRC-32 of the payload alone is met half-way, and the whole keeps the code's distance (any three wrong
//! bits are found in packets up to 11 KiB, which an exclusive or of two CRCs would not give).

use crc32fast::Hasher;

use super::super::WireError;

/// The polynomial, bit-reversed: bit 31 is the coefficient of x^0.
const POLY: u32 = 0xEDB8_8320;
/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// Multiplication by a fixed polynomial: entry v of table n is its product with the polynomial that has the
/// bits v at 4 n to 4 n + 3.
type Operator = [[u32; 16]; 8];

/// Digits of a length, to the base of 16, that [`APPEND`] has operators for: all of a datagram's.
const DIGITS: usize = 4;

/// `APPEND[d][v]` multiplies by x^(8 v 16^d), as appending v 16^d zero bytes does. 32 KiB, of which the
/// payload of a full packet touches three operators, 1.5 KiB.
static APPEND: [[Operator; 16]; DIGITS] = {
    let mut append = [[operator(ONE); 16]; DIGITS];
    let mut step = ONE >> 8;
    let mut digit = 0;
    while digit < DIGITS {
        let mut power = ONE;
        let mut value = 1;
        while value < 16 {
            power = multiply(power, step);
            append[digit][value] = operator(power);
            value += 1;
        }
        step = multiply(power, step);
        digit += 1;
    }
    append
};

/// x^(8 * 16^[`DIGITS`]).
const BEYOND: u32 = {
    let mut power = ONE >> 8;
    let mut squared = 0;
    while squared < 4 * DIGITS {
        power = multiply(power, power);
        squared += 1;
    }
    power
};

/// The check of a packet: CRC-32 of a payload whose own CRC-32 is `payload_crc` (0 for none), followed by
/// `head`, bytes 4 to 7 of which are taken as zero.
pub(super) fn of(head: &[u8], payload_crc: u32) -> u32 {
    let mut crc = Hasher::new_with_initial(payload_crc);
    let mut first = [0; 8];
    first[..4].copy_from_slice(&head[..4]);
    crc.update(&first);
    crc.update(&head[8..]);
    crc.finalize()
}

/// Compares the check in `head`, at least a common header, with what it must be.
pub(super) fn verify(head: &[u8], payload_crc: u32) -> Result<(), WireError> {
    if head[4..8] == of(head, payload_crc).to_le_bytes() { Ok(()) } else { Err(WireError::Check) }
}

/// The CRC-32 of two pieces in a row from theirs: `crc` of the first, `next` of the second, which has
/// `next_len` bytes. Fast for lengths below 64 KiB, right for all.
pub fn crc_combine(crc: u32, next: u32, next_len: u64) -> u32 {
    let mut product = crc;
    let mut rest = next_len;
    for operators in &APPEND {
        let digit = (rest & 15) as usize;
        if digit != 0 {
            product = apply(&operators[digit], product);
        }
        rest >>= 4;
    }
    let mut power = BEYOND;
    while rest != 0 {
        if rest & 1 != 0 {
            product = multiply(product, power);
        }
        power = multiply(power, power);
        rest >>= 1;
    }
    product ^ next
}

fn apply(operator: &Operator, a: u32) -> u32 {
    let nibble = |n: usize| operator[n][(a >> (4 * n) & 15) as usize];
    (nibble(0) ^ nibble(1) ^ nibble(2) ^ nibble(3)) ^ (nibble(4) ^ nibble(5) ^ nibble(6) ^ nibble(7))
}

/// The operator that multiplies by `factor`.
const fn operator(factor: u32) -> Operator {
    let mut operator = [[0; 16]; 8];
    let mut product = factor;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        operator[bit / 4][1 << (bit % 4)] = product;
        product = times_x(product);
    }
    let mut value = 1_usize;
    while value < 16 {
        let lowest = value & value.wrapping_neg();
        let mut n = 0;
        while n < 8 {
            operator[n][value] = operator[n][value ^ lowest] ^ operator[n][lowest];
            n += 1;
        }
        value += 1;
    }
    operator
}

/// The product of two polynomials modulo [`POLY`].
const fn multiply(a: u32, b: u32) -> u32 {
    let mut product = 0;
    let mut shifted = b;
    let mut power = 0;
    while power < 32 {
        product ^= shifted & (a >> (31 - power) & 1).wrapping_neg();
        shifted = times_x(shifted);
        power += 1;
    }
    product
}

const fn times_x(a: u32) -> u32 {
    a >> 1 ^ POLY & (a & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn combining_at_random_places_gives_the_crc_of_the_whole() {
        let seed = 0x5EED_0001;
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut bytes = vec![0; 300_000];
        rng.fill(&mut bytes[..]);
        for round in 0..2000 {
            let end = rng.random_range(0..=bytes.len());
            let middle = rng.random_range(0..=end);
            let (first, second) = bytes[..end].split_at(middle);
            let (crc, next) = (crc32fast::hash(first), crc32fast::hash(second));
            let len = second.len() as u64;
            let whole = crc32fast::hash(&bytes[..end]);
            assert_eq!(crc_combine(crc, next, len), whole, "seed {seed:#x}, round {round}");
        }
    }

    #[test]
    fn lengths_beyond_memory_agree_with_two_steps() {
        for len in [1_u64 << 29, 1 << 32, (1 << 40) + 1234] {
            let halves = crc_combine(crc_combine(0x1234_5678, 0, len / 2), 0x9ABC_DEF0, len - len / 2);
            assert_eq!(crc_combine(0x1234_5678, 0x9ABC_DEF0, len), halves);
        }
    }
}
