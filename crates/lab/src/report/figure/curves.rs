//! Means against a numeric factor, with models and their residuals.

use super::super::palette::DARKEST;
use super::super::scale::{Axis, Tick, Unit};
use super::super::scene::{Mark, Origin, Panel, Row, Scene};
use super::{Curve, HEIGHT, LOW, Quantity, describe, extent};

/// Lines against a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Quantity on the vertical axis.
    pub of: Quantity,
    /// Factor on the horizontal axis.
    pub x: Quantity,
    /// Levels of the factor, labelled as in the experiment file. Empty: round numbers.
    pub levels: Vec<Tick>,
    /// True for a logarithmic horizontal axis.
    pub log_x: bool,
    /// True for a logarithmic vertical axis.
    pub log_y: bool,
    /// Measured, computed and published curves.
    pub curves: Vec<Curve>,
    /// Limits, drawn as horizontal lines with a name.
    pub limits: Vec<(String, f64)>,
}

impl Lines {
    fn x_axis(&self) -> Axis {
        let values: Vec<f64> = self.curves.iter().flat_map(|c| c.rows.iter().map(|row| row.x)).collect();
        let axis = if self.log_x {
            Axis::log(&self.x.name, self.x.unit, values)
        } else {
            // Zero is far from levels that are close to each other.
            let (least, most) =
                values.iter().fold((f64::INFINITY, 0.0_f64), |it, x| (it.0.min(*x), it.1.max(*x)));
            Axis::linear(&self.x.name, self.x.unit, values, least < most / 2.0)
        };
        if self.levels.is_empty() || self.levels.len() > 12 {
            return axis;
        }
        axis.labelled_as(&self.x.name, self.x.unit, self.levels.clone())
    }
}

/// Draws means with intervals, models as dashed lines (thin outside of their range), limits, and
/// below them the residuals of the measured means in percent of the model.
pub fn lines(mut scene: Scene, data: &Lines) -> Scene {
    let x = data.x_axis();
    let rows = data.curves.iter().filter(|c| c.origin != Origin::Theory).flat_map(|c| &c.rows);
    let model = data.curves.iter().filter(|c| c.origin == Origin::Theory).flat_map(|c| &c.rows);
    let mut values: Vec<f64> = extent(rows);
    let top = values.iter().copied().fold(0.0, f64::max);
    // A model far above what was measured would flatten the measurement.
    values.extend(model.map(|row| row.y).filter(|y| *y <= 2.0 * top));
    values.extend(data.limits.iter().map(|(_, limit)| *limit).filter(|limit| *limit <= 2.0 * top));
    let y = if data.log_y {
        Axis::log(&data.of.name, data.of.unit, values)
    } else {
        Axis::linear(&data.of.name, data.of.unit, values, true)
    };
    let mut panel = Panel::new(HEIGHT, x.clone(), y);
    panel.log_allowed = extent(data.curves.iter().flat_map(|c| &c.rows)).iter().all(|y| *y > 0.0);
    draw_curves(&mut scene, &mut panel, &data.curves);
    let left = x.scale.ends().0;
    for (i, (name, limit)) in data.limits.iter().enumerate() {
        let series = scene.series(name, data.curves.len() + i, Origin::Theory);
        panel.draw(series, Mark::Levels, vec![Row::at(left, *limit)]);
    }
    scene.panels.push(panel);
    let residual = residuals(&mut scene, x, &data.curves);
    scene.panels.extend(residual);
    describe(&mut scene, data.curves.iter().any(|c| c.rows.iter().any(|row| row.low.is_some())));
    scene
}

fn draw_curves(scene: &mut Scene, panel: &mut Panel, curves: &[Curve]) {
    let order = [Origin::Theory, Origin::Published, Origin::Measured];
    // The legend has the order of the curves.
    for curve in curves {
        scene.series(&curve.name, curve.look, curve.origin);
    }
    for curve in order.iter().flat_map(|origin| curves.iter().filter(move |c| c.origin == *origin)) {
        let series = scene.series(&curve.name, curve.look, curve.origin);
        if curve.origin != Origin::Theory {
            panel.draw(series, Mark::Line, curve.rows.clone());
            panel.draw(series, Mark::Points, curve.rows.clone());
            continue;
        }
        // A model holds between two values of x if it holds for both.
        let pairs: Vec<&[Row]> = curve.rows.windows(2).collect();
        let holds = |pair: &[Row]| pair.iter().all(|row| curve.holds(row));
        for part in pairs.chunk_by(|a, b| holds(a) == holds(b)) {
            let rows = part.iter().map(|pair| pair[0]).chain(part.last().map(|pair| pair[1])).collect();
            panel.draw(series, Mark::Line, rows);
            panel.layers.iter_mut().last().expect("a line").muted = !holds(part[0]);
        }
    }
}

/// Returns the value of a model at `x`, between its rows by a straight line.
fn model_at(model: &Curve, x: f64) -> Option<f64> {
    let after = model.rows.iter().position(|row| row.x >= x * (1.0 - 1e-12))?;
    let right = model.rows[after];
    if (right.x - x).abs() <= x.abs() * 1e-9 || after == 0 {
        return ((right.x - x).abs() <= x.abs() * 1e-9).then_some(right.y);
    }
    let left = model.rows[after - 1];
    Some(left.y + (right.y - left.y) * (x - left.x) / (right.x - left.x))
}

/// Returns the panel of residuals of all models that predict a curve, within the range of each.
/// `None` if no model does.
fn residuals(scene: &mut Scene, x: Axis, curves: &[Curve]) -> Option<Panel> {
    let mut layers: Vec<(usize, Vec<Row>)> = Vec::new();
    let theory = || curves.iter().filter(|curve| curve.origin == Origin::Theory);
    let models_of = |i: usize| theory().filter(|model| model.beside.contains(&i)).count();
    for model in theory() {
        let predicted = model.beside.iter().filter_map(|i| Some((*i, curves.get(*i)?)));
        for (i, measured) in predicted {
            // Several models of one curve are told apart by their own looks.
            let own = if models_of(i) > 1 { model } else { measured };
            let series = scene.series(&own.name, own.look, own.origin);
            let relative = |row: &Row| {
                let expected = model_at(model, row.x).filter(|y| *y > 0.0 && model.holds(row))?;
                let part = |value: f64| value / expected - 1.0;
                Some(Row { y: part(row.y), low: row.low.map(part), high: row.high.map(part), ..*row })
            };
            layers.push((series, measured.rows.iter().filter_map(relative).collect()));
        }
    }
    let values = extent(layers.iter().flat_map(|(_, rows)| rows));
    if values.is_empty() {
        return None;
    }
    let y = Axis::linear("residual", Unit::Share, values, true).sparse();
    let mut panel = Panel::new(LOW, x, y);
    for (series, rows) in layers {
        panel.draw(series, Mark::Points, rows);
    }
    Some(panel)
}

/// Factor on the horizontal axis with its levels, and the offered rates at them.
pub type Against = (Quantity, Vec<Tick>, Vec<Curve>);

/// Draws delivered rates with the offered ones and the named rates that the link can deliver at
/// most, and below them the share of lost packets. Without `against` the factor is the offered
/// rate.
pub fn offered(
    scene: Scene,
    delivered: &[Curve],
    loss: &[Curve],
    limits: Vec<(String, f64)>,
    against: Option<Against>,
) -> Scene {
    let quantity = |name: &str| Quantity { name: name.to_owned(), unit: Unit::Rate };
    let largest = delivered.iter().flat_map(|c| c.rows.iter().map(|row| row.x)).fold(0.0, f64::max);
    let mut curves = delivered.to_vec();
    let rows = vec![Row::at(0.0, 0.0), Row::at(largest, largest)];
    let all_delivered = Curve::measured("all delivered".to_owned(), DARKEST, rows);
    let all_delivered = Curve { origin: Origin::Theory, ..all_delivered };
    let by_itself = || (quantity("offered"), Vec::new(), vec![all_delivered]);
    let (x, levels, offered) = against.unwrap_or_else(by_itself);
    curves.extend(offered);
    let of = quantity("delivered");
    let mut scene = lines(scene, &Lines { of, x, levels, log_x: false, log_y: false, curves, limits });
    let x = scene.panels[0].x.clone();
    let values = extent(loss.iter().flat_map(|c| &c.rows));
    let y = Axis::linear("lost", Unit::Share, values, true).sparse();
    let mut panel = Panel::new(LOW, x, y);
    draw_curves(&mut scene, &mut panel, loss);
    scene.panels.push(panel);
    describe(&mut scene, true);
    scene
}
