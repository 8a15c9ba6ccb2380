//! The figure of an experiment that asks for none: the response over its first factor, with the
//! models that hold for it, or without a factor the series of one repetition.

use std::collections::BTreeSet;

use crate::cell::Cell;
use crate::claim::{Expression, Predicate};
use crate::experiment::{Experiment, Figure, FigureKind, LogAxes, Place};
use crate::flow::Flow;
use crate::results::Selection;
use crate::statistics::mean;
use crate::theory::{Conditions, MODELS, Model};

use super::super::scale::level_value;
use super::Subject;
use super::select::{levels, values};

/// Ratio of the largest to the smallest value above which the axes are logarithmic, if the levels
/// grow by about the same ratio.
const LOG_OVER: f64 = 8.0;
/// Levels of a second factor above which a figure has no curve for each.
const MAX_CURVES: usize = 8;

/// Returns the figures of the experiment's file, or the obvious one.
pub(super) fn figures(subject: &Subject<'_>) -> Vec<Figure> {
    let written = &subject.experiment.figures;
    if written.is_empty() { vec![obvious(subject)] } else { written.clone() }
}

fn obvious(subject: &Subject<'_>) -> Figure {
    let of = response(subject.experiment);
    let names = subject.experiment.factors.iter().map(|factor| factor.name.as_str());
    let mut varied = names.filter(|name| levels(subject, name).len() > 1);
    let x = varied.next().map(str::to_owned);
    let by = varied.next().filter(|name| levels(subject, name).len() <= MAX_CURVES).map(str::to_owned);
    let has_flows = !subject.experiment.flows.is_empty();
    let kind = match &x {
        Some(_) => FigureKind::Lines,
        None if has_flows => FigureKind::Series,
        None => FigureKind::Means,
    };
    let theory = if x.is_some() { models(subject, &of) } else { Vec::new() };
    let log = x.as_deref().map_or_else(LogAxes::default, |x| log_axes(subject, x, &of));
    Figure {
        kind,
        of: if kind == FigureKind::Series { Vec::new() } else { vec![of] },
        x,
        by,
        panel: None,
        only: Selection::default(),
        theory,
        log,
        title: None,
        place: Place::default(),
    }
}

/// Returns the metric of the first claim, else that of the first published values, else the first
/// metric of a program, else the goodput.
fn response(experiment: &Experiment) -> String {
    let claims = experiment.claims.iter().map(|claim| {
        let mut predicate = &claim.predicate;
        while let Predicate::All(_, inner) = predicate {
            predicate = inner;
        }
        match predicate {
            Predicate::Monotone(metric, ..) => Some(metric.name.clone()),
            Predicate::Compare(left, _, right) => named(left).or_else(|| named(right)),
            Predicate::All(..) => None,
        }
    });
    let published = experiment.expects.iter().map(|expect| named(&expect.expression));
    let of_program = experiment.command.iter().flat_map(|it| &it.metrics).map(|(name, _)| name.clone());
    let run_time = experiment.command.iter().map(|_| "run-time".to_owned());
    let first = claims.chain(published).flatten().chain(of_program).chain(run_time).next();
    first.unwrap_or_else(|| "goodput".to_owned())
}

fn named(expression: &Expression) -> Option<String> {
    expression.operands().into_iter().find_map(|operand| match operand {
        Expression::Metric(metric) | Expression::Quantile(_, metric) | Expression::Effect(metric, _) => {
            Some(metric.name.clone())
        }
        _ => None,
    })
}

/// Returns the models that hold for most cells: each adds cells for which those before do not hold.
fn models(subject: &Subject<'_>, of: &str) -> Vec<String> {
    let (flow, word) = of.rsplit_once('.').map_or((None, of), |(flow, word)| (Some(flow), word));
    let is_of = |it: &&Flow| flow.is_none_or(|name| it.name == name);
    let holds = |model: &Model, cell: &Cell| {
        let flow = cell.physics.flows.iter().find(is_of);
        let conditions = flow.and_then(|flow| Conditions::of(&cell.physics, flow));
        conditions.and_then(|it| (model.predict)(&it)).is_some_and(|it| it.valid)
    };
    let fits = MODELS.iter().filter(|model| model.metric == word).map(|model| {
        let cells = subject.results.cells.iter().enumerate().filter(|(_, cell)| holds(model, cell));
        (model.name, cells.map(|(index, _)| index).collect::<BTreeSet<usize>>())
    });
    let mut fits: Vec<(&str, BTreeSet<usize>)> = fits.collect();
    fits.sort_by_key(|(_, cells)| std::cmp::Reverse(cells.len()));
    let mut covered = BTreeSet::new();
    let mut chosen = Vec::new();
    for (name, cells) in fits {
        if !cells.is_subset(&covered) {
            covered.extend(cells);
            chosen.push(name.to_owned());
        }
    }
    chosen
}

/// Returns logarithmic axes if the levels are numbers that grow by about the same ratio, for the
/// values too if they span as much.
fn log_axes(subject: &Subject<'_>, factor: &str, of: &str) -> LogAxes {
    let numbers = levels(subject, factor).iter().map(|level| Some(level_value(level)?.0)).collect();
    let Some(numbers) = numbers else { return LogAxes::default() };
    let mut numbers: Vec<f64> = numbers;
    numbers.sort_by(f64::total_cmp);
    let means: Vec<f64> =
        subject.results.cells.iter().filter_map(|cell| mean(&values(subject, &[cell], of))).collect();
    let x = spans(&numbers) && numbers.windows(2).all(|pair| pair[1] / pair[0] >= 1.3);
    LogAxes { x, y: x && spans(&means) }
}

fn spans(values: &[f64]) -> bool {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    low > 0.0 && values.iter().copied().fold(0.0, f64::max) / low >= LOG_OVER
}
