//! Writer of SVG: the same bytes for the same scene on every machine.

use super::palette::marker;
use super::scale::{Axis, Scale, fixed, number};
use super::scene::{Layer, Mark, Origin, Panel, Row, Scene};

/// Style of all figures: colours are custom properties of the page, with literal values for
/// programs that know none.
pub const STYLE: &str = include_str!("../../assets/figure.css");
/// Width of a figure. Printed 12 cm wide, its letters have 8 points.
const WIDTH: f64 = 480.0;
/// Free space right of the plot area.
const RIGHT: f64 = 14.0;
/// Height of the name above a vertical axis.
const NAME: f64 = 18.0;
/// Height of the tick labels below a panel.
const LABELS: f64 = 18.0;
/// Height of the name below a horizontal axis.
const X_NAME: f64 = 15.0;
/// Height of a line of the legend.
const LEGEND: f64 = 17.0;
/// Mean width of a letter.
const LETTER: f64 = 6.2;
/// Rows of a line above which it is drawn with the extremes of each column of two pixels.
const DENSE: usize = 600;

/// Place of the SVG, which decides whether it contains the style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a file of its own, which contains the style.
    File,
    /// In a page, which contains the style once for all figures.
    Page,
}

/// Returns a scene as an SVG document.
pub fn svg(scene: &Scene, place: Place) -> String {
    let left = left_margin(scene);
    let legend = legend(scene);
    let tops = tops(scene, legend.1);
    let height = tops.last().copied().unwrap_or(0.0);
    let id = &scene.id;
    let mut out = String::new();
    let xmlns = if place == Place::File { " xmlns=\"http://www.w3.org/2000/svg\"" } else { "" };
    put!(
        out,
        "<svg{xmlns} class=\"figure\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n",
        px(WIDTH),
        px(height),
        escape(&scene.title),
        escape(&scene.description)
    );
    if place == Place::File {
        put!(out, "<style>\n{STYLE}</style>\n");
    }
    put!(out, "<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n{}", px(WIDTH), px(height), legend.0);
    let mut row = 0;
    for (i, panel) in scene.panels.iter().enumerate() {
        let area = Area { x: left, y: tops[i], w: WIDTH - left - RIGHT, h: panel.height };
        draw_panel(&mut out, scene, i, &area, &mut row);
    }
    out.push_str("</svg>\n");
    out
}

/// Plot area in pixels.
struct Area {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

impl Area {
    fn x(&self, panel: &Panel, value: f64) -> f64 {
        self.x + self.w * panel.x.scale.position(value).clamp(-2.0, 3.0)
    }

    fn y(&self, panel: &Panel, value: f64) -> f64 {
        self.y + self.h * (1.0 - panel.y.scale.position(value).clamp(-2.0, 3.0))
    }

    /// Returns the width of this many units at a place of a linear axis or an axis of names.
    fn width(&self, axis: &Axis, units: f64) -> f64 {
        let (low, high) = axis.scale.ends();
        self.w * units / (high - low)
    }
}

/// Returns escaped text for XML and HTML, also within attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Returns a coordinate with a tenth of a pixel.
fn px(value: f64) -> String {
    fixed(value, 1)
}

fn text_width(text: &str) -> f64 {
    number(text.chars().count()) * LETTER
}

fn left_margin(scene: &Scene) -> f64 {
    let labels = scene.panels.iter().flat_map(|panel| &panel.y.ticks);
    let widest = labels.map(|tick| text_width(&tick.label)).fold(0.0, f64::max);
    (widest + 14.0).clamp(30.0, WIDTH / 3.0)
}

/// True if the panel after `i` has the same horizontal axis, so that its labels serve both.
fn is_linked(scene: &Scene, i: usize) -> bool {
    scene.panels.get(i + 1).is_some_and(|next| next.x == scene.panels[i].x)
}

/// Returns the top of the plot area of each panel, and the height of the figure.
fn tops(scene: &Scene, legend: f64) -> Vec<f64> {
    let mut y = legend + 2.0;
    let mut tops = Vec::new();
    for (i, panel) in scene.panels.iter().enumerate() {
        y += NAME;
        tops.push(y);
        y += panel.height;
        y += if is_linked(scene, i) { 8.0 } else { LABELS * label_lines(&panel.x) + X_NAME + 4.0 };
    }
    tops.push(y);
    tops
}

/// Returns the legend and its height. A single series needs none.
fn legend(scene: &Scene) -> (String, f64) {
    let mut out = String::new();
    if scene.series.len() < 2 {
        return (out, 0.0);
    }
    let (mut x, mut y) = (8.0, LEGEND - 4.0);
    out.push_str("<g class=\"legend\">\n");
    // Parts of size zero and columns without values are not drawn, so they need no key.
    let drawn = |i: &usize| scene.layers().any(|(_, layer)| layer.series == *i);
    for (i, series) in scene.series.iter().enumerate().filter(|(i, _)| drawn(i)) {
        let width = 26.0 + text_width(&series.name);
        if x > 8.0 && x + width > WIDTH {
            (x, y) = (8.0, y + LEGEND);
        }
        let class = look(series.look, series.origin);
        put!(out, "<g class=\"key {class}\" data-series=\"{i}\">");
        out.push_str(&key(scene, i, x + 9.0, y - 4.0));
        put!(out, "<text x=\"{}\" y=\"{}\">{}</text></g>\n", px(x + 22.0), px(y), escape(&series.name));
        x += width + 8.0;
    }
    out.push_str("</g>\n");
    (out, y + 5.0)
}

/// Returns the sample of a series in the legend: a swatch for areas, else a line, with the marker
/// if the series has one.
fn key(scene: &Scene, series: usize, x: f64, y: f64) -> String {
    let marks = || scene.layers().filter(|(_, layer)| layer.series == series).map(|(_, layer)| layer.mark);
    if marks().any(|mark| matches!(mark, Mark::Spans(_) | Mark::Band | Mark::Bars(_) | Mark::Boxes(_))) {
        return format!("<path class=\"fill\" d=\"M{} {}h14v9h-14z\"/>", px(x - 7.0), px(y - 4.5));
    }
    let mut out = String::new();
    if marks().any(|mark| !matches!(mark, Mark::Points | Mark::Dots)) {
        put!(out, "<path class=\"line\" d=\"M{} {}h18\"/>", px(x - 9.0), px(y));
    }
    let only_line = scene.series[series].origin == Origin::Theory && !out.is_empty();
    if !only_line && marks().any(|mark| matches!(mark, Mark::Points | Mark::Dots)) {
        let outline = marker(scene.series[series].look);
        put!(out, "<path class=\"dot\" transform=\"translate({} {})\" d=\"{outline}\"/>", px(x), px(y));
    }
    out
}

fn look(index: usize, origin: Origin) -> String {
    format!("s{} {}", index % super::palette::LIGHT.len(), origin.word())
}

fn scale_data(axis: &Axis) -> String {
    let (low, high) = axis.scale.ends();
    let kind = match axis.scale {
        Scale::Linear { .. } => "linear",
        Scale::Log { .. } => "log",
        Scale::Names(_) => "names",
    };
    format!("{kind} {low} {high} {} {}", axis.factor, axis.unit)
}

fn draw_panel(out: &mut String, scene: &Scene, index: usize, area: &Area, row: &mut usize) {
    let panel = &scene.panels[index];
    put!(
        out,
        "<g class=\"panel\" data-box=\"{} {} {} {}\" data-x=\"{}\" data-y=\"{}\" data-log=\"{}\">\n",
        px(area.x),
        px(area.y),
        px(area.w),
        px(area.h),
        escape(&scale_data(&panel.x)),
        escape(&scale_data(&panel.y)),
        u8::from(panel.log_allowed)
    );
    draw_y_axis(out, panel, area);
    draw_x_axis(out, panel, area, !is_linked(scene, index));
    for layer in &panel.layers {
        let series = &scene.series[layer.series];
        put!(
            out,
            "<g class=\"layer {} {}{}\" data-series=\"{}\" data-rows=\"{} {}\">\n",
            word(layer.mark),
            look(series.look, series.origin),
            match (layer.muted, series.origin) {
                (false, _) => "",
                (true, Origin::Theory) => " faint",
                (true, _) => " muted",
            },
            layer.series,
            *row,
            layer.rows.len()
        );
        draw_layer(out, panel, layer, area, series.look);
        out.push_str("</g>\n");
        *row += layer.rows.len();
    }
    for note in &panel.notes {
        let (x, y) = (area.x(panel, note.x), area.y(panel, note.y));
        let room = area.x + area.w - x > text_width(&note.text) + 6.0;
        let (x, class) = if room { (x + 6.0, "note") } else { (x - 6.0, "note end") };
        let text = escape(&note.text);
        put!(out, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{text}</text>\n", px(x), px(y - 4.0));
    }
    out.push_str("</g>\n");
}

fn draw_y_axis(out: &mut String, panel: &Panel, area: &Area) {
    out.push_str("<g class=\"axis y\">\n");
    let is_names = matches!(panel.y.scale, Scale::Names(_));
    for tick in &panel.y.ticks {
        let y = area.y(panel, tick.at);
        if !is_names {
            put!(out, "<path class=\"grid\" d=\"M{} {}h{}\"/>", px(area.x), px(y), px(area.w));
        }
        put!(
            out,
            "<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>\n",
            px(area.x - 5.0),
            px(y + 3.8),
            escape(&tick.label)
        );
    }
    put!(
        out,
        "<text class=\"name\" x=\"6\" y=\"{}\">{}</text>\n</g>\n",
        px(area.y - 7.0),
        escape(&panel.y.label)
    );
}

/// Returns the number of lines that the labels of an axis of names need: long names alternate.
fn label_lines(axis: &Axis) -> f64 {
    let room = (WIDTH - 50.0) / number(axis.ticks.len().max(1));
    let widest = axis.ticks.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max);
    if matches!(axis.scale, Scale::Names(_)) && widest > room - 4.0 { 2.0 } else { 1.0 }
}

fn draw_x_axis(out: &mut String, panel: &Panel, area: &Area, labels: bool) {
    out.push_str("<g class=\"axis x\">\n");
    let bottom = area.y + area.h;
    put!(out, "<path class=\"base\" d=\"M{} {}h{}\"/>\n", px(area.x), px(bottom), px(area.w));
    let is_names = matches!(panel.x.scale, Scale::Names(_));
    let lines = label_lines(&panel.x);
    let mut end = f64::NEG_INFINITY;
    for (i, tick) in panel.x.ticks.iter().enumerate() {
        let x = area.x(panel, tick.at);
        if !is_names {
            put!(out, "<path class=\"base\" d=\"M{} {}v4\"/>", px(x), px(bottom));
        }
        let half = text_width(&tick.label) / 2.0;
        // Labels of numbers that would touch their left neighbour are left out.
        if !labels || tick.label.is_empty() || (lines < 2.0 && x - half < end + 3.0) {
            continue;
        }
        end = x + half;
        let line = if lines > 1.0 && i % 2 == 1 { LABELS - 4.0 } else { 0.0 };
        put!(
            out,
            "<text class=\"mid\" x=\"{}\" y=\"{}\">{}</text>\n",
            px(x),
            px(bottom + 15.0 + line),
            escape(&tick.label)
        );
    }
    if labels {
        put!(
            out,
            "<text class=\"mid name\" x=\"{}\" y=\"{}\">{}</text>\n",
            px(area.x + area.w / 2.0),
            px(bottom + LABELS * lines + 11.0),
            escape(&panel.x.label)
        );
    }
    out.push_str("</g>\n");
}

fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Line => "lines",
        Mark::Steps => "steps",
        Mark::Band => "band",
        Mark::Points => "points",
        Mark::Dots => "dots",
        Mark::Segments => "segments",
        Mark::Bars(_) => "bars",
        Mark::Boxes(_) => "boxes",
        Mark::Spans(_) => "spans",
        Mark::Cells => "cells",
        Mark::Rules => "rules",
        Mark::Levels => "levels",
    }
}

fn draw_layer(out: &mut String, panel: &Panel, layer: &Layer, area: &Area, look: usize) {
    let rows = &layer.rows;
    match layer.mark {
        Mark::Line => {
            let (path, thinned) = line(panel, rows, area);
            let thin = if thinned { " data-thinned=\"1\"" } else { "" };
            put!(out, "<path class=\"line\"{thin} d=\"{path}\"/>\n");
        }
        Mark::Steps => put!(out, "<path class=\"line\" d=\"{}\"/>\n", steps(panel, rows, area)),
        Mark::Band => put!(out, "<path class=\"area\" d=\"{}\"/>\n", band(panel, rows, area)),
        Mark::Dots => {
            let dot = |row: &Row| format!("M{} {}h0", px(area.x(panel, row.x)), px(area.y(panel, row.y)));
            let path: String = rows.iter().map(dot).collect();
            put!(out, "<path class=\"line\" d=\"{path}\"/>\n");
        }
        Mark::Segments => {
            let ends = |row: &Row| [row.low, row.high].map(|end| px(area.y(panel, end.unwrap_or(row.y))));
            let segment = |row: &Row| {
                let [low, high] = ends(row);
                format!("M{} {low}V{high}", px(area.x(panel, row.x)))
            };
            let path: String = rows.iter().map(segment).collect();
            put!(out, "<path class=\"line\" d=\"{path}\"/>\n");
        }
        Mark::Points => rows.iter().for_each(|row| point(out, panel, row, area, look)),
        Mark::Bars(width) => rows.iter().for_each(|row| bar(out, panel, row, area, width)),
        Mark::Boxes(width) => rows.iter().for_each(|row| boxed(out, panel, row, area, width)),
        Mark::Spans(height) => rows.iter().for_each(|row| span(out, panel, row, area, height)),
        Mark::Cells => rows.iter().for_each(|row| cell(out, panel, row, area)),
        Mark::Rules => rows.iter().for_each(|row| {
            let (x, y, h) = (px(area.x(panel, row.x)), px(area.y), px(area.h));
            put!(out, "<path class=\"m line\" d=\"M{x} {y}v{h}\"/>\n");
        }),
        Mark::Levels => rows.iter().for_each(|row| {
            let (x, y, w) = (px(area.x), px(area.y(panel, row.y)), px(area.w));
            put!(out, "<path class=\"m line\" d=\"M{x} {y}h{w}\"/>\n");
        }),
    }
}

/// Returns the rows that show where they are dense: the first, last, lowest and highest of each
/// column of two pixels, in their order.
fn thinned(panel: &Panel, rows: &[Row], area: &Area) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    let column = |row: &Row| (area.x(panel, row.x) / 2.0).floor();
    for group in rows.chunk_by(|a, b| column(a).total_cmp(&column(b)).is_eq()) {
        let extreme = |sign: f64| {
            let key =
                |i: &usize| if group[*i].y.is_finite() { sign * group[*i].y } else { f64::NEG_INFINITY };
            (0..group.len()).max_by(|a, b| key(a).total_cmp(&key(b))).unwrap_or(0)
        };
        let mut indices = [0, extreme(1.0), extreme(-1.0), group.len() - 1];
        indices.sort_unstable();
        kept.extend(
            indices
                .iter()
                .enumerate()
                .filter(|(i, k)| *i == 0 || indices[i - 1] != **k)
                .map(|(_, k)| group[*k]),
        );
    }
    kept
}

fn line(panel: &Panel, rows: &[Row], area: &Area) -> (String, bool) {
    let dense = rows.len() > DENSE;
    let mut path = String::new();
    if dense {
        dense_line(&mut path, panel, &thinned(panel, rows, area), area);
        return (path, true);
    }
    let mut pen_down = false;
    for row in rows {
        if row.x.is_finite() && row.y.is_finite() {
            let command = if pen_down { 'L' } else { 'M' };
            put!(path, "{command}{} {}", px(area.x(panel, row.x)), px(area.y(panel, row.y)));
        }
        pen_down = row.x.is_finite() && row.y.is_finite();
    }
    (path, false)
}

/// Writes a line with distances from point to point, which need a third less space than places.
/// Distances between rounded places do not add up rounding errors.
fn dense_line(path: &mut String, panel: &Panel, rows: &[Row], area: &Area) {
    let mut last: Option<(f64, f64)> = None;
    for row in rows {
        if !row.x.is_finite() || !row.y.is_finite() {
            last = None;
            continue;
        }
        let tenths = |place: f64| (place * 10.0).round();
        let (x, y) = (tenths(area.x(panel, row.x)), tenths(area.y(panel, row.y)));
        match last {
            None => put!(path, "M{} {}l", px(x / 10.0), px(y / 10.0)),
            Some((from_x, from_y)) => {
                for distance in [x - from_x, y - from_y] {
                    let text = px(distance / 10.0);
                    let glued = text.starts_with('-') || path.ends_with('l');
                    put!(path, "{}{text}", if glued { "" } else { " " });
                }
            }
        }
        last = Some((x, y));
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

fn band(panel: &Panel, rows: &[Row], area: &Area) -> String {
    let edge = |row: &Row, value: Option<f64>| {
        format!("{} {}", px(area.x(panel, row.x)), px(area.y(panel, value.unwrap_or(row.y))))
    };
    let upper = rows.iter().map(|row| edge(row, row.high));
    let lower = rows.iter().rev().map(|row| edge(row, row.low));
    format!("M{}Z", upper.chain(lower).collect::<Vec<_>>().join("L"))
}

fn point(out: &mut String, panel: &Panel, row: &Row, area: &Area, look: usize) {
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    put!(out, "<g class=\"m\" transform=\"translate({} {})\">", px(x), px(y));
    if let (Some(low), Some(high)) = (row.low, row.high) {
        let (low, high) = (px(area.y(panel, low) - y), px(area.y(panel, high) - y));
        put!(out, "<path class=\"bar\" d=\"M0 {low}V{high}M-3 {low}h6M-3 {high}h6\"/>");
    }
    put!(out, "<path class=\"dot\" d=\"{}\"/></g>\n", marker(look));
}

fn rect(out: &mut String, class: &str, corner: (f64, f64), end: (f64, f64)) {
    put!(
        out,
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
        px(corner.0.min(end.0)),
        px(corner.1.min(end.1)),
        px((end.0 - corner.0).abs()),
        px((end.1 - corner.1).abs())
    );
}

fn bar(out: &mut String, panel: &Panel, row: &Row, area: &Area, width: f64) {
    let half = area.width(&panel.x, width) / 2.0;
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    out.push_str("<g class=\"m\">");
    rect(out, "fill", (x - half, area.y(panel, panel.y.scale.ends().0.max(0.0))), (x + half, y));
    if let (Some(low), Some(high)) = (row.low, row.high) {
        let (x, low, high) = (px(x), px(area.y(panel, low)), px(area.y(panel, high)));
        put!(out, "<path class=\"bar\" d=\"M{x} {low}V{high}\"/>");
    }
    out.push_str("</g>\n");
}

fn boxed(out: &mut String, panel: &Panel, row: &Row, area: &Area, width: f64) {
    let half = area.width(&panel.x, width) / 2.0;
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    out.push_str("<g class=\"m\">");
    let edge = |value: Option<f64>| area.y(panel, value.unwrap_or(row.y));
    rect(out, "area", (x - half, edge(row.high)), (x + half, edge(row.low)));
    let median = (px(x - half), px(y), px(2.0 * half));
    put!(out, "<path class=\"line\" d=\"M{} {}h{}\"/></g>\n", median.0, median.1, median.2);
}

fn span(out: &mut String, panel: &Panel, row: &Row, area: &Area, height: f64) {
    let (low, high) = panel.y.scale.ends();
    let half = area.h * height / (high - low) / 2.0;
    // Names of a vertical axis are read from top to bottom.
    let y = area.y(panel, row.y);
    let (from, to) = (area.x(panel, row.low.unwrap_or(0.0)), area.x(panel, row.high.unwrap_or(row.x)));
    out.push_str("<g class=\"m\">");
    rect(out, "fill", (from, y - half), (to, y + half));
    out.push_str("</g>\n");
}

fn cell(out: &mut String, panel: &Panel, row: &Row, area: &Area) {
    let (half_x, half_y) = (area.width(&panel.x, 1.0) / 2.0, {
        let (low, high) = panel.y.scale.ends();
        area.h / (high - low) / 2.0
    });
    let (x, y) = (area.x(panel, row.x), area.y(panel, row.y));
    let class = (0..8).filter(|i| row.high.unwrap_or(0.0) * 9.0 >= f64::from(*i) + 1.0).count();
    put!(out, "<g class=\"m h{class}\">");
    rect(out, "fill", (x - half_x, y - half_y), (x + half_x, y + half_y));
    let text = super::scale::significant(row.low.unwrap_or(0.0), 3);
    put!(out, "<text class=\"mid\" x=\"{}\" y=\"{}\">{text}</text></g>\n", px(x), px(y + 4.0));
}

#[cfg(test)]
mod tests;
