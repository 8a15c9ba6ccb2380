//! CRC-32 (IEEE 802.3): the check of a packet.
//!
//! The check covers the payload first and the header after it, as if they were sent in that order: so the
//! CRC-32 of the payload alone is met half-way, and the whole keeps the code's distance (any three wrong
//! bits are found in packets up to 11 KiB, which an exclusive or of two CRCs would not give).

use crc32fast::Hasher;

use super::super::WireError;

/// The check of a packet: CRC-32 of a payload whose own CRC-32 is `payload_crc` (0 for none), followed by
/// `head`, bytes 4 to 7 of which are taken as zero.
fn of(head: &[u8], payload_crc: u32) -> u32 {
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
