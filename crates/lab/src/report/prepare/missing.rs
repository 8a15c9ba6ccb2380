//! Metrics that some repetitions of a cell lack, such as a time that was never reached. A mean over
//! the others would mislead.

use std::time::Duration;

use crate::cell::{Cell, EngineKind};

use super::super::scale::Unit;
use super::Subject;

/// Returns what stands in place of a mean: `missing in 4 of 5, else 3.928 s`. Empty if the cell has
/// no such metric.
pub(super) fn in_place_of_mean(subject: &Subject<'_>, cell: &Cell, metric: &str) -> String {
    let values = subject.results.values(cell, metric);
    let (missing, all) = subject.results.missing(cell, metric);
    let unit = Unit::of_metric(metric);
    let (low, high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, it| (ends.0.min(*it), ends.1.max(*it)));
    match &values[..] {
        [] if all > 0 && is_of_outcome(cell, metric) => format!("missing in {all} of {all}"),
        [] => String::new(),
        [one] => format!("missing in {missing} of {all}, else {}", unit.text(*one)),
        _ => format!("missing in {missing} of {all}, else {} to {}", unit.text(low), unit.text(high)),
    }
}

/// True if a flow of the cell may have the metric or not, as its repetition ends.
pub(super) fn is_of_outcome(cell: &Cell, metric: &str) -> bool {
    let (owner, word) = metric.rsplit_once('.').unwrap_or(("", metric));
    let mut flows = cell.physics.flows.iter().filter(|flow| owner.is_empty() || flow.name == owner);
    match word {
        "convergence" => flows.any(|flow| flow.start.1 > Duration::ZERO),
        "completion" => flows.any(|flow| flow.bytes.is_some()),
        _ => false,
    }
}

/// Returns a sentence for each metric that some repetitions of a cell lack.
pub(super) fn sentences(subject: &Subject<'_>, engine: EngineKind, metrics: &[String]) -> Vec<String> {
    let cells = || subject.results.cells.iter().filter(|cell| cell.physics.engine == engine);
    let lacks = |cell: &&Cell, metric: &str| {
        let (missing, all) = subject.results.missing(cell, metric);
        missing > 0 && (missing < all || is_of_outcome(cell, metric))
    };
    let sentence = |metric: &String| {
        let count = cells().filter(|cell| lacks(cell, metric)).count();
        (count > 0).then(|| {
            format!(
                "In {count} of these cells some repetitions lack {metric}: the table says how many, and figures \
                 leave these cells out, because a mean over the others would mislead."
            )
        })
    };
    metrics.iter().filter_map(sentence).collect()
}
