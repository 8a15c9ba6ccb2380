//! The marks of a figure: lines, bands, points, boxes, parts, cells.

use super::super::palette::marker;
use super::super::scale::significant;
use super::super::scene::{Layer, Mark, Panel, Row};
use super::{Area, px};

/// Rows of a line above which it is drawn with the extremes of each column of three pixels.
const DENSE: usize = 600;
/// Rules of a layer above which one path draws them all. They are too close to point at one.
const DENSE_RULES: usize = 40;
/// Attribute by which the page's script knows a path that does not draw all rows.
const THINNED: &str = " data-thinned=\"1\"";

pub(super) fn draw_layer(out: &mut String, panel: &Panel, layer: &Layer, area: &Area, look: usize) {
    let rows = &layer.rows;
    let x = |row: &Row| px(area.x(panel, row.x));
    let y = |value: f64| px(area.y(panel, value));
    let dot = |row: &Row| format!("M{} {}h0", x(row), y(row.y));
    let rule = |row: &Row| format!("M{} {}v{}", x(row), px(area.y), px(area.h));
    let one_path = match layer.mark {
        Mark::Line if rows.len() > DENSE => Some(("line", THINNED, dense_line(panel, rows, area))),
        Mark::Line => Some(("line", "", line(panel, rows, area))),
        Mark::Steps => Some(("line", "", steps(panel, rows, area))),
        Mark::Bins(width) => {
            let thinned = if 2 * rows.len() > DENSE { THINNED } else { "" };
            Some(("line", thinned, dense_line(panel, &corners(rows, width), area)))
        }
        Mark::Band(width) => Some(("area", "", band(panel, &corners(rows, width), area))),
        Mark::Dots => Some(("line", "", rows.iter().map(dot).collect())),
        Mark::Segments => {
            let segment = |row: &Row| {
                let [low, high] = [row.low, row.high].map(|end| y(end.unwrap_or(row.y)));
                format!("M{} {low}V{high}", x(row))
            };
            Some(("line", "", rows.iter().map(segment).collect()))
        }
        Mark::Rules if rows.len() > DENSE_RULES => {
            let mut paths: Vec<String> = rows.iter().map(rule).collect();
            paths.dedup();
            Some(("line", THINNED, paths.concat()))
        }
        _ => None,
    };
    if let Some((class, thinned, path)) = one_path {
        put!(out, "<path class=\"{class}\"{thinned} d=\"{path}\"/>\n");
        return;
    }
    for row in rows {
        match layer.mark {
            Mark::Points => point(out, panel, row, area, look),
            Mark::Boxes(width) => boxed(out, panel, row, area, width),
            Mark::Spans(height) => span(out, panel, row, area, height),
            Mark::Cells => cell(out, panel, row, area),
            Mark::Rules => put!(out, "<path class=\"m line\" d=\"{}\"/>\n", rule(row)),
            _ => put!(out, "<path class=\"m line\" d=\"M{} {}h{}\"/>\n", px(area.x), y(row.y), px(area.w)),
        }
    }
}

/// Returns the rows that show where they are dense: the first, last, lowest and highest of each
/// column of three pixels, in their order.
fn thinned(panel: &Panel, rows: &[Row], area: &Area) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    let column = |row: &Row| (area.x(panel, row.x) / 3.0).floor();
    for group in rows.chunk_by(|a, b| column(a).total_cmp(&column(b)).is_eq()) {
        let extreme = |sign: f64| {
            let key =
                |i: &usize| if group[*i].y.is_finite() { sign * group[*i].y } else { f64::NEG_INFINITY };
            (0..group.len()).max_by(|a, b| key(a).total_cmp(&key(b))).unwrap_or(0)
        };
        let mut indices = vec![0, extreme(1.0), extreme(-1.0), group.len() - 1];
        indices.sort_unstable();
        indices.dedup();
        kept.extend(indices.into_iter().map(|i| group[i]));
    }
    kept
}

fn line(panel: &Panel, rows: &[Row], area: &Area) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for row in rows {
        if row.x.is_finite() && row.y.is_finite() {
            let command = if pen_down { 'L' } else { 'M' };
            put!(path, "{command}{} {}", px(area.x(panel, row.x)), px(area.y(panel, row.y)));
        }
        pen_down = row.x.is_finite() && row.y.is_finite();
    }
    path
}

/// Returns a line through the rows that show. A row without a finite place interrupts it.
fn dense_line(panel: &Panel, rows: &[Row], area: &Area) -> String {
    let mut path = String::new();
    let shown = if rows.len() > DENSE { thinned(panel, rows, area) } else { rows.to_vec() };
    for part in shown.split(|row| !row.x.is_finite() || !row.y.is_finite()) {
        relative(&mut path, part.iter().map(|row| (area.x(panel, row.x), area.y(panel, row.y))));
    }
    path
}

/// Writes a line with distances from point to point, which need half the space of places.
/// Distances between rounded places do not add up rounding errors.
pub(super) fn relative(path: &mut String, points: impl Iterator<Item = (f64, f64)>) {
    let tenths = |place: f64| (place * 10.0).round();
    let mut last: Option<(f64, f64)> = None;
    // A line of one point has no command `l`, which would need a distance.
    let (mut begins_line, mut has_point) = (true, false);
    for (x, y) in points.map(|(x, y)| (tenths(x), tenths(y))) {
        let Some((from_x, from_y)) = last.replace((x, y)) else {
            put!(path, "M{} {}", px(x / 10.0), px(y / 10.0));
            continue;
        };
        for distance in [x - from_x, y - from_y] {
            let text = px(distance / 10.0).replacen("0.", ".", usize::from(distance.abs() < 10.0));
            // A sign begins a number, and so does a second point (SVG 2, section 9.3.9).
            let begins_number = text.starts_with('-') || (has_point && text.starts_with('.'));
            let separator = match (begins_line, begins_number) {
                (true, _) => "l",
                (false, true) => "",
                (false, false) => " ",
            };
            put!(path, "{separator}{text}");
            (begins_line, has_point) = (false, text.contains('.'));
        }
    }
}

fn steps(panel: &Panel, rows: &[Row], area: &Area) -> String {
    let mut path = String::new();
    for (i, row) in rows.iter().enumerate() {
        let (x, y) = (px(area.x(panel, row.x)), px(area.y(panel, row.y)));
        if i == 0 {
            put!(path, "M{x} {y}");
        } else {
            put!(path, "H{x}V{y}");
        }
    }
    path
}

/// Returns a row for the begin and one for the end of each bin.
fn corners(rows: &[Row], width: f64) -> Vec<Row> {
    rows.iter().flat_map(|row| [Row { x: row.x - width, ..*row }, *row]).collect()
}

fn band(panel: &Panel, rows: &[Row], area: &Area) -> String {
    let edge = |row: &Row, value: Option<f64>| (area.x(panel, row.x), area.y(panel, value.unwrap_or(row.y)));
    let mut path = String::new();
    for part in rows.split(|row| !row.y.is_finite()).filter(|part| !part.is_empty()) {
        let upper = part.iter().map(|row| edge(row, row.high));
        let lower = part.iter().rev().map(|row| edge(row, row.low));
        relative(&mut path, upper.chain(lower));
        path.push('Z');
    }
    path
}

fn point(out: &mut String, panel: &Panel, row: &Row, area: &Area, look: usize) {
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    let place = format!("transform=\"translate({} {})\"", px(x), px(y));
    let (element, shape) = marker(look);
    let (Some(low), Some(high)) = (row.low, row.high) else {
        put!(out, "<{element} class=\"m dot\" {place} {shape}/>\n");
        return;
    };
    let (low, high) = (px(area.y(panel, low) - y), px(area.y(panel, high) - y));
    put!(out, "<g class=\"m\" {place}><path class=\"bar\" d=\"M0 {low}V{high}M-3 {low}h6M-3 {high}h6\"/>");
    put!(out, "<{element} class=\"dot\" {shape}/></g>\n");
}

/// Returns a rectangle as data of a path, which is shorter than the element of SVG.
fn rectangle(corner: (f64, f64), end: (f64, f64)) -> String {
    let [left, top] = [corner.0.min(end.0), corner.1.min(end.1)].map(px);
    let [right, bottom] = [corner.0.max(end.0), corner.1.max(end.1)].map(px);
    format!("M{left} {top}H{right}V{bottom}H{left}z")
}

fn boxed(out: &mut String, panel: &Panel, row: &Row, area: &Area, width: f64) {
    let half = area.width(&panel.x, width) / 2.0;
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    let [high, low] = [row.high, row.low].map(|value| area.y(panel, value.unwrap_or(row.y)));
    let (left, width, top, height) = (px(x - half), px(2.0 * half), px(high), px((low - high).abs()));
    // The page's script moves this rectangle to a logarithmic axis.
    put!(
        out,
        "<g class=\"m\"><rect class=\"area\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>\
         <path class=\"line\" d=\"M{left} {}h{width}\"/></g>\n",
        px(y)
    );
}

fn span(out: &mut String, panel: &Panel, row: &Row, area: &Area, height: f64) {
    let (low, high) = panel.y.scale.ends();
    let half = area.h * height / (high - low) / 2.0;
    // Names of a vertical axis are read from top to bottom.
    let y = area.y(panel, row.y);
    let (from, to) = (area.x(panel, row.low.unwrap_or(0.0)), area.x(panel, row.high.unwrap_or(row.x)));
    let part = rectangle((from, y - half), (to, y + half));
    put!(out, "<path class=\"m fill\" d=\"{part}\"/>\n");
}

fn cell(out: &mut String, panel: &Panel, row: &Row, area: &Area) {
    let (half_x, half_y) = (area.width(&panel.x, 1.0) / 2.0, {
        let (low, high) = panel.y.scale.ends();
        area.h / (high - low) / 2.0
    });
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    let class = (0..8).filter(|i| row.high.unwrap_or(0.0) * 9.0 >= f64::from(*i) + 1.0).count();
    let cell = rectangle((x - half_x, y - half_y), (x + half_x, y + half_y));
    put!(out, "<g class=\"m h{class}\"><path class=\"fill\" d=\"{cell}\"/>");
    let text = significant(row.low.unwrap_or(0.0), 3);
    put!(out, "<text x=\"{}\" y=\"{}\">{text}</text></g>\n", px(x), px(y + 4.0));
}
