//! Figures and tables of factorial designs.

use crate::statistics::{self, Term, difference, lenth};

use super::super::figure::{self, Effect, FactorMeans, HalfNormal, Heading, Heat};
use super::super::scale::{Unit, number, significant};
use super::super::scene::{Row, Scene};
use super::super::section::{Entry, Table};
use super::means::quantity;
use super::select::{View, aligned, levels, mean_row};

/// Effects of a design, and Lenth's margin of error if it has a single repetition.
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

/// Complete design of a figure: names of the factors that vary, their numbers of levels, and the
/// values of the first metric for each combination, of which the last factor varies fastest.
struct Design {
    names: Vec<String>,
    levels: Vec<usize>,
    values: Vec<Vec<f64>>,
}

impl Design {
    fn of(view: &View<'_>) -> Option<Self> {
        let factors = factors(view);
        let cells = view.cells(*view.engines.first()?, &[]);
        let groups: Vec<Vec<_>> = cells.into_iter().map(|cell| vec![cell]).collect();
        let values = aligned(view.subject, &groups, view.metrics.first()?);
        let levels = factors.iter().map(|(_, levels)| levels.len()).collect();
        Some(Self { names: factors.into_iter().map(|(name, _)| name).collect(), levels, values })
    }

    /// Returns the name of a factor or of an interaction: `sack x delay`.
    fn name(&self, factors: &[usize]) -> String {
        factors.iter().map(|i| self.names[*i].as_str()).collect::<Vec<_>>().join(" \u{d7} ")
    }
}

/// Returns the effects of all factors and interactions. `None` unless all combinations are there.
fn effects(view: &View<'_>) -> Option<Effects> {
    let design = Design::of(view)?;
    let effects = statistics::effects(&design.levels, &design.values, design.levels.len())?;
    let estimates: Vec<f64> = effects.iter().map(|effect| effect.estimate).collect();
    let is_single = design.values.first()?.len() == 1;
    let margin = lenth(&estimates).map(|it| it.margin).filter(|_| is_single);
    let named = |effect: &statistics::Effect| {
        let stands_out = match (margin, effect.interval) {
            (Some(margin), _) => effect.estimate.abs() > margin,
            (None, interval) => interval.is_some_and(|it| !it.contains(0.0)),
        };
        Effect { name: design.name(&effect.factors), value: effect.estimate, stands_out }
    };
    Some(Effects { effects: effects.iter().map(named).collect(), margin })
}

/// Returns the analysis of variance of the design of a figure, with the interactions of two
/// factors. `None` if the design is not complete.
pub(super) fn variance(view: &View<'_>) -> Option<Table> {
    let design = Design::of(view)?;
    let terms = statistics::variance(&design.levels, &design.values, 2)?;
    let row = |term: &Term| {
        let p = term.p.map_or_else(Entry::default, |p| {
            let text = if p < 1e-4 { "< 0.0001".to_owned() } else { significant(p, 2) };
            Entry::number(text, p)
        });
        vec![
            Entry::text(design.name(&term.factors)),
            Entry::number(term.degrees.to_string(), number(term.degrees)),
            Entry::number(Unit::Share.text(term.share), term.share),
            p,
        ]
    };
    let head = ["factor or interaction", "degrees of freedom", "share of the sum of squares", "p (F test)"];
    let metric = view.metrics.first()?;
    Some(Table {
        caption: format!("Analysis of variance of {metric}, engine {}", view.engines.first()?),
        head: head.map(str::to_owned).to_vec(),
        rows: terms.iter().map(row).collect(),
    })
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
        let ends = aligned(view.subject, &ends, metric);
        let differences: Vec<f64> = ends[0].iter().zip(&ends[1]).map(|(low, high)| high - low).collect();
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
    let x = (view.x.clone(), view.levels.clone());
    Some(figure::heat(&Heat { heading, of: quantity(view), x, y: (by, rows), values }))
}
