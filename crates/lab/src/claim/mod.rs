//! Claims: sentences of an experiment with a predicate that the measurements decide.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | predicate | `grammar.rs` | the notation, and its syntax tree |
//! | value | `value.rs` | value of an expression in one repetition |
//! | evidence | `evidence.rs` | p values for and against a predicate |
//! | judgement | `judgement.rs` | verdicts of all claims of an experiment |
//! | expectation | `expectation.rs` | expected values beside measured ones |

mod evidence;
mod expectation;
mod grammar;
mod judgement;
mod value;

pub use expectation::{Expectation, Fit, expectations};
pub use grammar::{
    ClaimError, Direction, Expression, Metric, Operator, Predicate, Relation, parse, parse_expression,
};
pub use judgement::{Judgement, Verdict, judge};
pub use value::{constant, value_of};
