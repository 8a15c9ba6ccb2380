//! Parts of a whole as horizontal bars, and heat maps.

use super::super::scale::{Axis, Unit, number};
use super::super::scene::{Mark, Origin, Panel, Row, Scene};
use super::{Heading, Quantity};

/// Wholes, such as lives of flows or airtimes of packets, divided into the same parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Identifier and title.
    pub heading: Heading,
    /// Quantity on the horizontal axis: a share, or a time.
    pub of: Quantity,
    /// Names of the parts.
    pub parts: Vec<String>,
    /// Name of each whole with the size of each part.
    pub wholes: Vec<(String, Vec<f64>)>,
}

/// Draws a bar for each whole, divided into its parts.
pub fn partition(data: &Partition) -> Scene {
    let mut scene = data.heading.scene();
    let totals = data.wholes.iter().map(|(_, sizes)| sizes.iter().sum::<f64>());
    let x = Axis::linear(&data.of.name, data.of.unit, totals.clone(), true);
    // Sums of shares may exceed 1 by rounding, and 100 % is the end then.
    let x = if data.of.unit == Unit::Share && totals.clone().all(|total| total < 1.0 + 1e-6) {
        Axis::linear(&data.of.name, data.of.unit, [1.0], true)
    } else {
        x
    };
    // The first whole is at the top.
    let names = data.wholes.iter().rev().map(|(name, _)| name.clone()).collect();
    let mut panel = Panel::new(22.0 * number(data.wholes.len()) + 8.0, x, Axis::names("", names));
    for (part, name) in data.parts.iter().enumerate() {
        let rows: Vec<Row> = data
            .wholes
            .iter()
            .rev()
            .enumerate()
            .map(|(i, (_, sizes))| {
                let from: f64 = sizes.iter().take(part).sum();
                let size = sizes.get(part).copied().unwrap_or(0.0);
                Row { x: size, y: number(i), low: Some(from), high: Some(from + size), n: None }
            })
            .filter(|row| row.x > 0.0)
            .collect();
        let series = scene.series(name, part, Origin::Measured);
        panel.draw(series, Mark::Spans(0.72), rows);
    }
    scene.panels.push(panel);
    let largest = |sizes: &[f64]| {
        let found = sizes.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some(format!("{} {}", data.parts.get(found.0)?, data.of.unit.text(*found.1)))
    };
    let sentences: Vec<String> = data
        .wholes
        .iter()
        .filter_map(|(name, sizes)| Some(format!("{name}: mostly {}.", largest(sizes)?)))
        .collect();
    scene.description = sentences.join(" ");
    scene
}

/// Values for the levels of two factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// Identifier and title.
    pub heading: Heading,
    /// Quantity of the values.
    pub of: Quantity,
    /// Factor on the horizontal axis with its levels.
    pub x: (String, Vec<String>),
    /// Factor on the vertical axis with its levels, from bottom to top.
    pub y: (String, Vec<String>),
    /// Index of the level of `x`, of `y`, and the value.
    pub values: Vec<(usize, usize, f64)>,
}

/// Draws a cell for each pair of levels, coloured and labelled by its value.
pub fn heat(data: &Heat) -> Scene {
    let mut scene = data.heading.scene();
    let finite = || data.values.iter().map(|(_, _, value)| *value).filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (factor, unit) = data.of.unit.shown(low.abs().max(high.abs()));
    let name = if unit.is_empty() { data.of.name.clone() } else { format!("{} ({unit})", data.of.name) };
    let x = Axis::names(&data.x.0, data.x.1.clone());
    let y = Axis::names(&data.y.0, data.y.1.clone());
    let mut panel = Panel::new(26.0 * number(data.y.1.len()), x, y);
    let place = |value: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    let rows = data.values.iter().filter(|(_, _, value)| value.is_finite()).map(|(x, y, value)| Row {
        x: number(*x),
        y: number(*y),
        low: Some(value * factor),
        high: Some(place(*value)),
        n: None,
    });
    let rows = rows.collect();
    let series = scene.series(&name, 0, Origin::Measured);
    panel.draw(series, Mark::Cells, rows);
    scene.panels.push(panel);
    scene.description = format!(
        "{name} for {} and {}, from {} to {}.",
        data.x.0,
        data.y.0,
        data.of.unit.text(low),
        data.of.unit.text(high)
    );
    scene
}
