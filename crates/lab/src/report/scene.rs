//! Scene: a figure as axes and marks over its data. Every mark has a row of data, so that the drawn
//! figure, the page and the exported files show the same numbers.

use super::scale::{Axis, significant};

/// Source of the values of a series, which decides how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Measured by the lab: solid lines, filled markers.
    Measured,
    /// Computed by a model: dashed lines.
    Theory,
    /// Published by the source: dotted lines, hollow markers.
    Published,
}

impl Origin {
    /// Returns the word in class names and exported tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Theory => "theory",
            Self::Published => "published",
        }
    }
}

/// Series of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesName {
    /// Name in the legend.
    pub name: String,
    /// Index of colour and marker. Measurement and model of one cell share it.
    pub look: usize,
    /// Source of the values.
    pub origin: Origin,
}

/// Row of data behind a mark.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Row {
    /// Value on the horizontal axis.
    pub x: f64,
    /// Value on the vertical axis: for means, the mean.
    pub y: f64,
    /// Lower end of the interval, or of the drawn bar.
    pub low: Option<f64>,
    /// Upper end of the interval, or of the drawn bar.
    pub high: Option<f64>,
    /// Number of repetitions behind the mean.
    pub n: Option<u32>,
}

impl Row {
    /// Creates a row without an interval.
    pub const fn at(x: f64, y: f64) -> Self {
        Self { x, y, low: None, high: None, n: None }
    }

    /// Returns the interval of a mean for readers: ` \u{b1} 0.05`, or ` (5.4 to 5.9)` if its ends
    /// are not equally far from the mean. `factor` is that from values to shown numbers. Empty
    /// without an interval.
    pub fn interval_text(&self, factor: f64) -> String {
        let (Some(low), Some(high)) = (self.low, self.high) else { return String::new() };
        let half = high - self.y;
        // Equal repetitions differ by rounding errors.
        if high - low <= self.y.abs() * 1e-9 {
            return " \u{b1} 0".to_owned();
        }
        if (half - (self.y - low)).abs() > 0.01 * (high - low) {
            let [low, high] = [low, high].map(|end| significant(end * factor, 3));
            return format!(" ({low} to {high})");
        }
        format!(" \u{b1} {}", significant(half * factor, 2))
    }
}

/// How the rows of a layer are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark {
    /// Line through all rows. A gap in the data (`y` not finite) interrupts it.
    Line,
    /// Line that keeps each value until the next row.
    Steps,
    /// Steps over bins with this width in units of the horizontal axis, each of which ends at `x`.
    Bins(f64),
    /// Area between `low` and `high` of bins with this width, each of which ends at `x`. It has a
    /// gap where `y` is not finite.
    Band(f64),
    /// Marker at each row, with an error bar from `low` to `high`.
    Points,
    /// Dots in one path, for thousands of rows.
    Dots,
    /// Vertical lines from `low` to `high` in one path, for thousands of rows.
    Segments,
    /// Vertical boxes from `low` to `high` with a line at `y`, with this width in units of the
    /// horizontal axis.
    Boxes(f64),
    /// Horizontal bars from `low` to `high` at `y`, with this height in units of the vertical axis.
    Spans(f64),
    /// Cells of a heat map at `x` and `y`. `low` is the shown value, `high` its place between the
    /// smallest (0) and the largest value (1).
    Cells,
    /// Vertical lines over the whole panel at `x`.
    Rules,
    /// Horizontal lines over the whole panel at `y`.
    Levels,
}

impl Mark {
    /// Returns the class by which the page's script recognises the mark, the word in exported
    /// tables, and the columns and the style with which gnuplot draws it.
    pub(super) const fn words(self) -> [&'static str; 4] {
        match self {
            Self::Line => ["lines", "line", "1:2", "lines"],
            Self::Steps => ["steps", "step", "1:2", "steps"],
            Self::Bins(_) => ["bins", "bin", "1:2", "fsteps"],
            Self::Band(_) => ["band", "band", "1:3:4", "filledcurves fs transparent solid 0.3"],
            Self::Points => ["points", "point", "1:2:3:4", "yerrorbars"],
            Self::Dots => ["dots", "dot", "1:2", "points"],
            Self::Segments => ["segments", "segment", "1:2:3:4", "yerrorbars"],
            Self::Boxes(_) => ["boxes", "box", "1:2:3:4", "yerrorbars"],
            Self::Spans(_) => ["spans", "part", "1:2", "points"],
            Self::Cells => ["cells", "cell", "1:2", "points"],
            Self::Rules => ["rules", "time", "1:2", "impulses"],
            Self::Levels => ["levels", "level", "1:2", "lines"],
        }
    }
}

/// Rows of one series drawn in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Index in [`Scene::series`].
    pub series: usize,
    /// How the rows are drawn.
    pub mark: Mark,
    /// Data, in the order of drawing.
    pub rows: Vec<Row>,
    /// True to draw less visibly: means whose difference is within the noise, models out of range.
    pub muted: bool,
}

/// Text inside a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Value on the horizontal axis.
    pub x: f64,
    /// Value on the vertical axis.
    pub y: f64,
    /// The text. It stands beside the point where it covers nothing, else it is left out.
    pub text: String,
}

/// Panel: two axes with layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Height of the plot area in pixels.
    pub height: f64,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Layers, the first at the back.
    pub layers: Vec<Layer>,
    /// Texts above the layers, the most important first.
    pub notes: Vec<Note>,
    /// True if the page may switch the vertical axis between linear and logarithmic.
    pub log_allowed: bool,
}

impl Panel {
    /// Creates a panel without layers.
    pub const fn new(height: f64, x: Axis, y: Axis) -> Self {
        Self { height, x, y, layers: Vec::new(), notes: Vec::new(), log_allowed: false }
    }

    /// Appends a layer.
    pub fn draw(&mut self, series: usize, mark: Mark, rows: Vec<Row>) {
        if !rows.is_empty() {
            self.layers.push(Layer { series, mark, rows, muted: false });
        }
    }
}

/// Figure, ready to be drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Identifier in the page and name of exported files: letters, digits and hyphens.
    pub id: String,
    /// Title.
    pub title: String,
    /// Sentences that tell a reader who cannot see the figure what it shows.
    pub description: String,
    /// Panels from top to bottom. Panels with equal horizontal axes share the labels of the last.
    pub panels: Vec<Panel>,
    /// Series that layers refer to.
    pub series: Vec<SeriesName>,
}

impl Scene {
    /// Creates a scene without panels.
    pub fn new(id: &str, title: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            description: String::new(),
            panels: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Returns the index of the series with this name and origin, which is added if it is new.
    pub fn series(&mut self, name: &str, look: usize, origin: Origin) -> usize {
        let new = SeriesName { name: name.to_owned(), look, origin };
        self.series.iter().position(|series| *series == new).unwrap_or_else(|| {
            self.series.push(new);
            self.series.len() - 1
        })
    }

    /// Returns all layers with their panels, in the order of drawing.
    pub fn layers(&self) -> impl Iterator<Item = (&Panel, &Layer)> {
        self.panels.iter().flat_map(|panel| panel.layers.iter().map(move |layer| (panel, layer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_show_both_ends_if_they_are_unequal() {
        let row = |low, high| Row { low: Some(low), high: Some(high), ..Row::at(0.0, 5e6) };
        assert_eq!(row(4.95e6, 5.05e6).interval_text(1e-6), " \u{b1} 0.05");
        assert_eq!(row(4.5e6, 5.05e6).interval_text(1e-6), " (4.5 to 5.05)");
        assert_eq!(row(5e6 - 1e-7, 5e6 + 1e-7).interval_text(1e-6), " \u{b1} 0");
        assert_eq!(Row::at(0.0, 5e6).interval_text(1e-6), "");
    }
}
