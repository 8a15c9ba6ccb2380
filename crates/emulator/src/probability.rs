//! Probabilities.

use std::fmt;

/// A number from 0 to 1, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// An impossible event.
    pub const ZERO: Self = Self(0.0);

    /// A certain event.
    pub const ONE: Self = Self(1.0);

    /// `None` unless `value` is a number from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        // The absolute value only turns -0 into 0.
        (0.0..=1.0).contains(&value).then_some(Self(value.abs()))
    }

    /// The value, from 0 to 1.
    pub const fn as_f64(self) -> f64 {
        self.0
    }

    /// Returns whether the event happens, given a `draw` uniform over all of `u64`.
    ///
    /// The upper 53 bits of the draw become a number from 0 up to but excluding 1 in steps of
    /// 2^-53. A probability of 0 therefore never happens, and one of 1 always does.
    pub(crate) fn happens(self, draw: u64) -> bool {
        const STEP: f64 = f64::EPSILON / 2.0; // 2^-53

        #[expect(clippy::cast_precision_loss, reason = "the shift leaves the 53 bits an f64 holds exactly")]
        let steps = (draw >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64;
        steps * STEP < self.0
    }
}

/// A plain fraction: `0.05`.
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
