//! Effects of a factorial without repetitions (Lenth 1989): most effects are taken to be zero, and
//! their spread gives the error.

use super::distribution::{normal_quantile, t_quantile};
use super::order::quantile;
use super::{count, count_of};

/// Standard error and margins of the effects of a factorial without repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lenth {
    /// Pseudo standard error of an effect.
    pub pseudo_standard_error: f64,
    /// Margin of error at 95 %: an effect beyond it is active.
    pub margin: f64,
    /// Margin of error for all effects at once, at 95 %.
    pub simultaneous_margin: f64,
}

/// Returns the error of effects. `None` without effects.
pub fn lenth(effects: &[f64]) -> Option<Lenth> {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        quantile(&values, 0.5)
    };
    let sizes: Vec<f64> = effects.iter().map(|effect| effect.abs()).collect();
    let first = 1.5 * median(sizes.clone())?;
    let small = sizes.into_iter().filter(|size| *size < 2.5 * first).collect();
    let pseudo_standard_error = median(small).map_or(first, |it| 1.5 * it);
    let degrees = count(effects) / 3.0;
    let all = f64::midpoint(1.0, 0.95_f64.powf(1.0 / count(effects)));
    Some(Lenth {
        pseudo_standard_error,
        margin: t_quantile(0.975, degrees) * pseudo_standard_error,
        simultaneous_margin: t_quantile(all, degrees) * pseudo_standard_error,
    })
}

/// Returns the half-normal scores of n values in ascending order: the places of a half-normal plot.
pub fn half_normal_scores(n: usize) -> Vec<f64> {
    (0..n).map(|i| normal_quantile(0.5 + 0.5 * (count_of(i) + 0.5) / count_of(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fifteen effects of a 2^4 design; the error was computed apart.
    #[test]
    fn error_follows_the_formula_of_lenth() {
        let effects =
            [0.13, 0.15, 0.30, 2.15, 3.10, -0.15, 0.40, 0.15, -0.03, 0.05, 0.10, 0.12, -0.12, 0.38, 0.40];
        let error = lenth(&effects).expect("effects");
        assert!((error.pseudo_standard_error - 0.225).abs() < 1e-12, "{error:?}");
        let t = error.margin / error.pseudo_standard_error;
        assert!((t - 2.570_581_8).abs() < 1e-6, "t with 5 degrees of freedom: {t}");
    }

    #[test]
    fn scores_are_quantiles_of_the_half_normal() {
        let scores = half_normal_scores(3);
        let expected = [0.210_428_394_2, 0.674_489_750_2, 1.382_994_127];
        assert!(scores.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8), "{scores:?}");
    }
}
