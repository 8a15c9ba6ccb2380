//! Number formats of the reference programs.

use std::time::Duration;

/// Formats as C's `%g`: six digits, no trailing zeros, an exponent below 1e-4 and from 1e6 on.
pub(crate) fn g(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(digits), exponent.abs());
    }
    let decimals = usize::try_from(5 - exponent).unwrap_or(0);
    trim(&format!("{value:.decimals$}")).to_string()
}

fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Returns a rate in bits per second; `None` if `time` is zero.
#[allow(clippy::cast_precision_loss, reason = "a rate is printed to seven digits")]
pub(crate) fn rate_bps(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| bytes as f64 * 8.0 / time.as_secs_f64())
}

/// Returns a time in seconds and the rate of these bytes in it, 0 if it is zero.
pub(crate) fn seconds_and_kbps(bytes: u64, time: Duration) -> (f64, f64) {
    (time.as_secs_f64(), rate_bps(bytes, time).unwrap_or(0.0) / 1e3)
}

#[allow(clippy::cast_precision_loss, reason = "printed to two decimals")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[allow(clippy::cast_precision_loss, reason = "printed to three decimals")]
pub(crate) fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Converts to the 64-bit number that prints as the same shortest decimal: 0.1, not 0.10000000149.
pub(crate) fn short(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_matches_percent_g_of_c() {
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (0.00001, "1e-05"),
            (0.0001, "0.0001"),
            (0.9999, "0.9999"),
            (0.123_456_78, "0.123457"),
            (1_000_000.0, "1e+06"),
            (123_456.0, "123456"),
        ] {
            assert_eq!(g(value), text);
        }
    }

    #[test]
    fn rate_over_zero_time_is_none() {
        assert_eq!(rate_bps(1, Duration::ZERO), None);
        assert_eq!(rate_bps(125, Duration::from_secs(1)), Some(1000.0));
    }
}
