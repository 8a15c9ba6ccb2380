//! Quantiles, and their intervals from order statistics (Thompson 1936), which need no assumption
//! on the distribution.

use super::distribution::binomial_cdf;
use super::{Interval, count};

/// Returns the quantile `p` of sorted values by linear interpolation (type 7 of Hyndman and Fan).
/// `None` without values.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * (count(sorted) - 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to last")]
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    Some(sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below]))
}

/// Returns the quantile `p` of sorted values with an interval of confidence at least `level`, whose
/// ends are values. `None` if there are too few values for such an interval.
pub fn quantile_interval(sorted: &[f64], p: f64, level: f64) -> Option<Interval> {
    let n = sorted.len() as u64;
    let tail = (1.0 - level) / 2.0;
    // Value i is above the quantile with the probability that at most i - 1 values are below it.
    let low = first_index(n, |i| binomial_cdf(i, n, p) > tail).checked_sub(1)?;
    let high = first_index(n, |i| 1.0 - binomial_cdf(i, n, p) <= tail);
    let at = |i: u64| sorted.get(usize::try_from(i).ok()?).copied();
    Some(Interval { estimate: quantile(sorted, p)?, low: at(low)?, high: at(high)? })
}

/// Returns the first index below `n` from which on a condition is true; `n` if there is none.
fn first_index(n: u64, is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut first, mut end) = (0, n);
    while first < end {
        let middle = u64::midpoint(first, end);
        if is_true(middle) { end = middle } else { first = middle + 1 }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn quantiles_equal_those_of_r() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let cases = [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)];
        for (p, expected) in cases {
            let ours = quantile(&values, p).expect("values");
            assert!((ours - expected).abs() < 1e-12, "quantile {p}: {ours}");
        }
        assert_eq!(quantile(&[], 0.5), None);
    }

    /// Tables of order statistics: for the median of 10 values the 2nd and the 9th, of 20 the 6th
    /// and the 15th; six values are the fewest for a median.
    #[test]
    fn ends_are_those_of_published_tables() {
        let ends = |n| quantile_interval(&one_to(n), 0.5, 0.95).map(|it| (it.low, it.high));
        assert_eq!(ends(10), Some((2.0, 9.0)));
        assert_eq!(ends(20), Some((6.0, 15.0)));
        assert_eq!(ends(6), Some((1.0, 6.0)));
        assert_eq!(ends(5), None);
        assert_eq!(ends(0), None);
    }
}
