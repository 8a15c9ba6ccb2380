//! Unsigned numbers of variable length: seven bits a byte, the lowest first; every byte but the
//! last has bit 7 set. The last byte is not zero unless it is the only one, so a number has one
//! form.

use super::super::WireError;

/// Length of the longest number of 64 bits, bytes.
pub(super) const MAX_U64: usize = 10;
/// Length of the longest number of 32 bits, bytes.
pub(super) const MAX_U32: usize = 5;

/// Set if another byte follows.
const MORE: u8 = 0x80;

/// Writes a number to the start of `out` and returns its length.
pub(super) fn put_varint(mut value: u64, out: &mut [u8]) -> usize {
    let mut len = 0;
    loop {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        let low = value as u8 & !MORE;
        value >>= 7;
        out[len] = if value > 0 { low | MORE } else { low };
        len += 1;
        if value == 0 {
            return len;
        }
    }
}

/// Reads a number and removes it from the start of `rest`.
pub(super) fn take(rest: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0;
    for shift in (0..).step_by(7).take(MAX_U64) {
        let (&byte, tail) = rest.split_first().ok_or(WireError::Length)?;
        *rest = tail;
        let bits = u64::from(byte & !MORE);
        // The tenth byte has room for one bit.
        if bits << shift >> shift != bits {
            return Err(WireError::Varint);
        }
        value |= bits << shift;
        if byte & MORE == 0 {
            return if byte == 0 && shift > 0 { Err(WireError::Varint) } else { Ok(value) };
        }
    }
    Err(WireError::Varint)
}

/// Reads a number of at most 32 bits.
pub(super) fn take_u32(rest: &mut &[u8]) -> Result<u32, WireError> {
    u32::try_from(take(rest)?).map_err(|_| WireError::Varint)
}

/// Reads a number from bytes that were validated before.
pub(super) fn take_valid(rest: &mut &[u8]) -> u64 {
    take(rest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_read_as_written() {
        for bits in 0..=64 {
            let highest = 1_u128 << bits;
            for value in [highest - 1, highest, highest + 1].map(u64::try_from).into_iter().flatten() {
                let mut out = [0xEE; MAX_U64];
                let len = put_varint(value, &mut out);
                let used = (64 - value.leading_zeros()).max(1).div_ceil(7);
                assert_eq!(len, used as usize, "{value}");
                let mut rest = &out[..len];
                assert_eq!((take(&mut rest), rest.len()), (Ok(value), 0), "{value}");
                for short in 0..len {
                    assert_eq!(take(&mut &out[..short]), Err(WireError::Length), "{value}");
                }
            }
        }
    }

    #[test]
    fn longer_forms_and_larger_numbers_are_refused() {
        let ten = |last| [[0xFF; 9].as_slice(), &[last]].concat();
        assert_eq!(take(&mut ten(1).as_slice()), Ok(u64::MAX));
        for bad in [vec![0x80, 0], ten(2), ten(0x81), ten(0)] {
            assert_eq!(take(&mut bad.as_slice()), Err(WireError::Varint), "{bad:02x?}");
        }
        let mut out = [0; MAX_U64];
        let len = put_varint(1 << 32, &mut out);
        assert_eq!(take_u32(&mut &out[..len]), Err(WireError::Varint));
        assert_eq!(take_u32(&mut [0xFF, 0xFF, 0xFF, 0xFF, 0x0F].as_slice()), Ok(u32::MAX));
    }
}
