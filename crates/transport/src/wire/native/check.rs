//! CRC-32 (IEEE 802.3): the check of a packet.
//!
//! The check covers the payload first and the header after it, as if they were sent in that order:
//! so the CRC-32 of the payload alone is met half-way, and the whole keeps the code's distance (any
//! three wrong bits are found in packets up to 11 KiB, which an exclusive or of two CRCs would not
//! give).

use crc32fast::Hasher;

use super::super::WireError;
use super::stream::DATA_HEADER;
use crate::crc::POLYNOMIAL;

/// `TABLES[k][v]`: the CRC register after the byte `v` and `k` zeros, from a register of zero.
/// Headers of DATA are so short that a look-up for each byte, none of which waits for another,
/// takes a third of what the library needs.
static TABLES: [[u32; 256]; DATA_HEADER] = tables();

#[expect(clippy::large_stack_arrays, reason = "it is made when this is compiled")]
const fn tables() -> [[u32; 256]; DATA_HEADER] {
    let mut tables = [[0; 256]; DATA_HEADER];
    let mut value = 0_u32;
    while value < 256 {
        let (mut register, mut bit) = (value, 0);
        while bit < 8 {
            register = (register >> 1) ^ if register & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][value as usize] = register;
        value += 1;
    }
    let mut zeros = 1;
    while zeros < DATA_HEADER {
        let mut value = 0;
        while value < 256 {
            let before: u32 = tables[zeros - 1][value];
            tables[zeros][value] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            value += 1;
        }
        zeros += 1;
    }
    tables
}

/// The check of a packet: CRC-32 of a payload whose own CRC-32 is `payload_crc` (0 for none),
/// followed by `head`, bytes 4 to 7 of which are taken as zero.
pub(super) fn of(head: &[u8], payload_crc: u32) -> u32 {
    if let Ok(head) = head.try_into() {
        return of_data(head, payload_crc);
    }
    let mut crc = Hasher::new_with_initial(payload_crc);
    let mut first = [0; 8];
    first[..4].copy_from_slice(&head[..4]);
    crc.update(&first);
    crc.update(&head[8..]);
    crc.finalize()
}

/// The same for a header of DATA. What depends on the payload's CRC, which is known last, comes
/// last.
fn of_data(head: &[u8; DATA_HEADER], payload_crc: u32) -> u32 {
    let mut register = 0;
    for at in 8..DATA_HEADER {
        register ^= TABLES[DATA_HEADER - 1 - at][usize::from(head[at])];
    }
    for (at, byte) in (!payload_crc).to_le_bytes().into_iter().enumerate() {
        register ^= TABLES[DATA_HEADER - 1 - at][usize::from(head[at] ^ byte)];
    }
    !register
}

/// Compares the check in `head`, at least a common header, with what it must be.
pub(super) fn verify(head: &[u8], payload_crc: u32) -> Result<(), WireError> {
    if head[4..8] == of(head, payload_crc).to_le_bytes() { Ok(()) } else { Err(WireError::Check) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_check_is_crc_of_payload_and_header() {
        let mut head = [0; DATA_HEADER];
        for round in 0..1000_u32 {
            for (at, byte) in head.iter_mut().enumerate() {
                *byte = (round.wrapping_mul(0x9E37_79B9) >> (at % 24)).to_le_bytes()[0];
            }
            let payload = round.to_be_bytes();
            let mut whole = [&payload[..], &head].concat();
            whole[8..12].fill(0);
            assert_eq!(of(&head, crc32fast::hash(&payload)), crc32fast::hash(&whole), "round {round}");
        }
    }
}
