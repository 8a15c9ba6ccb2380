//! Statistics of repetitions: intervals, tests and contrasts. Pure functions of their arguments.
//!
//! | question | file |
//! |---|---|
//! | mean of a cell | `statistics.rs`: t interval; `bootstrap.rs`: BCa bootstrap beside it |
//! | median and other quantiles | `order.rs` |
//! | is A more than B? are they equal? several claims at once | `comparison.rs` |
//! | main effects, interactions and analysis of variance of a factorial | `factorial.rs` |
//! | effects of a factorial without repetitions | `lenth.rs` |
//! | when are repetitions enough? | `stopping.rs` |
//! | where does the warm-up end? | `warm_up.rs` |
//! | how fair are the rates of flows? | `fairness.rs` |

mod bootstrap;
mod comparison;
mod distribution;
mod factorial;
mod fairness;
mod lenth;
mod order;
mod stopping;
mod warm_up;

pub use bootstrap::bca_interval;
pub(crate) use comparison::beyond;
pub use comparison::{
    Comparison, difference, equivalent, holm, paired_log_ratio, pairing_gain, unpaired_log_ratio,
};
pub use distribution::{normal_quantile, t_quantile, t_two_sided_p};
pub use factorial::{Effect, Term, effects, variance};
pub use fairness::{convergence_time, jain};
pub use lenth::{Lenth, half_normal_scores, lenth};
pub use order::{quantile, quantile_interval};
pub use stopping::{next_look, runs_to_decide, spent_level};
pub use warm_up::{Cut, mser5};

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns half of the width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// True if `value` is in the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns the interval with an increasing function applied to its three numbers.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { estimate: f(self.estimate), low: f(self.low), high: f(self.high) }
    }
}

#[allow(clippy::cast_precision_loss, reason = "counters and sizes are far below 2^53")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

pub(crate) fn count_of(n: usize) -> f64 {
    number(n as u64)
}

fn count(values: &[f64]) -> f64 {
    count_of(values.len())
}

/// Returns the mean. `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values))
}

/// Returns the standard deviation of a sample (divisor n - 1). `None` for fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count(values) - 1.0)).sqrt())
}

/// Returns Student's interval of the mean with confidence `level` (0.95), of two values or more.
pub fn t_interval(values: &[f64], level: f64) -> Option<Interval> {
    let (mean, deviation) = (mean(values)?, standard_deviation(values)?);
    let half = t_quantile(f64::midpoint(1.0, level), count(values) - 1.0) * deviation / count(values).sqrt();
    Some(Interval { estimate: mean, low: mean - half, high: mean + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data set `sleep` of R: extra hours of sleep of ten patients, with each of two drugs.
    pub(super) const SLEEP: [[f64; 10]; 2] = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ];

    #[test]
    fn interval_of_a_mean_equals_that_of_r() {
        let interval = t_interval(&SLEEP[0], 0.95).expect("an interval");
        let expected = [0.75, -0.529_780_398_207_7, 2.029_780_398_207_7];
        for (ours, theirs) in [interval.estimate, interval.low, interval.high].into_iter().zip(expected) {
            assert!((ours - theirs).abs() < 1e-6, "{ours} for {theirs}");
        }
        assert_eq!(t_interval(&[1.0], 0.95), None);
    }
}
