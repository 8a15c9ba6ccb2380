//! Figures: each builder turns prepared data into a [`Scene`]. Nothing here reads results; the
//! preparation is in [`super::prepare`].

mod compare;
mod curves;
mod effects;
mod parts;
mod spread;
mod time;

pub use compare::{FactorMeans, Means, marginals, means};
pub use curves::{Lines, Offered, lines, offered};
pub use effects::{Effect, HalfNormal, half_normal};
pub use parts::{Heat, Partition, heat, partition};
pub use spread::{Distribution, Ellipses, Spread, distribution, ellipses, spread};
pub use time::{Column, EventTimes, Share, TimePanel, TimeSeries, share, time_series};

use super::scale::Unit;
use super::scene::{Origin, Row, Scene};

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
    /// For a model: indices of the curves that it predicts, for residuals.
    pub predicts: Vec<usize>,
    /// For a model: values of `x` between which it holds. `None`: everywhere.
    pub valid: Option<(f64, f64)>,
}

impl Curve {
    /// Creates a curve of measured means.
    pub const fn measured(name: String, look: usize, rows: Vec<Row>) -> Self {
        Self { name, origin: Origin::Measured, look, rows, predicts: Vec::new(), valid: None }
    }
}

/// Identifier and title of a figure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heading {
    /// Identifier: letters, digits and hyphens, unique in the page.
    pub id: String,
    /// Title.
    pub title: String,
}

impl Heading {
    /// Returns a scene without panels under this heading.
    fn scene(&self) -> Scene {
        Scene::new(&self.id, &self.title)
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
        let measured: Vec<(&Row, &str)> = panel
            .layers
            .iter()
            .filter(|layer| scene.series[layer.series].origin == Origin::Measured)
            .flat_map(|layer| layer.rows.iter().map(|row| (row, scene.series[layer.series].name.as_str())))
            .filter(|(row, _)| row.y.is_finite())
            .collect();
        let by_value = |a: &&(&Row, &str), b: &&(&Row, &str)| a.0.y.total_cmp(&b.0.y);
        let ends =
            [("Lowest", measured.iter().min_by(by_value)), ("highest", measured.iter().max_by(by_value))];
        let ends: Vec<String> = ends
            .iter()
            .filter_map(|(word, found)| {
                let (row, name) = found.as_ref()?;
                let unit = if panel.y.unit.is_empty() { String::new() } else { format!(" {}", panel.y.unit) };
                let tick = panel.x.ticks.iter().find(|tick| tick.at.total_cmp(&row.x).is_eq());
                let x = tick.map_or_else(|| panel.x.shown(row.x), |tick| tick.label.clone());
                let y = panel.y.shown(row.y);
                Some(format!("{word}: {y}{unit} ({name}, {} {x})", panel.x.label))
            })
            .collect();
        if !ends.is_empty() {
            put!(text, "{}. ", ends.join(", "));
        }
    }
    if intervals {
        text += "Bars are 95 % intervals of the mean. ";
    }
    scene.description = text.trim_end().to_owned();
}

#[cfg(test)]
mod tests;
