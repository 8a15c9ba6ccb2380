//! Tag of packets that are not encrypted: CRC-32 (IEEE 802.3) of header and body, little-endian,
//! then zeros. No key, nonce or secret is in it.
//!
//! At the sizes of packets this CRC detects any three wrong bits, as CRC-32C does. It is the check
//! of all other packets, and libdeflate computes it in 22 ns for 1472 bytes
//! (docs/measurements/2026-11-22-crc32.md).

use super::{HEADER_BYTES, TAG_BYTES};
use crate::Forged;

/// Writes the tag into the last 16 bytes of `packet`.
#[inline]
pub(super) fn seal(packet: &mut [u8]) {
    let (checked, tag) = packet.split_at_mut(packet.len() - TAG_BYTES);
    assert!(checked.len() >= HEADER_BYTES, "a packet without a header");
    tag.copy_from_slice(&tag_of(checked));
}

/// Checks the tag and returns the body.
#[inline]
pub(super) fn open(packet: &mut [u8]) -> Result<&mut [u8], Forged> {
    let (checked, tag) = packet.split_last_chunk_mut::<TAG_BYTES>().ok_or(Forged)?;
    if checked.len() < HEADER_BYTES || *tag != tag_of(checked) {
        return Err(Forged);
    }
    Ok(&mut checked[HEADER_BYTES..])
}

#[inline]
fn tag_of(checked: &[u8]) -> [u8; TAG_BYTES] {
    u128::from(crc32(checked)).to_le_bytes()
}

/// Returns the CRC-32 (IEEE 802.3) of `bytes`, which finds damage and stops no attacker.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[inline]
pub fn crc32(bytes: &[u8]) -> u32 {
    libdeflater::crc32(bytes)
}

/// Returns the CRC-32 (IEEE 802.3) of `bytes`, on platforms where libdeflate was not measured.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}
