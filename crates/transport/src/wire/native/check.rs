//! Check of a packet: CRC-32 (IEEE 802.3) of the payload followed by the header.
//!
//! In this order the CRC-32 of the payload alone is an intermediate result, which is needed for the
//! stream's CRC. And the check keeps the Hamming distance of the code: it detects any three wrong
//! bits in packets up to 11 KiB. An exclusive or of two CRCs would not.

use crc32fast::Hasher;

use super::super::WireError;
use super::stream::DATA_HEADER;
use crate::crc::POLYNOMIAL;

/// `TABLES[k][v]`: CRC register, initially zero, after the byte `v` and `k` zero bytes. For a DATA
/// header, one independent look-up per byte takes a third of the library's time.
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

/// Returns the check of a packet: CRC-32 of a payload with CRC-32 `payload_crc` (0 if empty)
/// followed by `head`, whose bytes 4 to 7 (the check) count as zero.
pub(in super::super) fn of(head: &[u8], payload_crc: u32) -> u32 {
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

/// Returns the check of a DATA packet. Combines the payload's CRC last, because it is known last.
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

/// Verifies the check in `head`, which is at least a common header.
pub(in super::super) fn verify(head: &[u8], payload_crc: u32) -> Result<(), WireError> {
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
