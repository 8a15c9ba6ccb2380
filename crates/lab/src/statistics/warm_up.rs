//! Warm-up of a series.

use super::interval::{count, mean};

/// Bins in a batch of MSER-5.
const BATCH: usize = 5;

/// Returns the number of bins at the start of a series that are warm-up: the cut that minimises the
/// squared standard error of the mean of the rest, in batches of five bins (MSER-5; White, Cobb and
/// Spratt 2000). At most half of the series is cut, which a series with a trend reaches.
pub fn mser5(values: &[f64]) -> usize {
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
    best.min(batches.len() / 2) * BATCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ramp_of_a_start_is_cut() {
        let value = |i: u32| f64::from(i.min(60)) + f64::from(i * 7919 % 97) / 100.0;
        let values: Vec<f64> = (0..400).map(value).collect();
        let bins = mser5(&values);
        assert!((50..=75).contains(&bins), "{bins}");
    }

    #[test]
    fn half_of_a_series_with_a_trend_is_cut() {
        let values: Vec<f64> = (0..400).map(f64::from).collect();
        assert_eq!(mser5(&values), 200);
        assert_eq!(mser5(&[1.0; 100]), 0);
    }
}
