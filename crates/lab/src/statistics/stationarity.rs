//! Warm-up of a series, and its trend afterwards.

use super::interval::{count, mean};
use super::order::quantile;

/// Bins in a batch of MSER-5.
const BATCH: usize = 5;

/// Number of bins at the start of a series that are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmup {
    /// Bins to discard at the start.
    pub bins: usize,
    /// False if the best cut lies in the second half: the series is not stationary.
    pub stationary: bool,
}

/// Returns the cut that minimises the squared standard error of the mean of the rest (White 1997),
/// in batches of five bins, at most half of the series.
pub fn mser5(values: &[f64]) -> Warmup {
    let batches: Vec<f64> = values.chunks_exact(BATCH).filter_map(mean).collect();
    let error = |cut: usize| {
        let rest = &batches[cut..];
        let mean = mean(rest)?;
        let squares: f64 = rest.iter().map(|value| (value - mean).powi(2)).sum();
        Some(squares / count(rest).powi(2))
    };
    // The last batches are too few for an estimate of their error.
    let candidates = 0..batches.len().saturating_sub(BATCH);
    let errors = candidates.filter_map(|cut| Some((cut, error(cut)?)));
    let best = errors.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(cut, _)| cut);
    let half = batches.len() / 2;
    Warmup { bins: best.min(half) * BATCH, stationary: best <= half }
}

/// Returns the median slope between all pairs of values, per bin (Theil 1950, Sen 1968). `None` for
/// fewer than two values. Takes quadratic time: meant for at most some hundreds of values.
pub fn theil_sen(values: &[f64]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, from) in values.iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "hundreds of bins")]
        slopes.extend(values[i + 1..].iter().enumerate().map(|(k, to)| (to - from) / (k + 1) as f64));
    }
    slopes.sort_by(f64::total_cmp);
    quantile(&slopes, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_of_a_start_is_cut() {
        let value = |i: u32| f64::from(i.min(60)) + f64::from(i * 7919 % 97) / 100.0;
        let values: Vec<f64> = (0..400).map(value).collect();
        let warmup = mser5(&values);
        assert!(warmup.stationary && (50..=75).contains(&warmup.bins), "{warmup:?}");
    }

    #[test]
    fn a_trend_without_end_is_not_stationary() {
        let values: Vec<f64> = (0..400).map(f64::from).collect();
        let warmup = mser5(&values);
        assert!(!warmup.stationary && warmup.bins == 200, "{warmup:?}");
        assert_eq!(theil_sen(&values), Some(1.0));
        assert_eq!(mser5(&[1.0; 100]), Warmup { bins: 0, stationary: true });
    }
}
