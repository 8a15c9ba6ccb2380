//! Figures of means.

use crate::experiment::{Compare, Expect, ExpectedValue};
use crate::statistics::mean;
use crate::theory::{Conditions, Model, model};

use super::super::figure::{self, Curve, Lines, Quantity};
use super::super::palette::{DARKEST, mixed};
use super::super::scale::{Tick, Unit, level_value, number};
use super::super::scene::{Origin, Row, Scene};
use super::select::{Group, View, mean_row};
use super::words::{axis_name, unit_of_setting};

/// Ratio of the largest to the smallest level above which an axis is logarithmic by default.
const LOG_OVER: f64 = 30.0;

/// Draws means for the levels of a factor. `joined`: with lines, for interactions.
pub(super) fn means(view: &View<'_>, scene: Scene, joined: bool) -> Scene {
    let places: Vec<f64> = (0..view.levels.len().max(1)).map(number).collect();
    let levels = if view.levels.is_empty() { vec!["all".to_owned()] } else { view.levels.clone() };
    let x = axis_name(view.subject.experiment, &view.x);
    figure::means(scene, &quantity(view), &x, levels, &curves(view, &places), joined)
}

/// Returns the measured curves, those of the models, and the published ones.
fn curves(view: &View<'_>, places: &[f64]) -> Vec<Curve> {
    [measured(view, places), models(view, places), published(view, places)].concat()
}

/// Returns name and unit of a numeric factor, and a tick for each level at its place on the axis.
fn axis(view: &View<'_>, places: &[f64]) -> (Quantity, Vec<Tick>) {
    let unit = view.levels.first().and_then(|level| level_value(level)).map_or(Unit::None, |it| it.1);
    let unit = if unit == Unit::None { unit_of_setting(view.subject.experiment, &view.x) } else { unit };
    let tick = |(at, level): (&f64, &String)| Tick { at: *at, label: level.clone() };
    (Quantity { name: view.x.clone(), unit }, places.iter().zip(&view.levels).map(tick).collect())
}

/// Draws means against a numeric factor, with models. Levels that are not numbers stand side by
/// side.
pub(super) fn lines(view: &View<'_>, scene: Scene) -> Scene {
    let Some(places) = view.numbers() else { return means(view, scene, true) };
    let (x, levels) = axis(view, &places);
    let lines = Lines {
        of: quantity(view),
        x,
        levels,
        log_x: view.figure.log.x || spans_decades(&places),
        log_y: view.figure.log.y,
        curves: curves(view, &places),
        limits: Vec::new(),
    };
    figure::lines(scene, &lines)
}

/// Draws delivered and offered rates. `None` if the levels of the factor are not numbers.
pub(super) fn offered(view: &View<'_>, scene: Scene) -> Option<Scene> {
    let places = view.numbers()?;
    let most = |curve: &Curve| curve.rows.iter().map(|row| row.y).fold(0.0, f64::max);
    let models = models(view, &places).into_iter();
    let limits = models.map(|curve| (curve.name.clone(), most(&curve))).collect();
    let groups = view.groups();
    let of_sources = |word: &str| -> Vec<Curve> {
        let one = |(look, group): (usize, &Group)| {
            let flow = group.metric.rsplit_once('.').map_or(String::new(), |(flow, _)| format!("{flow}."));
            curve(view, &Group { metric: format!("{flow}{word}"), ..group.clone() }, look, &places)
        };
        groups.iter().enumerate().map(one).filter(|curve| !curve.rows.is_empty()).collect()
    };
    let (x, levels) = axis(view, &places);
    let against = (x.unit != Unit::Rate).then(|| {
        let named =
            |it: Curve| Curve { name: "offered".to_owned(), origin: Origin::Theory, look: DARKEST, ..it };
        let offered = of_sources("offered").into_iter().take(1).map(named).collect();
        (x, levels, offered)
    });
    let (loss, delivered) = (of_sources("loss"), measured(view, &places));
    Some(figure::offered(scene, &delivered, &loss, limits, against))
}

fn spans_decades(places: &[f64]) -> bool {
    let least = places.iter().copied().fold(f64::INFINITY, f64::min);
    least > 0.0 && places.iter().copied().fold(0.0, f64::max) / least > LOG_OVER
}

/// Returns the quantity of the first metric; the flow is left out if all metrics are of one kind.
pub(super) fn quantity(view: &View<'_>) -> Quantity {
    let metric = view.metrics.first().map_or("goodput", String::as_str);
    let kind = metric.rsplit('.').next().unwrap_or(metric);
    let alike = view.metrics.len() > 1 && view.metrics.iter().all(|it| it.rsplit('.').next() == Some(kind));
    let name = if alike { kind } else { metric };
    Quantity { name: name.to_owned(), ..Quantity::of_metric(metric) }
}

fn curve(view: &View<'_>, group: &Group, look: usize, places: &[f64]) -> Curve {
    let at = |level: Option<&str>, x| mean_row(view.subject, &view.cells_of(group, level), &group.metric, x);
    let levels = view.levels_or_all().into_iter().zip(places);
    let mut rows: Vec<Row> = levels.filter_map(|(level, x)| at(level, *x)).collect();
    rows.sort_by(|a, b| a.x.total_cmp(&b.x));
    Curve::measured(group.name.clone(), look, rows)
}

fn measured(view: &View<'_>, places: &[f64]) -> Vec<Curve> {
    view.groups().iter().enumerate().map(|(look, group)| curve(view, group, look, places)).collect()
}

/// Returns the values that sources published for the figure's metrics and levels.
fn published(view: &View<'_>, places: &[f64]) -> Vec<Curve> {
    let groups = view.groups();
    let mut curves: Vec<Curve> = Vec::new();
    let mut sources: Vec<&str> = Vec::new();
    for expect in &view.subject.experiment.expects {
        let ran = view.engines.iter().any(|engine| expect.engines.contains(engine));
        let ran = ran || expect.engines.is_empty();
        let is_shown = |value: &&ExpectedValue| ran && !is_plain_ratio(expect, value);
        for value in expect.values.iter().filter(is_shown) {
            let level = |factor: &str| {
                let found = value.levels.0.iter().find(|(name, _)| name == factor);
                found.map(|(_, level)| level.as_str())
            };
            let only = &view.figure.only.0;
            let shown = only.iter().all(|(factor, it)| level(factor).is_none_or(|level| level == it));
            // The figure shows means over the factors that it does not draw. A value of a single
            // cell is no such mean.
            let is_drawn = |(name, _): &(String, String)| {
                let is_fixed = only.iter().any(|(fixed, _)| fixed == name);
                *name == view.x || view.figure.by.as_ref() == Some(name) || is_fixed
            };
            let shown = shown && value.levels.0.iter().all(is_drawn);
            let by = view.figure.by.as_deref().and_then(level);
            let same = |group: &Group| {
                let metric = group.metric == expect.of || group.metric.ends_with(&format!(".{}", expect.of));
                metric && (by.is_none() || group.by.as_deref() == by)
            };
            let place = level(&view.x).and_then(|x| view.levels.iter().position(|it| it == x));
            let (Some(place), Some(look)) = (place, groups.iter().position(same)) else { continue };
            if !shown || (view.figure.by.is_some() && by.is_none()) {
                continue;
            }
            let of_level = by.map_or_else(String::new, |_| format!(", {}", groups[look].name));
            let name = expect.source.clone() + &of_level;
            let row = Row::at(places[place], value.is);
            if let Some(curve) = curves.iter_mut().find(|curve| curve.name == name) {
                curve.rows.push(row);
            } else {
                let source = index_of(&mut sources, &expect.source);
                let own = look_of_source(view, groups.len(), look, source);
                let curve = Curve::measured(name, own, vec![row]);
                curves.push(Curve { origin: Origin::Published, beside: vec![look], ..curve });
            }
        }
    }
    for curve in &mut curves {
        curve.rows.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    curves
}

/// Returns the index of a source, which is added if it is new.
fn index_of<'a>(sources: &mut Vec<&'a str>, source: &'a str) -> usize {
    sources.iter().position(|it| *it == source).unwrap_or_else(|| {
        sources.push(source);
        sources.len() - 1
    })
}

/// Returns the look of a source's values beside group `look`: a marker of its own in the colour of
/// the group. A figure with one group has colours left, so there its colour is its own, too.
fn look_of_source(view: &View<'_>, groups: usize, look: usize, source: usize) -> usize {
    let own = groups + view.figure.theory.len() + source;
    mixed(if groups > 1 { look } else { own }, groups + source)
}

/// True if a source published a ratio instead of the values: a number without a unit.
fn is_plain_ratio(expect: &Expect, value: &ExpectedValue) -> bool {
    matches!(expect.compare, Compare::RatioTo(_)) && value.text.parse::<f64>().is_ok()
}

/// Returns the curves of the figure's models. Groups with equal predictions share a curve.
fn models(view: &View<'_>, places: &[f64]) -> Vec<Curve> {
    let groups = view.groups();
    let mut curves: Vec<Curve> = Vec::new();
    for found in view.figure.theory.iter().filter_map(|name| model(name)) {
        for (i, group) in groups.iter().enumerate() {
            let metric = group.metric.rsplit('.').next().unwrap_or(&group.metric);
            let rows = predictions(view, group, found, places);
            if metric != found.metric || rows.is_empty() {
                continue;
            }
            let outside = rows.iter().filter(|(_, valid)| !valid).map(|(row, _)| row.x).collect();
            let mut rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
            rows.sort_by(|a, b| a.x.total_cmp(&b.x));
            let is_same =
                |it: &&mut Curve| it.name == found.legend && it.rows == rows && it.outside == outside;
            if let Some(same) = curves.iter_mut().find(is_same) {
                same.beside.push(i);
                continue;
            }
            let look = if view.figure.theory.len() > 1 { groups.len() + curves.len() } else { i };
            let curve = Curve::measured(found.legend.to_owned(), look, rows);
            curves.push(Curve { origin: Origin::Theory, beside: vec![i], outside, ..curve });
        }
    }
    for curve in curves.iter_mut().filter(|curve| curve.beside.len() < groups.len()) {
        let names: Vec<&str> = curve.beside.iter().map(|i| groups[*i].name.as_str()).collect();
        curve.name = format!("{}, {}", curve.name, names.join(" and "));
    }
    curves
}

/// Returns the mean prediction of a model for the cells at each level, and whether it is valid.
fn predictions(view: &View<'_>, group: &Group, model: &Model, places: &[f64]) -> Vec<(Row, bool)> {
    let flow_name = group.metric.rsplit_once('.').map(|(flow, _)| flow);
    let one = |(level, x): (&String, &f64)| {
        let (mut values, mut valid) = (Vec::new(), true);
        for cell in view.cells_of(group, Some(level)) {
            let named = |name| cell.physics.flows.iter().find(|flow| flow.name == name);
            let flow = flow_name.map_or_else(|| cell.physics.flows.first(), named)?;
            let prediction = (model.predict)(&Conditions::of(&cell.physics, flow)?)?;
            values.push(prediction.value);
            valid &= prediction.valid;
        }
        Some((Row::at(*x, mean(&values)?), valid))
    };
    view.levels.iter().zip(places).filter_map(one).collect()
}
