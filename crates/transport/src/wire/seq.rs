//! Conversion between 32-bit numbers on the wire and `u64`.

/// Returns the `u64` nearest to `near` whose low 32 bits are `raw` (ties go up); `None` if it would
/// be negative.
pub(crate) fn unwrap_near(raw: u32, near: u64) -> Option<u64> {
    // The distance modulo 2^32, read as a signed number, is in -2^31 ..= 2^31 - 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "arithmetic modulo 2^32")]
    let distance = raw.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(distance))
}

/// Returns the low 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "the wire carries the number modulo 2^32")]
pub(super) fn wrap(seq: u64) -> u32 {
    seq as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwrap_inverts_wrap_near_reference() {
        let wrap_at = 1_u64 << 32;
        for near in [100_000, wrap_at - 3, wrap_at, wrap_at + 5, 7 * wrap_at + 123] {
            for seq in near - 90_000..near + 90_000 {
                assert_eq!(unwrap_near(wrap(seq), near), Some(seq));
            }
        }
    }

    #[test]
    fn numbers_before_the_start_are_none() {
        assert_eq!(unwrap_near(u32::MAX, 10), None);
        assert_eq!(unwrap_near(0, 10), Some(0));
        assert_eq!(unwrap_near(80_010, 10), Some(80_010));
    }
}
