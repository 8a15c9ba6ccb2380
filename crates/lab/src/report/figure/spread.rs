//! Distributions: boxes with all repetitions as dots, and cumulative distributions.

use crate::statistics::{quantile, quantile_interval};

use super::super::scale::{Axis, Scale, Tick, number};
use super::super::scene::{Mark, Origin, Panel, Row, Scene};
use super::{HEIGHT, Quantity, describe};

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the median of a level with its interval: `reno 5.1 Mbit/s (4.9 to 5.3)`. `None` for too
/// few repetitions.
fn median_text(of: &Quantity, (level, values): &(String, Vec<f64>)) -> Option<String> {
    let median = quantile_interval(&sorted(values), 0.5, 0.95)?;
    let row = Row { low: Some(median.low), high: Some(median.high), ..Row::at(0.0, median.estimate) };
    let factor = of.unit.shown(median.estimate.abs()).0;
    Some(format!("{level} {}{}", of.unit.text(median.estimate), row.interval_text(factor)))
}

/// Draws the values of all repetitions for the levels of a factor: a box from the first to the
/// third quartile with the median, and a dot for each repetition.
pub fn spread(mut scene: Scene, of: &Quantity, factor: &str, levels: &[(String, Vec<f64>)]) -> Scene {
    let x = Axis::names(factor, levels.iter().map(|(level, _)| level.clone()).collect());
    let all = levels.iter().flat_map(|(_, values)| values.iter().copied());
    let mut panel = Panel::new(HEIGHT, x, Axis::linear(&of.name, of.unit, all, true));
    panel.log_allowed = levels.iter().all(|(_, values)| values.iter().all(|value| *value > 0.0));
    let boxes = scene.series("quartiles and median", 0, Origin::Measured);
    let dots = scene.series("repetitions", 1, Origin::Measured);
    let mut rows = Vec::new();
    for (i, (_, values)) in levels.iter().enumerate().filter(|(_, (_, values))| !values.is_empty()) {
        let sorted = sorted(values);
        let at = |share| quantile(&sorted, share);
        let n = u32::try_from(values.len()).ok();
        rows.push(Row { x: number(i), y: at(0.5).unwrap_or(f64::NAN), low: at(0.25), high: at(0.75), n });
    }
    panel.draw(boxes, Mark::Boxes(0.5), rows);
    // Multiples of the golden ratio spread the dots evenly without randomness.
    let aside = |k: usize| ((number(k) * 0.618_033_988_75).fract() - 0.5) * 0.4;
    let dot = |(i, (_, values)): (usize, &(String, Vec<f64>))| {
        let rows = values.iter().enumerate().map(|(k, value)| Row::at(number(i) + aside(k), *value));
        rows.collect::<Vec<_>>()
    };
    let rows: Vec<Row> = levels.iter().enumerate().flat_map(dot).collect();
    panel.draw(dots, Mark::Dots, rows);
    scene.panels.push(panel);
    describe(&mut scene, false);
    let medians: Vec<String> = levels.iter().filter_map(|level| median_text(of, level)).collect();
    if !medians.is_empty() {
        put!(scene.description, " Medians with 95 % intervals: {}.", medians.join(", "));
    }
    scene
}

/// Draws the cumulative distributions of groups of values: the share at or below each value or, if
/// `complementary`, the share above it on a logarithmic axis, which shows the tail.
pub fn distribution(
    mut scene: Scene,
    of: &Quantity,
    groups: &[(String, Vec<f64>)],
    complementary: bool,
) -> Scene {
    let all = groups.iter().flat_map(|(_, values)| values.iter().copied());
    let x = Axis::linear(&of.name, of.unit, all, false);
    let largest = groups.iter().map(|(_, values)| values.len()).max().unwrap_or(1).max(2);
    let percent = |at: f64| Tick { at, label: super::super::scale::fixed(at * 100.0, 3) };
    let (name, scale, ticks) = if complementary {
        let low = 0.7 / number(largest);
        let ticks = [1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5].into_iter().filter(|at| *at >= low).map(percent);
        ("share above (%)", Scale::Log { low, high: 1.0 }, ticks.collect())
    } else {
        let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(percent).to_vec();
        ("share at or below (%)", Scale::Linear { low: 0.0, high: 1.0 }, ticks)
    };
    let y = Axis { label: name.to_owned(), factor: 100.0, unit: "%", scale, ticks };
    let mut panel = Panel::new(HEIGHT, x, y);
    for (look, (group, values)) in groups.iter().enumerate() {
        let series = scene.series(group, look, Origin::Measured);
        let count = number(values.len());
        let sorted = sorted(values);
        let below = |i: usize| number(i) / count;
        let share = |i: usize| if complementary { 1.0 - below(i) } else { below(i) };
        let first = sorted.first().map(|value| Row::at(*value, share(0)));
        let steps = sorted.iter().enumerate().map(|(i, value)| Row::at(*value, share(i + 1)));
        // Nothing is above the last value, and a logarithmic axis has no zero: the line ends there.
        let steps = steps.map(|row| Row { y: if row.y > 0.0 { row.y } else { 1.0 / count }, ..row });
        panel.draw(series, Mark::Steps, first.into_iter().chain(steps).collect());
    }
    scene.panels.push(panel);
    describe(&mut scene, false);
    scene
}

/// Points of an ellipse.
const CORNERS: usize = 48;

/// Returns the ellipse of one standard deviation around the mean of values. `None` for fewer than
/// three values.
fn ellipse(values: &[(f64, f64)]) -> Option<Vec<Row>> {
    let count = number(values.len());
    let mean = |part: fn(&(f64, f64)) -> f64| values.iter().map(part).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let moment = |part: &dyn Fn(&(f64, f64)) -> f64| values.iter().map(part).sum::<f64>() / (count - 1.0);
    let (xx, yy) = (moment(&|it| (it.0 - x).powi(2)), moment(&|it| (it.1 - y).powi(2)));
    let xy = moment(&|it| (it.0 - x) * (it.1 - y));
    // Cholesky factors of the covariance map the unit circle to the ellipse.
    let wide = xx.sqrt();
    let slope = if wide > 0.0 { xy / wide } else { 0.0 };
    let high = (yy - slope * slope).max(0.0).sqrt();
    let corner = |i: usize| {
        let (sin, cos) = (number(i) / number(CORNERS) * std::f64::consts::TAU).sin_cos();
        Row::at(x + wide * cos, y + slope * cos + high * sin)
    };
    (values.len() > 2).then(|| (0..=CORNERS).map(corner).collect())
}

/// Draws repetitions of groups in two metrics, usually a delay and a throughput: the mean of each
/// group and an ellipse of one standard deviation around it.
pub fn ellipses(
    mut scene: Scene,
    x_of: &Quantity,
    y_of: &Quantity,
    groups: &[(String, Vec<(f64, f64)>)],
) -> Scene {
    let outlines: Vec<Option<Vec<Row>>> = groups.iter().map(|(_, values)| ellipse(values)).collect();
    let drawn = || outlines.iter().flatten().flatten();
    let all = || groups.iter().flat_map(|(_, values)| values);
    let xs = all().map(|it| it.0).chain(drawn().map(|row| row.x));
    let ys = all().map(|it| it.1).chain(drawn().map(|row| row.y));
    let x = Axis::linear(&x_of.name, x_of.unit, xs, false);
    let mut panel = Panel::new(HEIGHT, x, Axis::linear(&y_of.name, y_of.unit, ys, true));
    for (look, ((name, values), outline)) in groups.iter().zip(outlines).enumerate() {
        let series = scene.series(name, look, Origin::Measured);
        panel.draw(series, Mark::Line, outline.unwrap_or_default());
        let count = number(values.len());
        let mean = |part: fn(&(f64, f64)) -> f64| values.iter().map(part).sum::<f64>() / count;
        let n = u32::try_from(values.len()).ok();
        let row = Row { n, ..Row::at(mean(|it| it.0), mean(|it| it.1)) };
        panel.draw(series, Mark::Points, Some(row).filter(|_| !values.is_empty()).into_iter().collect());
    }
    scene.panels.push(panel);
    describe(&mut scene, false);
    scene.description += " Ellipses contain one standard deviation of the repetitions.";
    scene
}
