//! Comparison of two cells: differences, ratios, and tests of difference and of equivalence. The
//! correction for several tests.

use super::distribution::{t_quantile, t_two_sided_p};
use super::{Interval, count, count_of, mean, standard_deviation, t_interval};

/// Difference of two means, its interval, and the probability of so large a one by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Difference of the means, or ratio of the geometric means.
    pub interval: Interval,
    /// Two-sided probability of a difference at least as large if there is none.
    pub p: f64,
    /// Degrees of freedom of the t distribution.
    pub degrees: f64,
}

/// Compares the mean difference of two pairs or more with zero (paired t test).
pub fn difference(differences: &[f64], level: f64) -> Option<Comparison> {
    let interval = t_interval(differences, level)?;
    let standard_error = standard_deviation(differences)? / count(differences).sqrt();
    let degrees = count(differences) - 1.0;
    let p = t_two_sided_p(interval.estimate / standard_error, degrees);
    Some(Comparison { interval, p, degrees })
}

/// Compares A with B where value i of both has the same seed: the ratio A / B of the geometric
/// means. `None` for fewer than two pairs, for lists of unequal length, or for values that are not
/// positive.
pub fn paired_log_ratio(a: &[f64], b: &[f64], level: f64) -> Option<Comparison> {
    if a.len() != b.len() || a.iter().chain(b).any(|value| *value <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a / b).ln()).collect();
    let comparison = difference(&logs, level)?;
    Some(Comparison { interval: comparison.interval.map(f64::exp), ..comparison })
}

/// Compares A with B where seeds differ (Welch): the ratio A / B of the geometric means. `None` for
/// fewer than two values in a list, or for values that are not positive.
pub fn unpaired_log_ratio(a: &[f64], b: &[f64], level: f64) -> Option<Comparison> {
    if a.iter().chain(b).any(|value| *value <= 0.0) {
        return None;
    }
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
    let (a, b) = (logs(a), logs(b));
    let estimate = mean(&a)? - mean(&b)?;
    let part = |values: &[f64]| Some(standard_deviation(values)?.powi(2) / count(values));
    let (va, vb) = (part(&a)?, part(&b)?);
    let standard_error = (va + vb).sqrt();
    let degrees = if standard_error > 0.0 {
        (va + vb).powi(2) / (va.powi(2) / (count(&a) - 1.0) + vb.powi(2) / (count(&b) - 1.0))
    } else {
        count(&a) + count(&b) - 2.0
    };
    let half = t_quantile(f64::midpoint(1.0, level), degrees) * standard_error;
    let interval = Interval { estimate, low: estimate - half, high: estimate + half }.map(f64::exp);
    let p = t_two_sided_p(estimate / standard_error, degrees);
    Some(Comparison { interval, p, degrees })
}

/// Returns the variance of the paired differences divided by that of unpaired ones: below 1, common
/// seeds make the comparison sharper. `None` for fewer than two pairs or without variance.
pub fn pairing_gain(a: &[f64], b: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let unpaired = standard_deviation(a)?.powi(2) + standard_deviation(b)?.powi(2);
    (a.len() == b.len() && unpaired > 0.0).then_some(standard_deviation(&differences)?.powi(2) / unpaired)
}

/// Returns the larger p value of two one-sided tests that a mean is above `low` and below `high`.
/// If it is small, the mean is equivalent to all values between them. Without a standard error the
/// bounds themselves are equivalent too, whatever their rounding.
pub fn equivalent(estimate: f64, standard_error: f64, degrees: f64, [low, high]: [f64; 2]) -> f64 {
    if standard_error == 0.0 {
        let rounding = 1e-9 * high.abs();
        return if (low - rounding..=high + rounding).contains(&estimate) { 0.0 } else { 1.0 };
    }
    let one_sided = |distance: f64| beyond(distance, standard_error, degrees);
    one_sided(high - estimate).max(one_sided(estimate - low))
}

/// Returns the one-sided p value of an estimate that lies `distance` beyond a bound. It is small if
/// the distance is positive and large.
pub(crate) fn beyond(distance: f64, standard_error: f64, degrees: f64) -> f64 {
    if standard_error == 0.0 {
        return if distance > 0.0 { 0.0 } else { 1.0 };
    }
    let half = t_two_sided_p(distance / standard_error, degrees) / 2.0;
    if distance > 0.0 { half } else { 1.0 - half }
}

/// Returns the p values of several tests, adjusted for their number (Holm 1979), in the order of
/// the arguments. A claim holds at level 5 % of the whole family if its adjusted value is at most
/// 0.05.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p[index] * count_of(p.len() - rank)).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::super::tests::SLEEP;
    use super::*;

    fn near(ours: f64, theirs: f64) {
        assert!((ours - theirs).abs() < 1e-6 * theirs.abs().max(1e-3), "{ours} for {theirs}");
    }

    /// R: `t.test(extra ~ group, data = sleep, paired = TRUE)`.
    #[test]
    fn paired_differences_equal_those_of_r() {
        let differences: Vec<f64> = SLEEP[0].iter().zip(&SLEEP[1]).map(|(a, b)| a - b).collect();
        let comparison = difference(&differences, 0.95).expect("ten pairs");
        near(comparison.interval.estimate, -1.58);
        near(comparison.interval.low, -2.459_885_8);
        near(comparison.interval.high, -0.700_114_2);
        near(comparison.p, 0.002_832_89);
    }

    /// R: `t.test` of the exponentials' logarithms is that of the values.
    #[test]
    fn unpaired_ratios_equal_those_of_r() {
        let [a, b] = SLEEP.map(|it| it.map(f64::exp));
        let comparison = unpaired_log_ratio(&a, &b, 0.95).expect("two lists");
        near(comparison.interval.low.ln(), -3.365_483_2);
        near(comparison.interval.high.ln(), 0.205_483_2);
        near(comparison.p, 0.079_394_14);
        near(comparison.degrees, 17.776_474);
        let paired = paired_log_ratio(&a, &b, 0.95).expect("ten pairs");
        near(paired.interval.estimate.ln(), -1.58);
    }

    #[test]
    fn equivalence_needs_a_narrow_interval_around_zero() {
        near(equivalent(0.0, 1.0, 10.0, [-2.228_138_9, 2.228_138_9]), 0.025);
        assert!(equivalent(0.5, 0.1, 30.0, [-1.0, 1.0]) < 1e-4);
        assert!(equivalent(1.5, 0.1, 30.0, [-1.0, 1.0]) > 0.99);
        assert!(equivalent(0.0, 2.0, 30.0, [-1.0, 1.0]) > 0.3);
    }

    #[test]
    fn common_noise_cancels_in_pairs() {
        let noise: Vec<f64> = (0..40_u32).map(|i| f64::from((i * 7919) % 97)).collect();
        let shifted: Vec<f64> = noise.iter().enumerate().map(|(i, x)| x + [1.0, 2.0][i % 2]).collect();
        let gain = pairing_gain(&shifted, &noise).expect("pairs");
        assert!(gain < 0.01, "{gain}");
    }

    /// R: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")`.
    #[test]
    fn adjusted_values_equal_those_of_r() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{adjusted:?}");
    }
}
