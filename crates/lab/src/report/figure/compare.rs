//! Means side by side: for the levels of one factor, in groups, and of all factors.

use super::super::scale::{Axis, number};
use super::super::scene::{Mark, Origin, Panel, Row, Scene};
use super::{Curve, HEIGHT, Quantity, describe, extent};

/// Draws means with their intervals for the levels of a factor: groups beside each other, published
/// values right of ours, models as dashes at the means that they predict. `x` of a row is the index
/// of its level. `joined`: a line joins the means of a group, to show interactions.
pub fn means(
    mut scene: Scene,
    of: &Quantity,
    factor: &str,
    levels: Vec<String>,
    curves: &[Curve],
    joined: bool,
) -> Scene {
    let (models, points): (Vec<&Curve>, Vec<&Curve>) =
        curves.iter().partition(|curve| curve.origin == Origin::Theory);
    // Each measured curve has a place of its own, and published values stand right of theirs.
    let groups = points.iter().filter(|curve| curve.origin == Origin::Measured).count();
    let slot = |curve: &Curve| {
        let own = || curves.iter().filter(|it| it.origin == Origin::Measured).position(|it| it == curve);
        curve.beside.first().copied().or_else(own).unwrap_or(0)
    };
    let x = Axis::names(factor, levels);
    let mut values = extent(points.iter().flat_map(|c| &c.rows));
    let top = values.iter().copied().fold(0.0, f64::max);
    // A model far above what was measured would flatten the measurement.
    values.extend(extent(models.iter().flat_map(|c| &c.rows)).into_iter().filter(|y| *y <= 2.0 * top));
    let mut panel = Panel::new(HEIGHT, x, Axis::linear(&of.name, of.unit, values, true));
    panel.log_allowed = curves.iter().flat_map(|c| &c.rows).all(|row| row.y > 0.0);
    let gap = if joined { 0.06 } else { 0.7 / number(groups.max(1)) };
    let offset = |slot: usize| (number(slot) - number(groups.saturating_sub(1)) / 2.0) * gap;
    let width = if joined { None } else { Some(gap) };
    for model in models {
        let offsets: Vec<f64> = model.beside.iter().map(|slot| offset(*slot)).collect();
        draw_model(&mut scene, &mut panel, model, &offsets, width);
    }
    for (i, curve) in points.iter().enumerate() {
        let is_beside = |other: &&&Curve| other.origin == Origin::Published && slot(other) == slot(curve);
        let (before, all) =
            (points[..i].iter().filter(is_beside).count(), points.iter().filter(is_beside).count());
        let step = gap.min(0.3 * number(all)) * 0.45 / number(all.max(1));
        let aside = if curve.origin == Origin::Published { step * number(before + 1) } else { 0.0 };
        let offset = offset(slot(curve)) + aside;
        let rows: Vec<Row> = curve.rows.iter().map(|row| Row { x: row.x + offset, ..*row }).collect();
        let series = scene.series(&curve.name, curve.look, curve.origin);
        if joined {
            panel.draw(series, Mark::Line, rows.clone());
        }
        panel.draw(series, Mark::Points, rows);
    }
    scene.panels.push(panel);
    describe(&mut scene, true);
    scene
}

/// Draws the predictions of a model for means at these offsets from the levels: a dash for each
/// level over all of these means, or without `width` a line. Outside of its range it is muted.
fn draw_model(scene: &mut Scene, panel: &mut Panel, model: &Curve, offsets: &[f64], width: Option<f64>) {
    let series = scene.series(&model.name, model.look, model.origin);
    let first = offsets.iter().copied().fold(f64::INFINITY, f64::min);
    let last = offsets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for holds in [true, false] {
        let rows = model.rows.iter().filter(|row| model.holds(row) == holds);
        let drawn: Vec<Row> = match width {
            Some(width) => rows
                .flat_map(|row| {
                    let at = |x: f64, y: f64| Row::at(row.x + x, y);
                    let (left, right) = (first - width * 0.4, last + width * 0.4);
                    [at(left, row.y), at(right, row.y), at(right, f64::NAN)]
                })
                .collect(),
            None => rows.map(|row| Row { x: row.x + f64::midpoint(first, last), ..*row }).collect(),
        };
        let before = panel.layers.len();
        panel.draw(series, Mark::Line, drawn);
        panel.layers[before..].iter_mut().for_each(|layer| layer.muted = !holds);
    }
}

/// Marginal means of one factor.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorMeans {
    /// Name of the factor.
    pub factor: String,
    /// Levels with the mean over all other factors. `x` is not used.
    pub levels: Vec<(String, Row)>,
    /// True if the test of the design shows no difference between the first and the last level.
    pub within_noise: bool,
}

/// Draws the marginal means of all factors on one axis. Factors without an effect are grey.
pub fn marginals(mut scene: Scene, of: &Quantity, factors: &[FactorMeans]) -> Scene {
    let names =
        factors.iter().flat_map(|f| f.levels.iter().map(|(level, _)| format!("{} {level}", f.factor)));
    let x = Axis::names("factor and level", names.collect());
    let all = factors.iter().flat_map(|f| f.levels.iter().map(|(_, row)| row));
    let mut panel = Panel::new(HEIGHT, x, Axis::linear(&of.name, of.unit, extent(all), true));
    let mut place = 0.0;
    for (look, factor) in factors.iter().enumerate() {
        let series = scene.series(&factor.factor, look, Origin::Measured);
        let rows: Vec<Row> = factor
            .levels
            .iter()
            .zip(0_u32..)
            .map(|((_, row), i)| Row { x: place + f64::from(i), ..*row })
            .collect();
        place += number(rows.len());
        panel.draw(series, Mark::Line, rows.clone());
        panel.draw(series, Mark::Points, rows);
        for layer in panel.layers.iter_mut().rev().take(2) {
            layer.muted = factor.within_noise;
        }
    }
    scene.panels.push(panel);
    describe(&mut scene, true);
    let noise: Vec<&str> = factors.iter().filter(|f| f.within_noise).map(|f| f.factor.as_str()).collect();
    if !noise.is_empty() {
        put!(
            scene.description,
            " Grey: these runs show no difference between the levels of {}.",
            noise.join(", ")
        );
    }
    scene
}
