//! Writer of SVG: the same bytes for the same scene on every machine.

mod labels;
mod marks;

use labels::{fit, text_width};
use marks::draw_layer;

use super::palette::marker;
use super::scale::{Axis, Scale, fixed, number};
use super::scene::{Mark, Origin, Panel, Scene};

/// Style of all figures: colours are custom properties of the page, after literal values for
/// programs that know none.
pub const STYLE: &str = include_str!("../../assets/figure.css");
/// Width of a figure. All lengths are user units of the SVG. Printed 12 cm wide, letters of 11
/// units have 8 points.
const WIDTH: f64 = 480.0;
/// Margin right of the plot area.
const RIGHT: f64 = 14.0;
/// Distance of tick labels from a vertical axis, on which half a marker may lie.
const LABEL_ASIDE: f64 = 8.0;
/// Height of the name above a vertical axis.
const NAME: f64 = 23.0;
/// Height of the tick labels below a panel.
const LABELS: f64 = 18.0;
/// Height of the name below a horizontal axis.
const X_NAME: f64 = 15.0;
/// Height of a line of the legend.
const LEGEND: f64 = 17.0;
/// Height of a line of tick labels after the first.
const MORE_LABELS: f64 = 13.0;

/// Place of the SVG, which decides whether it contains the style and the description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a file of its own, which contains both.
    File,
    /// In a page, which contains the style once for all figures and has the description below the
    /// figure, in the element `ID-d`.
    Page,
}

/// Returns a scene as an SVG document.
pub fn svg(scene: &Scene, place: Place) -> String {
    let left = left_margin(scene);
    let legend = legend(scene);
    let tops = tops(scene, left, legend.1);
    let height = tops.last().copied().unwrap_or(0.0);
    let id = &scene.id;
    let mut out = String::new();
    let title = escape(&scene.title);
    let (xmlns, description) = match place {
        Place::File => {
            let description = escape(&scene.description);
            let xmlns = " xmlns=\"http://www.w3.org/2000/svg\"";
            let style = literal_style();
            (xmlns, format!("<desc id=\"{id}-d\">{description}</desc>\n<style>\n{style}</style>\n"))
        }
        Place::Page => ("", String::new()),
    };
    put!(
        out,
        "<svg{xmlns} class=\"figure\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{title}</title>\n{description}",
        px(WIDTH),
        px(height),
    );
    put!(out, "<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n{}", px(WIDTH), px(height), legend.0);
    let mut row = 0;
    for (i, panel) in scene.panels.iter().enumerate() {
        let area = Area { y: tops[i], h: panel.height, ..area_from(left) };
        draw_panel(&mut out, scene, i, &area, &mut row);
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the style without the declarations that read custom properties: a file has no page that
/// sets them, and some programs take such a declaration for black instead of skipping it. The
/// page's script does the same.
pub(super) fn literal_style() -> String {
    let mut out = String::with_capacity(STYLE.len());
    for part in STYLE.split_inclusive([';', '{', '}']) {
        if !part.contains("var(") {
            out.push_str(part);
        } else if part.ends_with('}') {
            out.push('}');
        }
    }
    out
}

/// Returns the horizontal place of all plot areas of a figure.
const fn area_from(left: f64) -> Area {
    Area { x: left, y: 0.0, w: WIDTH - left - RIGHT, h: 0.0 }
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

fn left_margin(scene: &Scene) -> f64 {
    let labels = scene.panels.iter().flat_map(|panel| &panel.y.ticks);
    let widest = labels.map(|tick| text_width(&tick.label)).fold(0.0, f64::max);
    (widest + LABEL_ASIDE + 9.0).clamp(30.0, WIDTH * 0.4)
}

/// True if the panel after `i` has the same horizontal axis, so that its labels serve both.
fn is_linked(scene: &Scene, i: usize) -> bool {
    scene.panels.get(i + 1).is_some_and(|next| next.x == scene.panels[i].x)
}

/// Returns the top of the plot area of each panel, and the height of the figure.
fn tops(scene: &Scene, left: f64, legend: f64) -> Vec<f64> {
    let mut y = legend + 2.0;
    let mut tops = Vec::new();
    for (i, panel) in scene.panels.iter().enumerate() {
        y += if panel.y.label.is_empty() { 0.0 } else { NAME };
        tops.push(y);
        y += panel.height;
        y += if is_linked(scene, i) { 8.0 } else { label_height(&panel.x, &area_from(left)) + X_NAME + 4.0 };
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
        let name = fit(&series.name, WIDTH - 36.0);
        let width = 26.0 + text_width(&name);
        if x > 8.0 && x + width > WIDTH {
            (x, y) = (8.0, y + LEGEND);
        }
        let is_muted = scene.layers().filter(|(_, it)| it.series == i).all(|(_, it)| it.muted);
        let class = look(series.look, series.origin) + muted(is_muted, series.origin);
        put!(out, "<g class=\"key {class}\" data-series=\"{i}\">");
        out.push_str(&key(scene, i, x + 9.0, y - 4.0));
        put!(out, "<text x=\"{}\" y=\"{}\">{}</text></g>\n", px(x + 22.0), px(y), escape(&name));
        x += width + 8.0;
    }
    out.push_str("</g>\n");
    (out, y + 5.0)
}

/// Returns the sample of a series in the legend: a swatch for areas, else a line, with the marker
/// if the series has one.
fn key(scene: &Scene, series: usize, x: f64, y: f64) -> String {
    let marks = || scene.layers().filter(|(_, layer)| layer.series == series).map(|(_, layer)| layer.mark);
    if marks().any(|mark| matches!(mark, Mark::Spans(_) | Mark::Band(_) | Mark::Boxes(_))) {
        return format!("<path class=\"fill\" d=\"M{} {}h14v9h-14z\"/>", px(x - 7.0), px(y - 4.5));
    }
    let mut out = String::new();
    if marks().any(|mark| !matches!(mark, Mark::Points | Mark::Dots)) {
        put!(out, "<path class=\"line\" d=\"M{} {}h18\"/>", px(x - 9.0), px(y));
    }
    if marks().any(|mark| matches!(mark, Mark::Points | Mark::Dots)) {
        let (element, shape) = marker(scene.series[series].look);
        put!(out, "<{element} class=\"dot\" transform=\"translate({} {})\" {shape}/>", px(x), px(y));
    }
    out
}

fn look(index: usize, origin: Origin) -> String {
    format!("s{} {}", index % super::palette::LIGHT.len(), origin.word())
}

/// Returns the class of a layer that is drawn less visibly.
const fn muted(is_muted: bool, origin: Origin) -> &'static str {
    match (is_muted, origin) {
        (false, _) => "",
        (true, Origin::Theory) => " faint",
        (true, _) => " muted",
    }
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
            layer.mark.words()[0],
            look(series.look, series.origin),
            muted(layer.muted, series.origin),
            layer.series,
            *row,
            layer.rows.len()
        );
        draw_layer(out, panel, layer, area, series.look);
        out.push_str("</g>\n");
        *row += layer.rows.len();
    }
    for (note, x, y) in labels::notes(panel, area) {
        put!(out, "<text class=\"note\" x=\"{}\" y=\"{}\">{}</text>\n", px(x), px(y), escape(&note.text));
    }
    out.push_str("</g>\n");
}

fn draw_y_axis(out: &mut String, panel: &Panel, area: &Area) {
    out.push_str("<g class=\"axis y\">\n");
    let mut grid = String::new();
    let mut labels = String::new();
    for tick in &panel.y.ticks {
        let y = area.y(panel, tick.at);
        put!(grid, "M{} {}h{}", px(area.x), px(y), px(area.w));
        let (x, y, text) =
            (px(area.x - LABEL_ASIDE), px(y + 3.8), escape(&fit(&tick.label, area.x - LABEL_ASIDE - 4.0)));
        put!(labels, "<text x=\"{x}\" y=\"{y}\">{text}</text>\n");
    }
    if !matches!(panel.y.scale, Scale::Names(_)) {
        put!(out, "<path class=\"grid\" d=\"{grid}\"/>\n");
    }
    out.push_str(&labels);
    put!(
        out,
        "<text class=\"name\" x=\"6\" y=\"{}\">{}</text>\n</g>\n",
        // Above the label of the highest tick.
        px(area.y - 11.0),
        escape(&fit(&panel.y.label, WIDTH - 10.0))
    );
}

/// Returns the height of the labels below an axis.
fn label_height(axis: &Axis, area: &Area) -> f64 {
    let last = labels::below(axis, area).iter().map(|(.., line)| *line).max().unwrap_or(0);
    LABELS + number(last) * MORE_LABELS
}

fn draw_x_axis(out: &mut String, panel: &Panel, area: &Area, has_labels: bool) {
    out.push_str("<g class=\"axis x\">\n");
    let bottom = area.y + area.h;
    let is_names = matches!(panel.x.scale, Scale::Names(_));
    let mut base = format!("M{} {}h{}", px(area.x), px(bottom), px(area.w));
    for tick in panel.x.ticks.iter().filter(|_| !is_names) {
        put!(base, "M{} {}v4", px(area.x(panel, tick.at)), px(bottom));
    }
    put!(out, "<path class=\"base\" d=\"{base}\"/>\n");
    if has_labels {
        for (label, x, line) in labels::below(&panel.x, area) {
            let y = px(bottom + 15.0 + number(line) * MORE_LABELS);
            put!(out, "<text x=\"{}\" y=\"{y}\">{}</text>\n", px(x), escape(label));
        }
        put!(
            out,
            "<text class=\"name\" x=\"{}\" y=\"{}\">{}</text>\n",
            px(area.x + area.w / 2.0),
            px(bottom + label_height(&panel.x, area) + 11.0),
            escape(&fit(&panel.x.label, area.w))
        );
    }
    out.push_str("</g>\n");
}

#[cfg(test)]
mod tests;
