//! Check of a packet that is not sealed: its CRC-32 (IEEE 802.3), with zeros for the check itself.

use super::super::WireError;
use super::header::put;
use crate::crc::Crc32;

/// Index and length of the check.
const AT: usize = 4;
const LEN: usize = 4;

fn of(packet: &[u8]) -> [u8; LEN] {
    let mut crc = Crc32::new();
    crc.update(&packet[..AT]);
    crc.update(&[0; LEN]);
    crc.update(&packet[AT + LEN..]);
    crc.sum().to_le_bytes()
}

pub(super) fn write(packet: &mut [u8]) {
    put(packet, AT, of(packet));
}

/// Verifies the check of a packet, which is at least a common header.
pub(super) fn verify(packet: &[u8]) -> Result<(), WireError> {
    if packet[AT..AT + LEN] == of(packet) { Ok(()) } else { Err(WireError::Check) }
}
