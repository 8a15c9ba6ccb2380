//! Figures of an experiment.

use super::document::{Item, Section};
use super::error::{ExperimentError, Place, suggest};
use super::factor::{Factor, find, read_levels};
use crate::results::Selection;
use crate::theory::{MODELS, model};

/// Form of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// Means with intervals for the levels of a factor.
    Means,
    /// Mean at each level of every factor.
    Marginals,
    /// Means for the levels of a factor, joined by a line for each level of another.
    Interaction,
    /// Effects of a factorial against half-normal quantiles.
    HalfNormal,
    /// All repetitions, with median and quartiles.
    Box,
    /// Cumulative distribution over the repetitions.
    Cdf,
    /// Mean for each pair of levels of two factors, as a colour.
    Heat,
    /// Means against a factor of numbers, with models.
    Lines,
    /// Series over time of one repetition.
    Series,
    /// Bytes read, sent and offered over time, of a flow of one repetition.
    Sequence,
    /// Rates of the flows of one repetition over time, one upon the other.
    Share,
    /// Parts of a flow's life by its limit.
    Limits,
    /// Parts of the airtime of a packet.
    Airtime,
    /// Delivered against offered rate.
    Offered,
    /// Throughput against delay, with an ellipse of one standard deviation.
    Ellipse,
    /// Columns of the table of cells.
    Table,
}

impl FigureKind {
    /// All forms with their words in experiment files.
    pub const ALL: [(&'static str, Self); 16] = [
        ("means", Self::Means),
        ("marginals", Self::Marginals),
        ("interaction", Self::Interaction),
        ("half-normal", Self::HalfNormal),
        ("box", Self::Box),
        ("cdf", Self::Cdf),
        ("heat", Self::Heat),
        ("lines", Self::Lines),
        ("series", Self::Series),
        ("sequence", Self::Sequence),
        ("share", Self::Share),
        ("limits", Self::Limits),
        ("airtime", Self::Airtime),
        ("offered", Self::Offered),
        ("ellipse", Self::Ellipse),
        ("table", Self::Table),
    ];

    /// Returns the metrics that the form shows where the file names none.
    pub const fn default_metrics(self) -> &'static [&'static str] {
        match self {
            Self::Series => &["goodput", "cwnd"],
            Self::Ellipse => &["goodput", "rtt-mean"],
            _ => &["goodput"],
        }
    }

    /// True if the form draws models beside what was measured.
    const fn draws_models(self) -> bool {
        matches!(self, Self::Means | Self::Interaction | Self::Lines | Self::Offered)
    }

    /// Returns the word for this form in experiment files.
    pub fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// Axes that are logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogAxes {
    /// The horizontal axis.
    pub x: bool,
    /// The vertical axis.
    pub y: bool,
}

/// A figure of the report. Factors are named by their short names.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Form.
    pub kind: FigureKind,
    /// Metrics, or columns of series. Empty: those that the form has by itself.
    pub of: Vec<String>,
    /// Factor on the horizontal axis.
    pub x: Option<String>,
    /// Factor that gives the colours and lines.
    pub by: Option<String>,
    /// Factor that gives the panels.
    pub panel: Option<String>,
    /// Levels of the cells that are shown.
    pub only: Selection,
    /// Names of models that are drawn in.
    pub theory: Vec<String>,
    /// Logarithmic axes.
    pub log: LogAxes,
    /// Title. `None`: made from the other words.
    pub title: Option<String>,
    /// Line and column of the table in the experiment file.
    pub place: Place,
}

impl Figure {
    /// True if the figure shows one level of a factor only.
    pub(crate) fn fixes(&self, factor: &str) -> bool {
        self.only.0.iter().any(|(name, _)| name == factor)
    }

    pub(super) fn read(section: &Section<'_, '_>, factors: &[Factor]) -> Result<Self, ExperimentError> {
        section.check(&["kind", "of", "x", "by", "panel", "only", "theory", "log", "title"])?;
        let factor = |word: &str| {
            let found = section.get(word).map(|item| {
                let found = find(factors, &item.text()?).map_err(|error| item.error(error))?;
                Ok(found.1.name.clone())
            });
            found.transpose()
        };
        let mut only = Selection::default();
        if let Some(item) = section.get("only") {
            for (index, level) in read_levels(&item.section()?, factors, &[])? {
                let factor = &factors[index];
                only.0.push((factor.name.clone(), factor.levels[level].name.clone()));
            }
        }
        let axes = [
            ("none", LogAxes::default()),
            ("x", LogAxes { x: true, y: false }),
            ("y", LogAxes { x: false, y: true }),
            ("xy", LogAxes { x: true, y: true }),
        ];
        let kind = section.require("kind")?.one_of(&FigureKind::ALL)?;
        let of = texts(section.get("of"))?;
        let all_factors = matches!(kind, FigureKind::Marginals | FigureKind::HalfNormal);
        if let Some(item) = section.get("x").or(section.get("by")).filter(|_| all_factors) {
            let kind = kind.word();
            return Err(item.error(format!("nothing uses it: a figure of the kind {kind} has all factors")));
        }
        if let Some(item) = section.get("by").filter(|_| kind == FigureKind::Share) {
            return Err(item.error("nothing uses it: a figure of the kind share has one cell: write panel"));
        }
        check_models(section, kind, &of)?;
        Ok(Self {
            kind,
            of,
            x: factor("x")?,
            by: factor("by")?,
            panel: factor("panel")?,
            only,
            theory: texts(section.get("theory"))?,
            log: section.get("log").map_or(Ok(LogAxes::default()), |item| item.one_of(&axes))?,
            title: section.text("title")?,
            place: section.place,
        })
    }
}

/// Checks that each model of a figure exists, and that the figure can draw it.
fn check_models(section: &Section<'_, '_>, kind: FigureKind, of: &[String]) -> Result<(), ExperimentError> {
    let Some(list) = section.get("theory") else { return Ok(()) };
    for item in list.list() {
        let name = item.text()?;
        let Some(model) = model(&name) else {
            let hint = suggest(&name, MODELS.iter().map(|model| model.name));
            return Err(item.error(format!("there is no model '{name}'; {hint}")));
        };
        if !kind.draws_models() {
            return Err(
                item.error(format!("nothing uses it: a figure of the kind {} has no models", kind.word()))
            );
        }
        let kinds = of.iter().map(|metric| metric.rsplit('.').next().unwrap_or(metric));
        let mut shown = kinds.chain(kind.default_metrics().iter().copied().filter(|_| of.is_empty()));
        if !shown.any(|metric| metric == model.metric) {
            let metric = model.metric;
            return Err(
                item.error(format!("nothing uses it: {name} is a model of {metric}, which is not shown"))
            );
        }
    }
    Ok(())
}

fn texts(item: Option<&Item<'_, '_>>) -> Result<Vec<String>, ExperimentError> {
    item.map_or_else(|| Ok(Vec::new()), |item| item.list().iter().map(Item::text).collect())
}
