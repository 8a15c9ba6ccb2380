//! Statistics of repetitions: intervals, tests and contrasts. Pure functions of their arguments.
//!
//! | question | file |
//! |---|---|
//! | mean of a cell | `interval.rs`: t interval; `bootstrap.rs`: BCa bootstrap beside it |
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
mod interval;
mod lenth;
mod order;
mod stopping;
mod warm_up;

pub use bootstrap::bca_interval;
pub use comparison::{
    Comparison, difference, equivalent, holm, paired_log_ratio, pairing_gain, unpaired_log_ratio,
};
pub use distribution::{normal_quantile, t_quantile, t_two_sided_p};
pub use factorial::{Effect, Term, effects, variance};
pub use fairness::{convergence_time, jain};
pub use interval::{Interval, mean, standard_deviation, t_interval};
pub use lenth::{Lenth, half_normal_scores, lenth};
pub use order::{quantile, quantile_interval};
pub use stopping::{next_look, runs_to_decide, spent_level};
pub use warm_up::{Cut, mser5};
