//! Data rates, and the exact serialisation time of a packet at a rate.

use std::{fmt, num::NonZeroU64, time::Duration};

const MILLIBITS_PER_BIT: u64 = 1_000;

/// Nanoseconds per bit, multiplied by the rate in millibit/s.
const NS_TIMES_MILLIBITS: u128 = 1_000_000_000 * MILLIBITS_PER_BIT as u128;

const NS_PER_SECOND: u128 = 1_000_000_000;

/// A data rate, stored in whole millibits per second, so that 0.5 bit/s is exact.
///
/// A rate is never zero. An unlimited link has `None` as its `Option<Bitrate>`, and a link that
/// delivers no packet has a loss probability of 1. The highest rate is about 18 petabit/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bitrate(NonZeroU64);

impl Bitrate {
    /// Returns a rate of `bps` bits per second. Zero becomes one millibit per second, and a value
    /// above the range becomes the highest rate.
    pub const fn from_bps(bps: u64) -> Self {
        Self::from_millibps(bps.saturating_mul(MILLIBITS_PER_BIT))
    }

    /// Returns a rate of `bps` bits per second, rounded to a millibit per second but never to zero.
    ///
    /// `None` if `bps` is not a number, not positive, or above the range.
    pub fn from_bps_f64(bps: f64) -> Option<Self> {
        const BEYOND: f64 = 18_446_744_073_709_551_616.0; // 2^64

        let millibps = (bps * 1e3).round();
        if bps.is_nan() || bps <= 0.0 || millibps >= BEYOND {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole, and within 0..2^64 by the test above"
        )]
        Some(Self::from_millibps(millibps as u64))
    }

    /// Returns a rate of `millibps` millibits per second. Zero becomes one.
    pub(crate) const fn from_millibps(millibps: u64) -> Self {
        match NonZeroU64::new(millibps) {
            Some(millibps) => Self(millibps),
            None => Self(NonZeroU64::MIN),
        }
    }

    pub(crate) const fn as_millibps(self) -> u64 {
        self.0.get()
    }

    /// Returns the rate in bits per second, to the precision of an `f64`.
    pub fn as_bps_f64(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "the result is an f64")]
        let millibps = self.0.get() as f64;
        millibps / 1e3
    }

    /// Returns the serialisation time of `bytes` bytes at this rate, rounded down to a nanosecond.
    /// `remainder` carries the rounded-off part to the next call.
    ///
    /// `remainder` is in units of 1 / (rate in millibit/s) nanoseconds. Set it to zero after an
    /// idle time, and pass it on unchanged for packets that follow without a gap. The sum of the
    /// returned times is then within a nanosecond of the exact sum.
    ///
    /// No step overflows its 128 bits: the dividend for `usize::MAX` bytes has 3 + 64 + 40 = 107
    /// bits, and the remainder is below the rate, which has 64. The result saturates at
    /// [`Duration::MAX`].
    pub fn transmit_time(self, bytes: usize, remainder: &mut u64) -> Duration {
        let rate = u128::from(self.0.get());
        let dividend = bytes as u128 * 8 * NS_TIMES_MILLIBITS + u128::from(*remainder);
        #[expect(clippy::cast_possible_truncation, reason = "it is below the rate, which has 64 bits")]
        let carried = (dividend % rate) as u64;
        *remainder = carried;
        duration_from_nanos(dividend / rate)
    }
}

/// Writes the rate without rounding, in the largest unit in which it is at least 1: `10 Mbit/s`.
impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millibps = self.0.get();
        let (unit, digits) = match millibps {
            0..1_000_000 => ("bit/s", 3),
            1_000_000..1_000_000_000 => ("kbit/s", 6),
            1_000_000_000..1_000_000_000_000 => ("Mbit/s", 9),
            1_000_000_000_000.. => ("Gbit/s", 12),
        };
        let scale = 10_u64.pow(digits);
        let (whole, fraction) = (millibps / scale, millibps % scale);
        let decimals = format!("{fraction:0width$}", width = digits as usize);
        let text = match decimals.trim_end_matches('0') {
            "" => format!("{whole} {unit}"),
            decimals => format!("{whole}.{decimals} {unit}"),
        };
        f.pad(&text)
    }
}

impl fmt::Debug for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bitrate({self})")
    }
}

fn duration_from_nanos(nanos: u128) -> Duration {
    if let Ok(nanos) = u64::try_from(nanos) {
        return Duration::from_nanos(nanos);
    }
    let Ok(seconds) = u64::try_from(nanos / NS_PER_SECOND) else {
        return Duration::MAX;
    };
    let rest = (nanos % NS_PER_SECOND) as u32;
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::ns;

    fn time(rate: Bitrate, bytes: usize) -> Duration {
        rate.transmit_time(bytes, &mut 0)
    }

    #[test]
    fn transmit_time_is_bits_over_rate() {
        assert_eq!(time(Bitrate::from_bps(1_000_000), 1472), ns(11_776_000));
        assert_eq!(time(Bitrate::from_bps(1_000_000), 500), ns(4_000_000));
        assert_eq!(time(Bitrate::from_bps(10_000), 12), ns(9_600_000));
        assert_eq!(time(Bitrate::from_bps(1_000_000), 0), Duration::ZERO);
    }

    #[test]
    fn half_a_bit_per_second_is_exact() {
        let rate = Bitrate::from_bps_f64(0.5).unwrap();
        assert_eq!(time(rate, 1), Duration::from_secs(16));
    }

    #[test]
    fn remainder_carries_rounding() {
        // A byte takes 2.666... s at 3 bit/s, and three bytes exactly 8 s.
        let rate = Bitrate::from_bps(3);
        let mut remainder = 0;
        let times = [0; 3].map(|_| rate.transmit_time(1, &mut remainder));
        assert_eq!(times, [ns(2_666_666_666), ns(2_666_666_667), ns(2_666_666_667)]);
        assert_eq!(remainder, 0);
    }

    #[test]
    fn extreme_rates_and_sizes_do_not_overflow() {
        let slowest = Bitrate::from_bps(0);
        let fastest = Bitrate::from_bps(u64::MAX);
        assert_eq!(time(slowest, 65_535), Duration::from_secs(65_535 * 8 * 1_000));
        assert!(time(slowest, usize::MAX) > time(slowest, 65_535));
        assert_eq!(time(fastest, 65_535), Duration::ZERO);

        let mut remainder = u64::MAX - 1;
        assert_eq!(fastest.transmit_time(65_535, &mut remainder), ns(1));
    }

    #[test]
    fn times_beyond_64_bits_keep_nanoseconds() {
        assert_eq!(duration_from_nanos(20_000_000_000_000_000_003), Duration::new(20_000_000_000, 3));
        assert_eq!(duration_from_nanos(u128::MAX), Duration::MAX);
    }

    #[test]
    fn from_f64_rounds_to_millibits_and_checks_range() {
        assert_eq!(Bitrate::from_bps_f64(1e10), Some(Bitrate::from_bps(10_000_000_000)));
        assert_eq!(Bitrate::from_bps_f64(1e-9), Some(Bitrate::from_millibps(1)));
        assert_eq!(Bitrate::from_bps_f64(f64::MIN_POSITIVE), Some(Bitrate::from_millibps(1)));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.0, 1.9e16, f64::MAX] {
            assert_eq!(Bitrate::from_bps_f64(bad), None, "{bad}");
        }
    }

    #[test]
    fn as_f64_inverts_from_f64() {
        for bps in [0.001, 0.5, 300.0, 1e6, 1e10] {
            assert!((Bitrate::from_bps_f64(bps).unwrap().as_bps_f64() / bps - 1.0).abs() < 1e-15);
        }
    }

    #[test]
    fn display_uses_largest_unit_without_rounding() {
        assert_eq!(Bitrate::from_bps(10_000_000).to_string(), "10 Mbit/s");
        assert_eq!(Bitrate::from_bps(1_500_000_000).to_string(), "1.5 Gbit/s");
        assert_eq!(Bitrate::from_bps(999_999_937).to_string(), "999.999937 Mbit/s");
        assert_eq!(Bitrate::from_bps(999).to_string(), "999 bit/s");
        assert_eq!(Bitrate::from_bps(1_000).to_string(), "1 kbit/s");
        assert_eq!(Bitrate::from_millibps(500).to_string(), "0.5 bit/s");
        assert_eq!(Bitrate::from_millibps(1).to_string(), "0.001 bit/s");
        assert_eq!(format!("{:>10}", Bitrate::from_bps(1_000)), "  1 kbit/s");
    }
}
