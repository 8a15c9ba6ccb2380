//! Figures: each builder draws prepared data into a [`Scene`] without panels. Nothing here reads
//! results; the preparation is in [`super::prepare`].

mod compare;
mod curves;
mod effects;
mod parts;
mod spread;
mod time;

pub use compare::{FactorMeans, marginals, means};
pub use curves::{Against, Lines, lines, offered};
pub use effects::{Effect, half_normal};
pub use parts::{heat, partition};
pub use spread::{distribution, ellipses, spread};
pub use time::{Column, EventTimes, TimePanel, bin_end, share, time_series};

use super::scale::Unit;
use super::scene::{Layer, Mark, Origin, Panel, Row, Scene};

/// Height of the plot area of a figure with one panel.
const HEIGHT: f64 = 220.0;
/// Height of a panel below the main one.
const LOW: f64 = 90.0;

/// Quantity on an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    /// Name on the axis.
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
}

impl Quantity {
    /// Creates the quantity of a metric.
    pub fn of_metric(metric: &str) -> Self {
        Self { name: metric.to_owned(), unit: Unit::of_metric(metric) }
    }
}

/// Means of one series, with their intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Source of the values.
    pub origin: Origin,
    /// Index of colour and marker.
    pub look: usize,
    /// Values in ascending order of `x`.
    pub rows: Vec<Row>,
    /// For a model or published values: indices of the measured curves beside which they stand.
    pub beside: Vec<usize>,
    /// For a model: values of `x` for which it does not hold.
    pub outside: Vec<f64>,
}

impl Curve {
    /// Creates a curve of measured means.
    pub const fn measured(name: String, look: usize, rows: Vec<Row>) -> Self {
        Self { name, origin: Origin::Measured, look, rows, beside: Vec::new(), outside: Vec::new() }
    }

    fn holds(&self, row: &Row) -> bool {
        !self.outside.contains(&row.x)
    }
}

/// Returns the finite values of rows, with the ends of their intervals.
fn extent<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<f64> {
    let values = rows.into_iter().flat_map(|row| [Some(row.y), row.low, row.high]);
    values.flatten().filter(|value| value.is_finite()).collect()
}

/// Sets the description of a scene: its panels, and the extremes of what was measured.
fn describe(scene: &mut Scene, intervals: bool) {
    let mut text = String::new();
    for panel in &scene.panels {
        put!(text, "{} against {}. ", panel.y.label, panel.x.label);
    }
    if let Some(panel) = scene.panels.first() {
        let measured = |layer: &&Layer| scene.series[layer.series].origin == Origin::Measured;
        // A line or an ellipse beside points is no measurement of its own.
        let has_points = panel.layers.iter().filter(measured).any(|layer| layer.mark == Mark::Points);
        let layers = panel.layers.iter().filter(measured);
        let rows: Vec<(&Row, &str)> = layers
            .filter(|layer| !has_points || layer.mark == Mark::Points)
            .flat_map(|layer| layer.rows.iter().map(|row| (row, scene.series[layer.series].name.as_str())))
            .filter(|(row, _)| row.y.is_finite())
            .collect();
        let by_value = |a: &&(&Row, &str), b: &&(&Row, &str)| a.0.y.total_cmp(&b.0.y);
        let lowest = rows.iter().min_by(by_value).map(|it| format!("Lowest: {}", value_text(panel, it)));
        let highest = rows.iter().max_by(by_value).map(|it| format!("highest: {}", value_text(panel, it)));
        if let (Some(lowest), Some(highest)) = (lowest, highest) {
            put!(text, "{lowest}, {highest}. ");
        }
    }
    if intervals {
        text += "Error bars are 95 % intervals of the mean. ";
    }
    scene.description = text.trim_end().to_owned();
}

/// Returns a measured value for readers: `5.78 Mbit/s (newreno, sack off)`.
fn value_text(panel: &Panel, (row, series): &(&Row, &str)) -> String {
    let tick = panel.x.ticks.iter().find(|tick| tick.at.total_cmp(&row.x).is_eq());
    let x = tick.map_or_else(|| panel.x.shown(row.x), |tick| tick.label.clone());
    // Levels of marginal means begin with the name of their factor, which is that of the series.
    let (name, unit) = panel.x.label.rsplit_once(" (").unwrap_or((&panel.x.label, ""));
    let unit = unit.trim_end_matches(')');
    let at = format!("{series}, {name} {x} {unit}");
    let place = if x.starts_with(&format!("{series} ")) { x } else { at.trim_end().to_owned() };
    let unit = if panel.y.unit.is_empty() { String::new() } else { format!(" {}", panel.y.unit) };
    format!("{}{unit} ({place})", panel.y.shown(row.y))
}

#[cfg(test)]
mod tests;
