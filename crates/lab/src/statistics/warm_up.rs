//! Warm-up of a series.

use super::{count, mean};

/// Bins in a batch of MSER-5.
const BATCH: usize = 5;
/// Most batches whose errors are computed one by one, which takes quadratic time.
const MAX_EXACT: usize = 4096;
/// Change of the mean, as a share of it, above which a cut in the second half matters. A series
/// that is constant but for a single packet has such cuts too.
const MAX_CHANGE: f64 = 0.01;

/// Warm-up that a rule finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Number of bins at the start of the series that are warm-up.
    pub bins: usize,
    /// False if the rule would cut off more than half of the series, and that would change the mean
    /// of the rest by more than 1 %: the series may have a trend.
    pub is_stationary: bool,
}

/// Returns the warm-up of a series: the cut that minimises the squared standard error of the mean
/// of the rest, in batches of five bins (MSER-5; White, Cobb and Spratt 2000). At most half of the
/// series is cut. A series of fewer than 13 batches always counts as stationary.
pub fn mser5(values: &[f64]) -> Cut {
    let batches: Vec<f64> = values.chunks_exact(BATCH).filter_map(mean).collect();
    let errors = if batches.len() <= MAX_EXACT { exact_errors(&batches) } else { errors(&batches) };
    // The last batches are too few for an estimate of their error.
    let candidates = errors.iter().take(batches.len().saturating_sub(BATCH)).enumerate();
    let best = candidates.min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(cut, _)| cut);
    let most = batches.len() / 2;
    let rest = |cut: usize| mean(&batches[cut..]).unwrap_or(0.0);
    let is_stationary = best <= most || (rest(best) - rest(most)).abs() <= MAX_CHANGE * rest(most).abs();
    Cut { bins: best.min(most) * BATCH, is_stationary }
}

/// Returns for each cut the squared standard error of the mean of the values from there on.
fn exact_errors(values: &[f64]) -> Vec<f64> {
    let error = |cut: usize| {
        let rest = &values[cut..];
        let mean = mean(rest)?;
        let squares: f64 = rest.iter().map(|value| (value - mean).powi(2)).sum();
        Some(squares / count(rest).powi(2))
    };
    (0..values.len()).filter_map(error).collect()
}

/// Returns the same but for rounding, in linear time, by the recurrence of Welford (1962).
fn errors(values: &[f64]) -> Vec<f64> {
    let (mut number, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let mut errors: Vec<f64> = values
        .iter()
        .rev()
        .map(|value| {
            number += 1.0;
            let distance = value - mean;
            mean += distance / number;
            squares += distance * (value - mean);
            squares / (number * number)
        })
        .collect();
    errors.reverse();
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_linear_time_are_the_same() {
        let values: Vec<f64> = (0..500_u32).map(|i| 1e6 + f64::from(i * 7919 % 97)).collect();
        for (error, exact) in errors(&values).into_iter().zip(exact_errors(&values)) {
            assert!((error - exact).abs() <= 1e-9 * exact, "{error} and {exact}");
        }
    }

    #[test]
    fn hours_in_bins_of_a_millisecond_have_a_warm_up() {
        let value = |i: u32| f64::from(i.min(600_000)) + f64::from(i.wrapping_mul(7919) % 97) * 1_000.0;
        let values: Vec<f64> = (0..7_200_000).map(value).collect();
        let cut = mser5(&values);
        assert!((500_000..=650_000).contains(&cut.bins) && cut.is_stationary, "{cut:?}");
    }

    #[test]
    fn the_ramp_of_a_start_is_cut() {
        let value = |i: u32| f64::from(i.min(60)) + f64::from(i * 7919 % 97) / 100.0;
        let values: Vec<f64> = (0..400).map(value).collect();
        let cut = mser5(&values);
        assert!((50..=75).contains(&cut.bins) && cut.is_stationary, "{cut:?}");
    }

    #[test]
    fn trend_is_cut_by_half_and_not_stationary() {
        let values: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(mser5(&values), Cut { bins: 200, is_stationary: false });
        assert_eq!(mser5(&[1.0; 100]), Cut { bins: 0, is_stationary: true });
    }

    #[test]
    fn late_cuts_that_keep_the_mean_are_stationary() {
        let mut values = [100.0; 400];
        values[300] = 101.0;
        assert_eq!(mser5(&values), Cut { bins: 200, is_stationary: true });
    }
}
