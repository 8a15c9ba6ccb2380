//! Fairness of the rates of flows.

/// Returns Jain's index (Jain, Chiu, Hawe 1984): 1 for equal rates, 1/n if one flow has all. `None`
/// without rates or if all are zero.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    #[allow(clippy::cast_precision_loss, reason = "numbers of flows are small")]
    let n = rates.len() as f64;
    (squares > 0.0).then(|| sum * sum / (n * squares))
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
}
