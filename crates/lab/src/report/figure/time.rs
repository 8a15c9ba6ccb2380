//! Series over time: linked panels with events, and shares of flows with Jain's index.

use crate::statistics::jain;

use super::super::palette::DARKEST;
use super::super::scale::{Axis, Tick, Unit, fixed, number};
use super::super::scene::{Mark, Origin, Panel, Row, Scene};
use super::{HEIGHT, LOW, Quantity, extent};

/// Line of a panel: values in bins of equal width.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name in the legend.
    pub name: String,
    /// Index of colour.
    pub look: usize,
    /// Value of each bin.
    pub values: Vec<Option<f64>>,
}

impl Column {
    /// Returns the rows at the ends of the bins, with a gap where a bin has no value.
    fn rows(&self, begin_s: f64, bin_s: f64) -> Vec<Row> {
        let rows = self.values.iter().enumerate();
        rows.map(|(i, value)| Row::at(bin_end(begin_s, i, bin_s), value.unwrap_or(f64::NAN))).collect()
    }
}

/// Returns the end of bin `i` of a series from `begin_s` on, in seconds and rounded to nanoseconds:
/// 0.075 and not 0.07500000000000001, which would be most of the bytes of an exported series.
pub fn bin_end(begin_s: f64, i: usize, bin_s: f64) -> f64 {
    ((begin_s + number(i + 1) * bin_s) * 1e9).round() / 1e9
}

/// Columns that share a vertical axis.
#[derive(Debug, Clone, PartialEq)]
pub struct TimePanel {
    /// Quantity on the vertical axis.
    pub of: Quantity,
    /// True for states at the ends of the bins, which lines join. Other values are those of whole
    /// bins, drawn as steps.
    pub at_ends: bool,
    /// Lines of the panel.
    pub columns: Vec<Column>,
}

/// Times of one kind of event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventTimes {
    /// Name in the legend.
    pub name: String,
    /// Index of colour.
    pub look: usize,
    /// Times in seconds.
    pub times: Vec<f64>,
}

fn time_axis<'a>(columns: impl Iterator<Item = &'a Column>, begin_s: f64, bin_s: f64) -> Axis {
    let bins = columns.map(|column| column.values.len()).max().unwrap_or(0);
    Axis::tight("time", Unit::Time, [begin_s, bin_end(begin_s, bins.saturating_sub(1), bin_s)])
}

/// Draws panels below each other on one time axis, and events as vertical lines in the last one.
/// The first bin begins at `begin_s`, and each has the width `bin_s`, in seconds.
pub fn time_series(
    mut scene: Scene,
    (begin_s, bin_s): (f64, f64),
    panels: &[TimePanel],
    events: &[EventTimes],
) -> Scene {
    let x = time_axis(panels.iter().flat_map(|panel| &panel.columns), begin_s, bin_s);
    for (i, part) in panels.iter().enumerate() {
        let rows = part.columns.iter().map(|column| column.rows(begin_s, bin_s));
        let curves: Vec<Vec<Row>> = rows.collect();
        let y = Axis::linear(&part.of.name, part.of.unit, extent(curves.iter().flatten()), true).sparse();
        let height = if panels.len() > 2 { LOW } else { HEIGHT * 0.6 };
        let mut panel = Panel::new(height, x.clone(), y);
        if i + 1 == panels.len() {
            for events in events {
                let series = scene.series(&events.name, events.look, Origin::Measured);
                panel.draw(
                    series,
                    Mark::Rules,
                    events.times.iter().map(|time| Row::at(*time, 0.0)).collect(),
                );
            }
        }
        for (column, rows) in part.columns.iter().zip(curves) {
            let series = scene.series(&column.name, column.look, Origin::Measured);
            panel.draw(series, if part.at_ends { Mark::Line } else { Mark::Bins(bin_s) }, rows);
        }
        scene.panels.push(panel);
    }
    let names: Vec<&str> = panels.iter().map(|panel| panel.of.name.as_str()).collect();
    let events = events.iter().map(|events| format!(" Events: {} {}.", events.times.len(), events.name));
    scene.description = format!("{} over time.{}", names.join(", "), events.collect::<String>());
    scene
}

/// Draws the goodput of flows that share a link, stacked, and below it Jain's index over the flows
/// that exist. A flow has no value while it does not exist. `fair` is the link's rate divided by
/// the number of flows that exist, at each change of that number.
pub fn share(mut scene: Scene, bin_s: f64, flows: &[Column], fair: &[Row]) -> Scene {
    let bins = flows.iter().map(|flow| flow.values.len()).max().unwrap_or(0);
    let x = time_axis(flows.iter(), 0.0, bin_s);
    let mut base = vec![0.0; bins];
    let mut layers = Vec::new();
    for flow in flows {
        let series = scene.series(&flow.name, flow.look, Origin::Measured);
        let row = |(i, base): (usize, &mut f64)| {
            let value = flow.values.get(i).copied().flatten();
            let low = *base;
            *base += value.unwrap_or(0.0);
            let row = Row::at(bin_end(0.0, i, bin_s), value.unwrap_or(f64::NAN));
            Row { low: Some(low), high: Some(*base), ..row }
        };
        let rows = base.iter_mut().enumerate().map(row).collect();
        layers.push((series, rows));
    }
    let y = Axis::linear("goodput", Unit::Rate, base.iter().copied(), true);
    let mut panel = Panel::new(HEIGHT * 0.8, x.clone(), y);
    for (series, rows) in layers {
        panel.draw(series, Mark::Band(bin_s), rows);
    }
    if !fair.is_empty() {
        let series = scene.series("fair shares", DARKEST, Origin::Theory);
        panel.draw(series, Mark::Steps, fair.to_vec());
    }
    scene.panels.push(panel);
    let index = |i: usize| {
        let alive: Vec<f64> = flows.iter().filter_map(|f| f.values.get(i).copied().flatten()).collect();
        Row::at(bin_end(0.0, i, bin_s), jain(&alive).filter(|_| alive.len() > 1).unwrap_or(f64::NAN))
    };
    let tick = |at: f64| Tick { at, label: fixed(at, 1) };
    let ticks = [0.0, 0.5, 1.0].map(tick).to_vec();
    let y = Axis { ticks, ..Axis::linear("Jain's index", Unit::None, [0.0, 1.0], true) };
    let mut panel = Panel::new(LOW * 0.7, x, y);
    let series = scene.series("Jain's index", 5, Origin::Measured);
    panel.draw(series, Mark::Bins(bin_s), (0..bins).map(index).collect());
    scene.panels.push(panel);
    let means = flows.iter().map(|flow| {
        let values: Vec<f64> = flow.values.iter().flatten().copied().collect();
        let mean = values.iter().sum::<f64>() / number(values.len().max(1));
        format!("{}: {} on average.", flow.name, Unit::Rate.text(mean))
    });
    scene.description = format!("Goodput of each flow over time. {}", means.collect::<Vec<_>>().join(" "));
    scene
}
