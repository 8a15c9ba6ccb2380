//! Integer arithmetic: gains in thousandths, loss in parts per million, products in 128 bits.

pub(super) use crate::congestion::volume;

/// The draft's Infinity: an unset bound.
pub(super) const UNBOUNDED: u64 = u64::MAX;

/// One, in parts per million.
pub(super) const PPM: u64 = 1_000_000;

/// `value * numerator / denominator`, at most `u64::MAX`.
pub(super) fn mul_div(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    u64::try_from(product / u128::from(denominator)).unwrap_or(u64::MAX)
}

/// `value` times a gain in thousandths; [`UNBOUNDED`] stays unbounded.
pub(super) fn gain(value: u64, thousandths: u64) -> u64 {
    if value == UNBOUNDED { UNBOUNDED } else { mul_div(value, thousandths, 1000) }
}

/// Returns a pseudo-random number below `bound`: draw `count` of the sequence `seed`. Hashes both
/// (the `SplitMix64` finalizer), so that the count is the only state.
pub(super) fn draw(seed: u64, count: u64, bound: u64) -> u64 {
    let mut hash = seed.wrapping_add(count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    mul_div(bound, hash >> 32, 1 << 32)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn mul_div_rounds_down_and_saturates() {
        assert_eq!(mul_div(7, 3, 4), 5);
        assert_eq!(mul_div(u64::MAX, 3, 4), u64::MAX / 4 * 3 + 2, "the product has 66 bits");
        assert_eq!(mul_div(u64::MAX, 5, 4), u64::MAX);
    }

    #[test]
    fn gain_and_volume_are_exact_and_saturate() {
        assert_eq!(gain(12_500_000, 2770), 34_625_000);
        assert_eq!(gain(UNBOUNDED, 700), UNBOUNDED);
        assert_eq!(volume(12_500_000, Duration::from_millis(100)), 1_250_000);
        assert_eq!(volume(u64::MAX, Duration::from_secs(10)), u64::MAX);
    }

    #[test]
    fn draws_repeat_for_seed_and_cover_range() {
        let draws: Vec<u64> = (0..200).map(|count| draw(7, count, 10)).collect();
        assert_eq!(draws, (0..200).map(|count| draw(7, count, 10)).collect::<Vec<_>>());
        assert!((0..10).all(|value| draws.contains(&value)) && draws.iter().all(|&value| value < 10));
        assert_ne!(draws, (0..200).map(|count| draw(8, count, 10)).collect::<Vec<_>>());
    }
}
