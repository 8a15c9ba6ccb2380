//! Bootstrap interval of a mean, bias-corrected and accelerated (Efron 1987).

use rdt_emulator::child_seed;

use super::distribution::{normal_cdf, normal_quantile};
use super::order::quantile;
use super::{Interval, count, count_of, mean, standard_deviation};

const RESAMPLES: u64 = 2000;

/// Returns the BCa interval of the mean with confidence `level`, from 2,000 resamples drawn by
/// `seed`. `None` for fewer than two values, or if all are equal.
pub fn bca_interval(values: &[f64], level: f64, seed: u64) -> Option<Interval> {
    let estimate = mean(values)?;
    if standard_deviation(values)? <= 0.0 {
        return None;
    }
    let mut means: Vec<f64> = (0..RESAMPLES).map(|resample| resampled_mean(values, seed, resample)).collect();
    means.sort_by(f64::total_cmp);
    let [low, high] = bca_levels(values, &means, estimate, level);
    Some(Interval { estimate, low: quantile(&means, low)?, high: quantile(&means, high)? })
}

fn resampled_mean(values: &[f64], seed: u64, resample: u64) -> f64 {
    let seed = child_seed(seed, resample);
    let n = values.len() as u64;
    let drawn = (0..n).map(|i| {
        // The upper half of a product of 64-bit numbers is uniform below n.
        let index = (u128::from(child_seed(seed, i)) * u128::from(n)) >> 64;
        values[usize::try_from(index).unwrap_or(0)]
    });
    drawn.sum::<f64>() / count(values)
}

/// Returns the quantiles of the sorted resampled means that are the ends of the interval.
fn bca_levels(values: &[f64], sorted_means: &[f64], estimate: f64, level: f64) -> [f64; 2] {
    let below = sorted_means.partition_point(|mean| *mean < estimate);
    let ties = sorted_means[below..].partition_point(|mean| *mean <= estimate);
    let share = (count_of(below) + count_of(ties) / 2.0) / count(sorted_means);
    let margin = 0.5 / count(sorted_means);
    let bias = normal_quantile(share.clamp(margin, 1.0 - margin));
    let acceleration = acceleration(values);
    let end = |z: f64| normal_cdf(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
    let tail = (1.0 - level) / 2.0;
    [end(normal_quantile(tail)), end(normal_quantile(1.0 - tail))]
}

/// Returns a sixth of the skewness of the jackknife means.
fn acceleration(values: &[f64]) -> f64 {
    let (n, sum) = (count(values), values.iter().sum::<f64>());
    let jackknife: Vec<f64> = values.iter().map(|value| (sum - value) / (n - 1.0)).collect();
    let centre = jackknife.iter().sum::<f64>() / n;
    let (cubes, squares) = jackknife.iter().fold((0.0, 0.0), |(cubes, squares), value| {
        let deviation = centre - value;
        (cubes + deviation.powi(3), squares + deviation.powi(2))
    });
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::SLEEP;
    use super::*;

    #[test]
    fn levels_follow_the_formula_of_efron() {
        // Computed apart, with a resample distribution that is the sample itself.
        let mut sorted = SLEEP[0].to_vec();
        sorted.sort_by(f64::total_cmp);
        let levels = bca_levels(&SLEEP[0], &sorted, 0.75, 0.95);
        for (ours, theirs) in levels.into_iter().zip([0.083_601_768_137_7, 0.995_349_709_246_7]) {
            assert!((ours - theirs).abs() < 1e-6, "{ours} for {theirs}");
        }
    }

    #[test]
    fn equal_seeds_give_equal_intervals() {
        let interval = bca_interval(&SLEEP[0], 0.95, 7).expect("an interval");
        assert_eq!(bca_interval(&SLEEP[0], 0.95, 7), Some(interval));
        // The mean of 20 runs of scipy.stats.bootstrap.
        assert!((interval.low + 0.191).abs() < 0.15 && (interval.high - 1.895).abs() < 0.2, "{interval:?}");
        assert_eq!(bca_interval(&[3.0; 12], 0.95, 7), None);
    }
}
