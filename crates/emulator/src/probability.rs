//! Probabilities of random events such as loss.

use std::fmt;

/// Probability of a random event, from 0 to 1 inclusive.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Probability of an event that never happens.
    pub const ZERO: Self = Self(0.0);

    /// Probability of an event that always happens.
    pub const ONE: Self = Self(1.0);

    /// Returns the probability `value`. `None` unless it is a number from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        // `abs` turns -0.0 into 0.0 and changes no other value.
        (0.0..=1.0).contains(&value).then_some(Self(value.abs()))
    }

    /// Returns the probability as a number from 0 to 1.
    pub const fn as_f64(self) -> f64 {
        self.0
    }

    /// Returns whether the event happens, given a `draw` that is uniform over all `u64` values.
    ///
    /// The event happens if the upper 53 bits of the draw, as a fraction from 0 to below 1, are
    /// less than the probability. It therefore never happens at 0 and always at 1.
    pub(crate) fn happens(self, draw: u64) -> bool {
        const STEP: f64 = f64::EPSILON / 2.0; // 2^-53

        #[expect(clippy::cast_precision_loss, reason = "the shift leaves the 53 bits an f64 holds exactly")]
        let steps = (draw >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64;
        steps * STEP < self.0
    }
}

/// Writes a decimal fraction: `0.05`.
impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_to_one_is_accepted() {
        for good in [0.0, -0.0, 1e-300, 0.5, 1.0] {
            assert_eq!(Probability::new(good).map(Probability::as_f64), Some(good));
        }
        for bad in [f64::NAN, -1e-9, 1.000_000_1, f64::INFINITY] {
            assert_eq!(Probability::new(bad), None, "{bad}");
        }
        assert!(Probability::new(-0.0).unwrap().as_f64().is_sign_positive());
    }

    #[test]
    fn zero_never_happens_and_one_always_does() {
        let one = Probability::new(1.0).unwrap();
        for draw in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!Probability::ZERO.happens(draw));
            assert!(one.happens(draw));
        }
    }

    #[test]
    fn half_splits_the_draws_in_the_middle() {
        let half = Probability::new(0.5).unwrap();
        assert!(half.happens((1 << 63) - 1));
        assert!(!half.happens(1 << 63));
    }
}
