//! Figures of series, of the parts of a whole, and of distributions.

use std::collections::BTreeSet;

use crate::cell::Cell;
use crate::flow::FlowKind;
use crate::record::Series;
use crate::statistics::{convergence_time, mean};
use crate::theory::{AIRTIME_PARTS, Conditions};

use super::super::figure::{self, Column, EventTimes, Quantity, TimePanel};
use super::super::palette::DARKEST;
use super::super::scale::{Unit, number};
use super::super::scene::{Row, Scene};
use super::limits::LIMITS;
use super::means::quantity;
use super::select::{View, values};
use super::words::{axis_name, words};

/// Bars in a figure of parts.
const MAX_WHOLES: usize = 16;

/// Returns the cells of the figure whose series are kept, one for each level of `by`, with the
/// columns of these metrics.
fn with_series<'a>(view: &'a View<'_>, metrics: &[String]) -> Vec<(String, &'a Cell, Series)> {
    let wants = |column: &str| metrics.iter().any(|metric| is_of(column, metric));
    let mut found = Vec::new();
    for group in view.groups() {
        // Groups differ in metrics too, but a series has all of them.
        let by = view.figure.by.as_deref().zip(group.by.as_ref());
        let name = by.map_or_else(String::new, |(factor, level)| format!("{factor} {level}"));
        if found.iter().any(|(other, ..): &(String, &Cell, Series)| *other == name) {
            continue;
        }
        let mut cells = view.cells_of(&group, None).into_iter();
        let kept = cells.find_map(|cell| Some((cell, view.subject.results.series(cell.id, wants)?)));
        found.extend(kept.map(|(cell, series)| (name, cell, within(cell, series))));
    }
    found
}

/// Returns a series without bins that begin when the run is over: they are empty.
fn within(cell: &Cell, mut series: Series) -> Series {
    let Some(duration) = cell.physics.duration else { return series };
    let lasts = |bin: usize| figure::bin_end(-series.bin_s, bin, series.bin_s) < duration.as_secs_f64();
    for column in series.columns.values_mut() {
        let bins = (0..column.len()).take_while(|bin| lasts(*bin)).count();
        column.truncate(bins);
    }
    series
}

/// True if a column has this metric, of any flow or link.
fn is_of(column: &str, metric: &str) -> bool {
    column == metric || column.strip_suffix(metric).is_some_and(|owner| owner.ends_with('.'))
}

/// Draws series of the first repetition that keeps them. `None` if none does.
pub(super) fn series(view: &View<'_>, mut scene: Scene) -> Option<Scene> {
    let default = ["goodput".to_owned(), "cwnd".to_owned()];
    let names = if view.figure.of.is_empty() { &default[..] } else { &view.figure.of[..] };
    let shown = with_series(view, names);
    let bin_s = shown.first()?.2.bin_s;
    let mut panels = Vec::new();
    for name in names {
        let mut columns = Vec::new();
        for (index, (group, _, series)) in shown.iter().enumerate() {
            let found: Vec<_> = series.columns.iter().filter(|(column, _)| is_of(column, name)).collect();
            for (column, values) in &found {
                // One column of each group has the same name and colour in all panels.
                let (name, look) = match (group.is_empty(), found.len()) {
                    (true, _) => ((*column).clone(), columns.len()),
                    (false, 1) => (group.clone(), index),
                    (false, _) => (format!("{column}, {group}"), columns.len()),
                };
                columns.push(Column { name, look, values: (*values).clone() });
            }
        }
        panels.push(TimePanel { of: Quantity::of_metric(name), at_ends: false, columns });
    }
    panels.retain(|panel| !panel.columns.is_empty());
    let events = match &shown[..] {
        // A retransmission follows each of the others, and hundreds of them would cover the lines.
        [(_, _, series)] => events(series, |name| !name.ends_with(".retransmission")),
        _ => Vec::new(),
    };
    let cells: Vec<&Cell> = shown.iter().map(|(_, cell, _)| *cell).collect();
    scene.title = titled(&scene.title, view, &cells);
    (!panels.is_empty()).then(|| figure::time_series(scene, (0.0, bin_s), &panels, &events))
}

/// Returns the events that happened and are wanted, each kind with a colour of its own.
fn events(series: &Series, wants: impl Fn(&str) -> bool) -> Vec<EventTimes> {
    let wanted = series.events.iter().filter(|(name, times)| !times.is_empty() && wants(name));
    let event = |(i, (name, times)): (usize, (&String, &Vec<f64>))| EventTimes {
        name: name.clone(),
        look: DARKEST + i,
        times: times.clone(),
    };
    wanted.enumerate().map(event).collect()
}

/// Draws the bytes of one flow over time in the first repetition that keeps its series: what the
/// receiver has read, what is sent, and where the receiver's window ends if its size is fixed.
pub(super) fn sequence(view: &View<'_>, mut scene: Scene) -> Option<Scene> {
    let shown = with_series(view, &["goodput", "in-flight", "rwnd"].map(str::to_owned));
    let (_, cell, series) = shown.first()?;
    let flow = cell
        .physics
        .flows
        .iter()
        .find(|flow| series.columns.contains_key(&format!("{}.in-flight", flow.name)))?;
    let column = |name: &str| series.columns.get(&format!("{}.{name}", flow.name));
    let mut total = 0.0;
    let read = column("goodput")?.iter().map(|bps| {
        total += bps.unwrap_or(0.0) * series.bin_s / 8.0;
        total
    });
    let read: Vec<f64> = read.collect();
    let beyond = |name: &str| -> Option<Vec<Option<f64>>> {
        Some(read.iter().zip(column(name)?).map(|(read, more)| Some(read + (*more)?)).collect())
    };
    let window = (flow.window.is_some() || flow.kind == FlowKind::Classic).then(|| beyond("rwnd")).flatten();
    let all = [
        ("read by the receiver", Some(read.iter().copied().map(Some).collect())),
        ("sent", beyond("in-flight")),
    ];
    let all = all.into_iter().chain([("end of the receiver's window", window)]);
    let columns = all
        .enumerate()
        .filter_map(|(look, (name, values))| Some(Column { name: name.to_owned(), look, values: values? }));
    let of = Quantity { name: "bytes".to_owned(), unit: Unit::Bytes };
    let panels = vec![TimePanel { of, at_ends: true, columns: columns.collect() }];
    let mine = ["retransmission", "timeout"].map(|it| format!("{}.{it}", flow.name));
    let events = events(series, |name| mine.iter().any(|it| it == name));
    scene.title = titled(&scene.title, view, &[cell]);
    Some(figure::time_series(scene, (0.0, series.bin_s), &panels, &events))
}

/// Returns a title with the levels that all shown cells have and the figure does not fix.
fn titled(title: &str, view: &View<'_>, cells: &[&Cell]) -> String {
    let of_all = |factor: &str, level: &str| cells.iter().all(|cell| cell.level(factor) == Some(level));
    let factors = cells.first().map_or(&[][..], |cell| cell.factors.as_slice());
    let common = factors.iter().filter(|(factor, level)| !view.figure.fixes(factor) && of_all(factor, level));
    let words = words(common);
    if words.is_empty() { title.to_owned() } else { format!("{title} ({words})") }
}

/// Draws how flows share a link in the first repetition that keeps its series.
pub(super) fn share(view: &View<'_>, mut scene: Scene) -> Option<Scene> {
    let shown = with_series(view, &["goodput".to_owned()]);
    let (_, cell, series) = shown.first()?;
    let mut flows = Vec::new();
    for (look, flow) in cell.physics.flows.iter().enumerate() {
        let Some(values) = series.columns.get(&format!("{}.goodput", flow.name)) else { continue };
        let first = values.iter().position(|value| value.is_some_and(|value| value > 0.0)).unwrap_or(0);
        let alive = values.iter().enumerate().map(|(i, value)| value.filter(|_| i >= first)).collect();
        flows.push(Column { name: flow.name.clone(), look, values: alive });
    }
    let flow = cell.physics.flows.first()?;
    let link = Conditions::of(&cell.physics, flow).and_then(|it| it.link_goodput_bps());
    let bins = flows.iter().map(|flow| flow.values.len()).max().unwrap_or(0);
    let alive =
        |i: usize| flows.iter().filter(|flow| flow.values.get(i).copied().flatten().is_some()).count();
    let fair = |i: usize| {
        let count = alive(i);
        // The end of the bin before is the begin of this one.
        Some(Row::at(figure::bin_end(-series.bin_s, i, series.bin_s), link? / number(count)))
            .filter(|_| count > 0)
    };
    let mut fair: Vec<Row> = (0..bins).filter_map(fair).collect();
    // Only the steps: rows at which the number of flows changes, and the last one.
    let last = fair.last().map(|row| Row { x: row.x + series.bin_s, ..*row });
    fair.dedup_by(|a, b| a.y.total_cmp(&b.y).is_eq());
    fair.extend(last);
    scene.title = titled(&scene.title, view, &[cell]);
    let mut scene = figure::share(scene, series.bin_s, &flows, &fair);
    scene.description += &convergence(&flows, series.bin_s);
    Some(scene)
}

/// Returns a sentence for each span in which the same flows share the link: after which time their
/// shares are equal.
fn convergence(flows: &[Column], bin_s: f64) -> String {
    let bins = flows.iter().map(|flow| flow.values.len()).max().unwrap_or(0);
    let value = |flow: &Column, bin: usize| flow.values.get(bin).copied().flatten();
    let alive = |bin: usize| -> Vec<&Column> { flows.iter().filter(|it| value(it, bin).is_some()).collect() };
    let names = |bin: usize| alive(bin).iter().map(|it| it.name.as_str()).collect::<Vec<&str>>();
    let mut out = String::new();
    let all: Vec<usize> = (0..bins).collect();
    for span in all.chunk_by(|a, b| names(*a) == names(*b)) {
        let sharers = alive(span[0]);
        // Shorter spans hold no 2 s of equal shares.
        if sharers.len() < 2 || number(span.len()) * bin_s < 2.0 {
            continue;
        }
        let rates: Vec<Vec<f64>> = sharers
            .iter()
            .map(|flow| span.iter().map(|bin| value(flow, *bin).unwrap_or(0.0)).collect())
            .collect();
        let who = names(span[0]).join(", ");
        let from = Unit::Time.text(number(span[0]) * bin_s);
        let told = convergence_time(&rates, bin_s).map_or_else(
            || "and never for 2 s within 20 % of equal shares".to_owned(),
            |bins| {
                let after = Unit::Time.text(number(bins) * bin_s);
                let when = if bins == 0 { "from then on".to_owned() } else { format!("after {after}") };
                format!("and {when} each is within 20 % of an equal share for 2 s")
            },
        );
        put!(out, " From {from} on {who} share the link, {told}.");
    }
    out
}

/// Draws the parts whose metrics have `prefix` in their name, a bar for each flow of each cell.
pub(super) fn parts(view: &View<'_>, mut scene: Scene, prefix: &str) -> Scene {
    let (known, name, unit): (&[(&str, &str)], &str, Unit) = if prefix == "limit." {
        (&LIMITS, "share of the flow's life", Unit::Share)
    } else {
        (&AIRTIME_PARTS, "airtime of a packet", Unit::Time)
    };
    let of = Quantity { name: name.to_owned(), unit };
    let mut parts: Vec<String> = known.iter().map(|(word, _)| (*word).to_owned()).collect();
    let mut wholes: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let cells = view.engines.iter().flat_map(|engine| view.cells(*engine, &[]));
    for cell in cells {
        let records = view.subject.results.of_cell(cell.id);
        let names: BTreeSet<&String> = records.flat_map(|record| record.metrics.keys()).collect();
        for name in names {
            let Some((owner, part)) = name.split_once(prefix) else { continue };
            let owner = owner.trim_end_matches('.');
            let several = cell.physics.flows.len() > 1;
            let whole =
                if several { format!("{}: {owner}", view.cell_name(cell)) } else { view.cell_name(cell) };
            let Some(size) = mean(&values(view.subject, &[cell], name)) else { continue };
            if !parts.iter().any(|it| it == part) {
                parts.push(part.to_owned());
            }
            match wholes.iter_mut().find(|(name, _)| *name == whole) {
                Some((_, sizes)) => sizes.push((part.to_owned(), size)),
                None => wholes.push((whole, vec![(part.to_owned(), size)])),
            }
        }
    }
    if wholes.len() > MAX_WHOLES {
        put!(scene.title, ", the first {MAX_WHOLES} of {}", wholes.len());
        wholes.truncate(MAX_WHOLES);
    }
    let size = |sizes: &[(String, f64)], part: &String| {
        sizes.iter().find(|(name, _)| name == part).map_or(0.0, |(_, size)| *size)
    };
    let ordered = |(name, sizes): &(String, Vec<(String, f64)>)| {
        (name.clone(), parts.iter().map(|part| size(sizes, part)).collect())
    };
    let wholes: Vec<(String, Vec<f64>)> = wholes.iter().map(ordered).collect();
    let named =
        |part: &String| known.iter().find(|(word, _)| word == part).map(|(_, name)| (*name).to_owned());
    let parts: Vec<String> = parts.iter().map(|part| named(part).unwrap_or_else(|| part.clone())).collect();
    figure::partition(scene, &of, &parts, &wholes)
}

/// Returns the values of all repetitions for each group and level of `x`.
fn grouped(view: &View<'_>, metric: Option<&str>) -> Vec<(String, Vec<f64>)> {
    let groups = view.groups();
    let mut all = Vec::new();
    for level in view.levels_or_all() {
        for group in &groups {
            let values = values(view.subject, &view.cells_of(group, level), metric.unwrap_or(&group.metric));
            let name = match level {
                Some(level) if groups.len() > 1 => format!("{level}, {}", group.name),
                Some(level) => level.to_owned(),
                None => group.name.clone(),
            };
            all.push((name, values));
        }
    }
    all
}

/// Draws boxes with all repetitions.
pub(super) fn spread(view: &View<'_>, scene: Scene) -> Scene {
    let x = axis_name(view.subject.experiment, &view.x);
    figure::spread(scene, &quantity(view), &x, &grouped(view, None))
}

/// Draws cumulative distributions of repetitions; with a logarithmic axis, the tail.
pub(super) fn distribution(view: &View<'_>, scene: Scene) -> Scene {
    let mut groups = grouped(view, None);
    groups.retain(|(_, values)| !values.is_empty());
    figure::distribution(scene, &quantity(view), &groups, view.figure.log.y)
}

/// Draws throughput against delay with an ellipse of one standard deviation for each group.
pub(super) fn ellipses(view: &View<'_>, scene: Scene) -> Scene {
    let metric = |i: usize| view.metrics.get(i).or(view.metrics.first()).cloned().unwrap_or_default();
    let (y, x) = (metric(0), metric(1));
    let by_cells = View { metrics: vec![y.clone()], ..view.clone() };
    let (ys, xs) = (grouped(&by_cells, Some(&y)), grouped(&by_cells, Some(&x)));
    let both = |((name, ys), (_, xs)): ((String, Vec<f64>), (String, Vec<f64>))| {
        (name, xs.into_iter().zip(ys).collect())
    };
    let groups: Vec<_> = ys.into_iter().zip(xs).map(both).collect();
    figure::ellipses(scene, &Quantity::of_metric(&x), &Quantity::of_metric(&y), &groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_equal_shares_are_told() {
        let column = |name: &str, values: &[f64]| {
            let alive = values.iter().map(|value| Some(*value).filter(|it| *it > 0.0)).collect();
            Column { name: name.to_owned(), look: 0, values: alive }
        };
        let one = column("one", &[9.0, 9.0, 8.0, 7.0, 5.0, 5.0, 5.0]);
        let two = column("two", &[0.0, 0.0, 2.0, 3.0, 5.0, 5.0, 0.0]);
        let told = convergence(&[one, two], 1.0);
        let wanted = " From 2 s on one, two share the link, and after 2 s each is within 20 % of an equal share for 2 s.";
        assert_eq!(told, wanted);
        let equal = [column("one", &[4.0, 5.0, 5.0]), column("two", &[5.0, 5.0, 4.0])];
        let told = convergence(&equal, 1.0);
        assert!(
            told.ends_with(", and from then on each is within 20 % of an equal share for 2 s."),
            "{told}"
        );
        let lone = column("one", &[9.0, 9.0, 9.0]);
        assert_eq!(convergence(std::slice::from_ref(&lone), 1.0), "");
        let starved = column("two", &[1.0, 1.0, 1.0]);
        assert!(convergence(&[lone, starved], 1.0).contains("never"), "a ninth is no equal share");
    }
}
