//! Parts of a whole as horizontal bars, and heat maps.

use super::super::scale::{Axis, Unit, number};
use super::super::scene::{Mark, Origin, Panel, Row, Scene};
use super::Quantity;

/// Draws wholes that are divided into the same parts, such as lives of flows: a bar for each. `of`
/// is a share or a time, and a whole has a name and the size of each part.
pub fn partition(mut scene: Scene, of: &Quantity, parts: &[String], wholes: &[(String, Vec<f64>)]) -> Scene {
    let mut totals: Vec<f64> = wholes.iter().map(|(_, sizes)| sizes.iter().sum()).collect();
    // Sums of shares may exceed 1 by rounding, and 100 % is the end then.
    if of.unit == Unit::Share && totals.iter().all(|total| *total < 1.0 + 1e-6) {
        totals = vec![1.0];
    }
    let x = Axis::linear(&of.name, of.unit, totals, true);
    // The first whole is at the top.
    let names = wholes.iter().rev().map(|(name, _)| name.clone()).collect();
    let mut panel = Panel::new(22.0 * number(wholes.len()) + 8.0, x, Axis::names("", names));
    for (part, name) in parts.iter().enumerate() {
        let rows: Vec<Row> = wholes
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
        Some(format!("{} {}", parts.get(found.0)?, of.unit.text(*found.1)))
    };
    let sentences: Vec<String> = wholes
        .iter()
        .filter_map(|(name, sizes)| Some(format!("{name}: mostly {}.", largest(sizes)?)))
        .collect();
    scene.description = sentences.join(" ");
    scene
}

/// Draws values for the levels of two factors: a cell for each pair, coloured and labelled. A value
/// has the indices of its levels. Those of the vertical axis are from bottom to top.
pub fn heat(
    mut scene: Scene,
    of: &Quantity,
    (x_name, x_levels): (&str, &[String]),
    (y_name, y_levels): (&str, &[String]),
    values: &[(usize, usize, f64)],
) -> Scene {
    let finite = || values.iter().map(|(_, _, value)| *value).filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let (factor, unit) = of.unit.shown(low.abs().max(high.abs()));
    let name = if unit.is_empty() { of.name.clone() } else { format!("{} ({unit})", of.name) };
    let x = Axis::names(x_name, x_levels.to_vec());
    let y = Axis::names(y_name, y_levels.to_vec());
    let mut panel = Panel::new(26.0 * number(y_levels.len()), x, y);
    let place = |value: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    let rows = values.iter().filter(|(_, _, value)| value.is_finite()).map(|(x, y, value)| Row {
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
        x_name,
        y_name,
        of.unit.text(low),
        of.unit.text(high)
    );
    scene
}
