//! Quantiles and tail probabilities of the normal, t and F distributions.

use statrs::distribution::{Beta, ContinuousCDF as _, FisherSnedecor, Normal, StudentsT};

use super::number;

/// Returns the quantile `p` of the standard normal distribution; `p` is in (0, 1).
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p)
}

/// Returns the probability that a standard normal variable is at most `x`.
pub(super) fn normal_cdf(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

/// Returns the quantile `p` of Student's t distribution with `degrees` degrees of freedom, which
/// need not be whole. `p` is in (0, 1), `degrees` is positive.
pub fn t_quantile(p: f64, degrees: f64) -> f64 {
    // The library's inverse has six digits. Newton's method gives the others in few steps.
    let Ok(t) = StudentsT::new(0.0, 1.0, degrees) else { return f64::NAN };
    let mut x = t.inverse_cdf(p);
    for _ in 0..4 {
        let density = statrs::distribution::Continuous::pdf(&t, x);
        if density > 0.0 {
            x -= (t.cdf(x) - p) / density;
        }
    }
    x
}

/// Returns the probability of a t statistic at least as far from zero as `t`.
pub fn t_two_sided_p(t: f64, degrees: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::NAN, |it| 2.0 * it.cdf(-t.abs()))
}

/// Returns the probability of an F statistic of at least `f` with these degrees of freedom.
pub(super) fn f_tail(f: f64, numerator: f64, denominator: f64) -> f64 {
    // Beyond these bounds the library's function has no value.
    if f.is_nan() || f <= 0.0 {
        return 1.0;
    }
    if f > 1e12 {
        return 0.0;
    }
    FisherSnedecor::new(numerator, denominator).map_or(f64::NAN, |it| it.sf(f))
}

/// Returns the probability of at most `k` successes in `n` trials with probability `p` each.
pub(super) fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    Beta::new(number(n - k), number(k + 1)).map_or(f64::NAN, |it| it.cdf(1.0 - p))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of scipy 1.17, which for these arguments are those of R.
    #[test]
    fn quantiles_and_tails_equal_those_of_scipy() {
        let cases = [
            (t_quantile(0.975, 9.0), 2.262_157_162_798_205),
            (t_quantile(0.975, 31.0 / 3.0), 2.218_434_561_727_208),
            (t_quantile(0.975, 1.0), 12.706_204_736_174_69),
            (t_quantile(0.95, 3.0), 2.353_363_434_801_823),
            (normal_quantile(0.975), 1.959_963_984_540_054),
            (t_two_sided_p(2.0, 10.0), 0.073_388_034_770_740_35),
            (f_tail(4.0, 2.0, 12.0), 0.046_655_999_999_999_99),
            (f_tail(f64::NAN, 2.0, 12.0), 1.0),
            (binomial_cdf(3, 10, 0.5), 0.171_875),
        ];
        for (i, (ours, theirs)) in cases.into_iter().enumerate() {
            assert!((ours / theirs - 1.0).abs() < 1e-9, "case {i}: {ours} for {theirs}");
        }
    }
}
