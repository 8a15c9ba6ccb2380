//! Figures of factorial designs.

use crate::statistics::{analyse, difference, lenth};

use super::super::figure::{self, Effect, FactorMeans, HalfNormal, Heading, Heat};
use super::super::scale::Unit;
use super::super::scene::{Row, Scene};
use super::means::quantity;
use super::select::{View, levels, mean_row, values};

/// Effects of a design, and the margin of error if it is not replicated.
struct Effects {
    effects: Vec<Effect>,
    margin: Option<f64>,
}

/// Returns the factors that vary in the figure, with their levels.
fn factors(view: &View<'_>) -> Vec<(String, Vec<String>)> {
    let fixed = |factor: &str| view.figure.only.0.iter().any(|(name, _)| name == factor);
    let all = view.subject.experiment.factors.iter().filter(|factor| !fixed(&factor.name));
    let with_levels = all.map(|factor| (factor.name.clone(), levels(view.subject, &factor.name)));
    with_levels.filter(|(_, levels)| levels.len() > 1).collect()
}

/// Returns the effects of all factors and interactions. `None` unless all combinations are there.
fn effects(view: &View<'_>) -> Option<Effects> {
    let factors = factors(view);
    let cells = view.cells(*view.engines.first()?, &[]);
    let metric = view.metrics.first()?;
    let all: Vec<Vec<f64>> = cells.iter().map(|cell| values(view.subject, &[cell], metric)).collect();
    let shortest = all.iter().map(Vec::len).min()?;
    let all: Vec<Vec<f64>> = all.into_iter().map(|values| values[..shortest].to_vec()).collect();
    let counts: Vec<usize> = factors.iter().map(|(_, levels)| levels.len()).collect();
    let analysis = analyse(&counts, &all, counts.len())?;
    let estimates: Vec<f64> = analysis.effects.iter().map(|effect| effect.estimate).collect();
    let margin = lenth(&estimates).map(|it| it.margin).filter(|_| shortest == 1);
    let named = |effect: &crate::statistics::Effect| {
        let names: Vec<&str> = effect.factors.iter().map(|i| factors[*i].0.as_str()).collect();
        let stands_out = match (margin, effect.interval) {
            (Some(margin), _) => effect.estimate.abs() > margin,
            (None, interval) => interval.is_some_and(|it| !it.contains(0.0)),
        };
        Effect { name: names.join(" \u{d7} "), value: effect.estimate, stands_out }
    };
    Some(Effects { effects: analysis.effects.iter().map(named).collect(), margin })
}

/// Draws all effects. `None` if the design is not complete.
pub(super) fn half_normal(view: &View<'_>, heading: Heading) -> Option<Scene> {
    let Effects { effects, margin } = effects(view)?;
    let mut of = quantity(view);
    of.name = format!("effect on {}", of.name);
    Some(figure::half_normal(&HalfNormal { heading, of, effects, margin }))
}

/// Draws the marginal means of all factors.
pub(super) fn marginals(view: &View<'_>, heading: &Heading) -> Scene {
    let engine = view.engines[0];
    let metric = view.metrics.first().map_or("goodput", String::as_str);
    let tested = effects(view);
    let mut all = Vec::new();
    for (factor, levels) in factors(view) {
        let cells = |level: &String| view.cells(engine, &[(&factor, level)]);
        let row = |level: &String| Some((level.clone(), mean_row(view.subject, &cells(level), metric, 0.0)?));
        let rows: Vec<(String, Row)> = levels.iter().filter_map(row).collect();
        let ends = [levels.first(), levels.last()].map(|level| level.map(cells).unwrap_or_default());
        let [low, high] = ends.map(|cells| values(view.subject, &cells, metric));
        let differences: Vec<f64> = low.iter().zip(&high).map(|(low, high)| high - low).collect();
        let unreplicated = tested.as_ref().filter(|tested| tested.margin.is_some());
        let lenth = unreplicated.and_then(|it| it.effects.iter().find(|effect| effect.name == factor));
        let within_noise = match (lenth, difference(&differences, 0.95)) {
            (Some(effect), _) => !effect.stands_out,
            (None, Some(difference)) => difference.interval.contains(0.0),
            (None, None) => false,
        };
        all.push(FactorMeans { factor, levels: rows, within_noise });
    }
    figure::marginals(heading, &quantity(view), &all)
}

/// Draws the mean for each pair of levels. `None` without a second factor.
pub(super) fn heat(view: &View<'_>, heading: Heading) -> Option<Scene> {
    let by = view.figure.by.clone()?;
    let rows = levels(view.subject, &by);
    let metric = view.metrics.first()?;
    let mut values = Vec::new();
    for (i, x) in view.levels.iter().enumerate() {
        for (k, y) in rows.iter().enumerate() {
            let cells = view.cells(view.engines[0], &[(&view.x, x), (&by, y)]);
            values.extend(mean_row(view.subject, &cells, metric, 0.0).map(|row| (i, k, row.y)));
        }
    }
    let mut of = quantity(view);
    let largest = values.iter().map(|(_, _, value)| value.abs()).fold(0.0, f64::max);
    let unit = of.unit.shown(largest).1;
    if of.unit != Unit::None {
        of.name = format!("{} ({unit})", of.name);
    }
    let x = (view.x.clone(), view.levels.clone());
    Some(figure::heat(&Heat { heading, of, x, y: (by, rows), values }))
}
