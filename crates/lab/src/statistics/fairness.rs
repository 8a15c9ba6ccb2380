//! Fairness of the rates of flows.

use super::{count, count_of};

/// Returns Jain's index (Jain, Chiu, Hawe 1984): 1 for equal rates, 1/n if one flow has all. `None`
/// without rates or if all are zero.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    (squares > 0.0).then(|| sum * sum / (count(rates) * squares))
}

/// Time for which shares must be equal, seconds.
const HOLD_S: f64 = 2.0;
/// Largest distance of a flow from an equal share that counts as equal.
const TOLERANCE: f64 = 0.2;

/// Returns the first bin from which on each flow stays within 20 % of an equal share for 2 s.
/// `rates` has the bins of each flow, `bin_s` seconds wide. `None` if that never happens.
pub fn convergence_time(rates: &[Vec<f64>], bin_s: f64) -> Option<usize> {
    let bins = rates.iter().map(Vec::len).min()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds of bins")]
    let hold = (HOLD_S / bin_s - 1e-9).ceil().max(1.0) as usize;
    let fair_at = |bin: usize| {
        let share = rates.iter().map(|it| it[bin]).sum::<f64>() / count_of(rates.len());
        share > 0.0 && rates.iter().all(|it| (it[bin] / share - 1.0).abs() <= TOLERANCE)
    };
    let mut run = 0;
    for bin in 0..bins {
        run = if fair_at(bin) { run + 1 } else { 0 };
        if run == hold {
            return Some(bin + 1 - run);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_one_for_equal_rates() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        // Three flows of a published report.
        let index = jain(&[29.4, 29.3, 39.6]).expect("rates");
        assert!((index - 0.979).abs() < 0.0005, "{index}");
    }

    #[test]
    fn convergence_is_the_start_of_a_fair_run() {
        let rates = [vec![9.0, 9.0, 6.0, 5.0, 5.0, 5.0], vec![1.0, 1.0, 4.5, 5.0, 5.0, 5.0]];
        assert_eq!(convergence_time(&rates, 0.7), Some(2), "three bins in 2 s");
        assert_eq!(convergence_time(&rates, 0.4), None, "five bins in 2 s");
    }
}
