//! Claims: sentences of an experiment with a predicate that the measurements decide.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | predicate | `grammar.rs` | the notation, and its syntax tree |
//! | value | `claim.rs` | value of an expression in one repetition |
//! | evidence | `evidence.rs` | p values for and against a predicate |
//! | judgement | `judgement.rs` | verdicts of all claims of an experiment |
//! | expectation | `expectation.rs` | expected values beside measured ones |

mod evidence;
mod expectation;
mod grammar;
mod judgement;

use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, EngineKind, levels_text};
use crate::results::{Results, Selection};
use crate::statistics::quantile;
use crate::theory::{self, Conditions};

pub use expectation::{Expectation, Fit, expectations};
pub use grammar::{
    ClaimError, Direction, Expression, Metric, Operator, Predicate, Relation, parse, parse_expression,
};
pub use judgement::{Judgement, Verdict, judge};

/// Measurements that expressions read: those of one engine, in the cells with certain levels.
#[derive(Debug, Clone)]
struct Scope<'a> {
    results: &'a Results,
    engine: EngineKind,
    levels: Selection,
}

/// Reasons for which an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Missing {
    #[error("no cell has {0}")]
    Cells(String),
    #[error("the cells have no metric {0}")]
    Metric(String),
    /// Some repetitions of a cell lack the metric. A mean over the others would mislead.
    #[error("{missing} of {all} repetitions of cell [{cell}] lack {metric}, so it has no mean")]
    Partly { metric: String, cell: String, missing: usize, all: usize },
    /// Cells on both sides of an effect differ in other factors too.
    #[error("no two cells differ in {0} alone, and the others do not balance: compare single cells")]
    Unmatched(String),
    /// The value is not finite: a division by zero, or the logarithm of zero.
    #[error("it divides by zero, or takes an effect on a metric that is zero")]
    Number,
}

/// Returns the mean of an expression over the repetitions of one engine, if it was measured.
pub fn value_of(expression: &Expression, results: &Results, engine: EngineKind) -> Option<f64> {
    let scope = Scope { results, engine, levels: Selection::default() };
    scope.value(expression, &scope.repetitions(&[expression])).ok()
}

/// Returns the value of an expression without metrics and models, if it is finite.
pub fn constant(expression: &Expression) -> Option<f64> {
    value_of(expression, &Results::default(), EngineKind::Virtual)
}

fn finite(value: f64) -> Result<f64, Missing> {
    if value.is_finite() { Ok(value) } else { Err(Missing::Number) }
}

impl<'a> Scope<'a> {
    /// Returns this scope with further levels. A level of a factor that the scope has replaces it.
    fn within(&self, selection: &Selection) -> Self {
        let is_kept = |(factor, _): &&(String, String)| selection.0.iter().all(|(other, _)| other != factor);
        let levels = self.levels.0.iter().filter(is_kept).chain(&selection.0).cloned().collect();
        Self { levels: Selection(levels), ..self.clone() }
    }

    fn cells(&self, selection: &Selection) -> Vec<&'a Cell> {
        let scope = self.within(selection);
        let results = self.results;
        results
            .cells
            .iter()
            .filter(|cell| cell.physics.engine == self.engine && scope.levels.matches(cell))
            .collect()
    }

    /// Returns the repetitions that all cells of some expressions have, ascending. Cells in which
    /// nothing is random have all repetitions that the others have.
    fn repetitions(&self, expressions: &[&Expression]) -> Vec<u32> {
        let mut cells = Vec::new();
        for expression in expressions {
            self.cells_of(expression, &mut cells);
        }
        if cells.iter().any(|cell| !self.results.is_one_run(cell.id)) {
            cells.retain(|cell| !self.results.is_one_run(cell.id));
        }
        let mut common: Option<Vec<u32>> = None;
        for cell in cells {
            let reps: Vec<u32> = self.results.valid_repetitions(cell.id).collect();
            common = Some(match common {
                None => reps,
                // Repetitions are in ascending order.
                Some(mut common) => {
                    common.retain(|rep| reps.binary_search(rep).is_ok());
                    common
                }
            });
        }
        common.unwrap_or_default()
    }

    /// Adds the cells whose measurements an expression uses.
    fn cells_of(&self, expression: &Expression, cells: &mut Vec<&'a Cell>) {
        for operand in expression.operands() {
            if let Expression::Metric(metric)
            | Expression::Quantile(_, metric)
            | Expression::Effect(metric, _) = operand
            {
                cells.extend(self.cells(&metric.selection));
            }
        }
    }

    /// Returns the value of an expression from the means of some repetitions, which may repeat.
    fn value(&self, expression: &Expression, reps: &[u32]) -> Result<f64, Missing> {
        match expression {
            Expression::Number(value) => Ok(*value),
            Expression::Metric(metric) => self.metric(metric, reps),
            Expression::Quantile(p, metric) => self.quantile(*p, metric, reps),
            Expression::Effect(metric, factors) => self.effect(metric, factors, reps),
            Expression::Theory(model, flow, selection) => self.theory(model, flow.as_deref(), selection),
            Expression::Binary(left, operator, right) => {
                let (left, right) = (self.value(left, reps)?, self.value(right, reps)?);
                finite(match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                })
            }
        }
    }

    /// Returns the cells with these levels, at least one.
    fn selected(&self, selection: &Selection) -> Result<Vec<&'a Cell>, Missing> {
        let cells = self.cells(selection);
        if cells.is_empty() {
            let mut words = vec![format!("engine {}", self.engine)];
            let levels = self.within(selection).levels.0;
            words.extend(levels.iter().map(|(factor, level)| format!("{factor}={level}")));
            return Err(Missing::Cells(words.join(", ")));
        }
        Ok(cells)
    }

    fn measured(&self, cell: &Cell, name: &str, rep: u32) -> Result<f64, Missing> {
        let value = self.results.metric(cell, name, rep);
        value.ok_or_else(|| match self.results.missing(cell, name) {
            (missing, all) if missing < all => {
                let cell = levels_text(&cell.factors, ", ");
                Missing::Partly { metric: name.to_owned(), cell, missing, all }
            }
            _ => Missing::Metric(name.to_owned()),
        })
    }

    /// Returns a metric of all its cells in these repetitions.
    fn values(&self, metric: &Metric, reps: &[u32]) -> Result<Vec<f64>, Missing> {
        let mut values = Vec::new();
        for cell in self.selected(&metric.selection)? {
            for rep in reps {
                values.push(self.measured(cell, &metric.name, *rep)?);
            }
        }
        Ok(values)
    }

    fn metric(&self, metric: &Metric, reps: &[u32]) -> Result<f64, Missing> {
        let mean = crate::statistics::mean(&self.values(metric, reps)?);
        mean.ok_or_else(|| Missing::Metric(metric.name.clone()))
    }

    fn quantile(&self, p: f64, metric: &Metric, reps: &[u32]) -> Result<f64, Missing> {
        let mut values = self.values(metric, reps)?;
        values.sort_by(f64::total_cmp);
        quantile(&values, p).ok_or_else(|| Missing::Metric(metric.name.clone()))
    }

    /// Returns the ratio of geometric means: each cell counts as a numerator if an even number of
    /// the factors is at its first level, else as a denominator.
    fn effect(&self, metric: &Metric, factors: &[String], reps: &[u32]) -> Result<f64, Missing> {
        let mut sums = [(0.0, 0_u32); 2];
        for (cell, side) in self.sides(metric, factors)? {
            let side = &mut sums[side];
            for rep in reps {
                side.0 += self.measured(cell, &metric.name, *rep)?.ln();
                side.1 += 1;
            }
        }
        let [(above, n), (below, m)] = sums;
        if n == 0 || m == 0 {
            return Err(Missing::Cells(factors.join(" and ")));
        }
        let ratio = finite(above / f64::from(n) - below / f64::from(m))?.exp();
        finite(ratio)
    }

    /// Returns the cells of an effect, each with its side: 0 above, 1 below. All else is equal:
    /// every cell has partners that differ in these factors alone, or, as in a fraction, both sides
    /// have each level of another factor equally often.
    fn sides(&self, metric: &Metric, factors: &[String]) -> Result<Vec<(&'a Cell, usize)>, Missing> {
        let cells = self.selected(&metric.selection)?;
        let place = |cell: &Cell, factor: &String| {
            cell.level(factor).and_then(|level| self.results.place_of_level(factor, level))
        };
        let first = |factor: &String| cells.iter().filter_map(|cell| place(cell, factor)).min();
        let firsts: Vec<Option<usize>> = factors.iter().map(first).collect();
        let signs = |cell: &Cell| -> Vec<bool> {
            factors.iter().zip(&firsts).map(|(factor, first)| place(cell, factor) == *first).collect()
        };
        let others = |cell: &'a Cell| -> Vec<&'a (String, String)> {
            cell.factors.iter().filter(|(name, _)| !factors.contains(name)).collect()
        };
        let mut partners: BTreeMap<Vec<&(String, String)>, BTreeSet<Vec<bool>>> = BTreeMap::new();
        for cell in &cells {
            partners.entry(others(cell)).or_default().insert(signs(cell));
        }
        let side = |cell: &'a Cell| (cell, signs(cell).iter().filter(|is_first| **is_first).count() % 2);
        let is_matched = |cell: &&'a Cell| partners[&others(cell)].len() == 1 << factors.len();
        let matched: Vec<_> = cells.iter().copied().filter(is_matched).map(side).collect();
        if !matched.is_empty() {
            return Ok(matched);
        }
        let all: Vec<_> = cells.iter().copied().map(side).collect();
        let mut balance: BTreeMap<&(String, String), [usize; 2]> = BTreeMap::new();
        for (cell, side) in &all {
            for level in others(cell) {
                balance.entry(level).or_default()[*side] += 1;
            }
        }
        let is_balanced = balance.values().all(|[above, below]| above == below);
        if is_balanced { Ok(all) } else { Err(Missing::Unmatched(factors.join(" and "))) }
    }

    fn theory(&self, name: &str, flow: Option<&str>, selection: &Selection) -> Result<f64, Missing> {
        let missing = || Missing::Metric(format!("theory({name})"));
        let model = theory::model(name).ok_or_else(missing)?;
        let mut values = Vec::new();
        for cell in self.selected(selection)? {
            let flow = cell.physics.flows.iter().find(|it| flow.is_none_or(|name| it.name == name));
            let conditions = flow.and_then(|flow| Conditions::of(&cell.physics, flow)).ok_or_else(missing)?;
            values.push((model.predict)(&conditions).ok_or_else(missing)?.value);
        }
        crate::statistics::mean(&values).ok_or_else(missing)
    }
}
