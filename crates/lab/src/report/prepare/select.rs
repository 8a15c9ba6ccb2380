//! Groups of cells: which cells a mark stands for, and the mean of a metric over them.

use crate::cell::{Cell, EngineKind};
use crate::experiment::{Figure, FigureKind};
use crate::record::Status;
use crate::statistics::{Interval, bca_interval, mean, t_interval};

use super::super::scale::level_value;
use super::super::scene::Row;
use super::Subject;
use super::words::in_legend;

/// Repetitions below which a mean has no interval.
const MIN_FOR_INTERVAL: usize = 5;
/// Repetitions above which the bootstrap is left out: there both intervals agree, and resampling
/// takes long.
const MAX_FOR_BOOTSTRAP: usize = 100;
/// Ratio of the bootstrap's width to Student's above which the bootstrap's interval is taken.
const MIN_WIDTH_RATIO: f64 = 4.0 / 3.0;

/// Returns the levels of a factor that cells have, in the order of the experiment.
pub(super) fn levels(subject: &Subject<'_>, factor: &str) -> Vec<String> {
    let named = subject.experiment.factors.iter().find(|it| it.name == factor);
    let all = named.into_iter().flat_map(|factor| factor.levels.iter().map(|level| level.name.clone()));
    let there = |level: &String| subject.results.cells.iter().any(|cell| cell.level(factor) == Some(level));
    all.filter(there).collect()
}

/// Returns the mean of a metric over some cells, with its 95 % interval over the repetitions that
/// all of them have. Few or equal repetitions have no interval. `None` if a repetition lacks the
/// metric: a mean over the others would mislead.
pub(super) fn mean_row(subject: &Subject<'_>, cells: &[&Cell], metric: &str, x: f64) -> Option<Row> {
    if cells.iter().any(|cell| subject.results.missing(cell, metric).0 > 0) {
        return None;
    }
    let values = values(subject, cells, metric);
    let y = mean(&values)?;
    let nothing_random = cells.iter().all(|cell| subject.results.is_one_run(cell.id));
    let n = if nothing_random { 1 } else { u32::try_from(values.len()).unwrap_or(u32::MAX) };
    let has_interval = !nothing_random && values.len() >= MIN_FOR_INTERVAL;
    let interval = mean_interval(&values).filter(|_| has_interval).map(|it| it.0);
    Some(Row { x, y, low: interval.map(|it| it.low), high: interval.map(|it| it.high), n: Some(n) })
}

/// Returns the 95 % interval of a mean, and whether it is that of the bootstrap. Student's interval
/// is too narrow for some skewed values.
pub(super) fn mean_interval(values: &[f64]) -> Option<(Interval, bool)> {
    let student = t_interval(values, 0.95)?;
    let resampled = || bca_interval(values, 0.95, 0).filter(|_| values.len() <= MAX_FOR_BOOTSTRAP);
    let wider = resampled().filter(|it| it.half_width() > MIN_WIDTH_RATIO * student.half_width());
    Some(wider.map_or((student, false), |it| (it, true)))
}

/// Returns the mean of a metric over the cells for each repetition that all of them have.
pub(super) fn values(subject: &Subject<'_>, cells: &[&Cell], metric: &str) -> Vec<f64> {
    aligned(subject, &[cells.to_vec()], metric).swap_remove(0)
}

/// Returns the values of several groups of cells for the repetitions that all groups have. Value i
/// of every group is of the same repetition.
pub(super) fn aligned(subject: &Subject<'_>, groups: &[Vec<&Cell>], metric: &str) -> Vec<Vec<f64>> {
    let results = subject.results;
    let mut all = vec![Vec::new(); groups.len()];
    // Cells without randomness have fewer repetitions, which count for all.
    let longest = groups.iter().flatten().max_by_key(|cell| results.valid_repetitions(cell.id).count());
    for rep in longest.into_iter().flat_map(|cell| results.valid_repetitions(cell.id)) {
        let record = |cell: &Cell| results.records.get(&cell.id).and_then(|records| records.get(&rep));
        let is_valid = |cell: &Cell| record(cell).is_none_or(|record| record.status == Status::Ok);
        let value = |cell: &&Cell| results.metric(cell, metric, rep).filter(|_| is_valid(cell));
        let group = |cells: &Vec<&Cell>| mean(&cells.iter().map(value).collect::<Option<Vec<f64>>>()?);
        if let Some(row) = groups.iter().map(group).collect::<Option<Vec<f64>>>() {
            all.iter_mut().zip(row).for_each(|(values, value)| values.push(value));
        }
    }
    all
}

/// Cells and metrics of a figure.
#[derive(Debug, Clone)]
pub(super) struct View<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) figure: &'a Figure,
    pub(super) engines: Vec<EngineKind>,
    /// Metrics with their flows.
    pub(super) metrics: Vec<String>,
    /// Factor on the horizontal axis. Empty if there is none.
    pub(super) x: String,
    /// Levels of that factor.
    pub(super) levels: Vec<String>,
}

/// Cells that one curve stands for.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) engine: EngineKind,
    pub(super) metric: String,
    /// Level of the factor `by`.
    pub(super) by: Option<String>,
}

impl<'a> View<'a> {
    /// Returns the view of a figure. `None` if no cell matches it.
    pub(super) fn new(subject: &'a Subject<'a>, figure: &'a Figure) -> Option<Self> {
        let matching = || subject.results.cells.iter().filter(|cell| figure.only.matches(cell));
        matching().next()?;
        let mut engines: Vec<EngineKind> = matching().map(|cell| cell.physics.engine).collect();
        engines.sort();
        engines.dedup();
        let named = |factor: &str| {
            let used = [&figure.by, &figure.panel].into_iter().any(|it| it.as_deref() == Some(factor));
            used || figure.fixes(factor)
        };
        let free = subject.experiment.factors.iter().map(|factor| &factor.name);
        let varies = |factor: &&String| !named(factor) && levels(subject, factor).len() > 1;
        let x = figure.x.clone().or_else(|| free.clone().find(varies).cloned()).unwrap_or_default();
        let there = |level: &String| matching().any(|cell| cell.level(&x) == Some(level));
        let levels = levels(subject, &x).into_iter().filter(there).collect();
        let default = || figure.kind.default_metrics().iter().map(|it| (*it).to_owned()).collect();
        let of: Vec<String> = if figure.of.is_empty() { default() } else { figure.of.clone() };
        let metrics = of.iter().flat_map(|name| expand(subject, name)).collect();
        Some(Self { subject, figure, engines, metrics, x, levels })
    }

    pub(super) fn title(&self) -> String {
        let kind = self.figure.kind;
        let of = self.figure.of.first().map_or(kind.default_metrics()[0], String::as_str);
        match kind {
            FigureKind::Series | FigureKind::Share => format!("{of} over time"),
            FigureKind::Sequence => "Bytes over time".to_owned(),
            FigureKind::Limits => "What limits each flow".to_owned(),
            FigureKind::Airtime => "Airtime of a packet".to_owned(),
            FigureKind::HalfNormal => format!("Effects on {of}"),
            FigureKind::Marginals => format!("Marginal means of {of}"),
            FigureKind::Offered => "Offered and delivered rate".to_owned(),
            _ if self.x.is_empty() => of.to_owned(),
            _ => format!("{of} by {}", self.x),
        }
    }

    /// Returns the cells of an engine with all these levels.
    pub(super) fn cells(&self, engine: EngineKind, levels: &[(&str, &str)]) -> Vec<&'a Cell> {
        let has = |cell: &Cell| levels.iter().all(|(factor, level)| cell.level(factor) == Some(level));
        let all = self.subject.results.cells(engine, &self.figure.only);
        all.filter(|cell| has(cell)).collect()
    }

    /// Returns the groups of the figure: engines, metrics and levels of `by`.
    pub(super) fn groups(&self) -> Vec<Group> {
        let by = self.figure.by.as_deref().map(|factor| (factor, levels(self.subject, factor)));
        let levels: Vec<Option<String>> =
            by.as_ref().map_or_else(|| vec![None], |(_, levels)| levels.iter().cloned().map(Some).collect());
        let mut groups = Vec::new();
        for engine in &self.engines {
            for metric in &self.metrics {
                for level in &levels {
                    let mut words = Vec::new();
                    if let (Some((factor, _)), Some(level)) = (&by, level) {
                        let named = self.subject.experiment.factors.iter().find(|it| it.name == **factor);
                        words.push(in_legend(named, factor, level));
                    }
                    if self.metrics.len() > 1 {
                        words.push(metric.clone());
                    }
                    if self.engines.len() > 1 || words.is_empty() {
                        let what = if words.is_empty() { "measured, engine " } else { "" };
                        words.push(format!("{what}{engine}"));
                    }
                    let name = words.join(", ");
                    groups.push(Group { name, engine: *engine, metric: metric.clone(), by: level.clone() });
                }
            }
        }
        groups.retain(|group| !self.cells_of(group, None).is_empty());
        groups
    }

    /// Returns the cells of a group, at a level of `x` or at all.
    pub(super) fn cells_of(&self, group: &Group, x: Option<&str>) -> Vec<&'a Cell> {
        let mut levels = Vec::new();
        if let (Some(factor), Some(level)) = (&self.figure.by, &group.by) {
            levels.push((factor.as_str(), level.as_str()));
        }
        levels.extend(x.filter(|_| !self.x.is_empty()).map(|level| (self.x.as_str(), level)));
        self.cells(group.engine, &levels)
    }

    /// Returns the levels of `x`, or `None` alone if there are none.
    pub(super) fn levels_or_all(&self) -> Vec<Option<&str>> {
        if self.levels.is_empty() { vec![None] } else { self.levels.iter().map(|it| Some(&**it)).collect() }
    }

    /// Returns the numbers of all levels of `x`. `None` if a level is not a number.
    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        let numbers = self.levels.iter().map(|level| level_value(level).map(|(value, _)| value));
        numbers.collect::<Option<Vec<f64>>>().filter(|numbers| !numbers.is_empty())
    }

    /// Returns the levels of a cell that the figure does not fix, for readers.
    pub(super) fn cell_name(&self, cell: &Cell) -> String {
        let free = cell.factors.iter().filter(|(factor, _)| !self.figure.fixes(factor));
        let mut words: Vec<String> = free.map(|(factor, level)| format!("{factor} {level}")).collect();
        if self.engines.len() > 1 || words.is_empty() {
            words.push(cell.physics.engine.word().to_owned());
        }
        words.join(", ")
    }
}

/// Returns a metric as the records have it: for several flows, that of each flow.
fn expand(subject: &Subject<'_>, name: &str) -> Vec<String> {
    let results = subject.results;
    let is_there = |cell: &Cell, name: &str| {
        results.valid_repetitions(cell.id).next().is_some_and(|rep| results.metric(cell, name, rep).is_some())
    };
    if results.cells.iter().any(|cell| is_there(cell, name)) {
        return vec![name.to_owned()];
    }
    let mut names: Vec<String> = Vec::new();
    for cell in &results.cells {
        for flow in &cell.physics.flows {
            let of_flow = format!("{}.{name}", flow.name);
            if !names.contains(&of_flow) && is_there(cell, &of_flow) {
                names.push(of_flow);
            }
        }
    }
    if names.is_empty() { vec![name.to_owned()] } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::plan::Plan;
    use crate::record::Record;
    use crate::results::Results;

    /// Cells `low` and `high` with repetitions 0 to 3, of which `low` lost repetition 1, and a cell
    /// `same` with two equal repetitions.
    fn results(experiment: &Experiment) -> Results {
        let cells = Plan::new(experiment, &[]).expect("a plan").cells;
        let mut results = Results { cells, ..Results::default() };
        for (i, cell) in results.cells.iter().enumerate() {
            for rep in 0..if i < 2 { 4 } else { 2 } {
                let goodput = if i < 2 { f64::from(10 * rep) + [1.0, 2.0][i] } else { 7.0 };
                let mut record = Record::of(cell, rep, "a.goodput", goodput);
                if i == 0 && rep == 1 {
                    record.status = Status::HostLimited;
                }
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
        }
        results
    }

    #[test]
    fn values_of_groups_belong_to_equal_repetitions() {
        let text = r#"
            schema = 1
            name = "three"
            title = "Three cells"
            engine = "virtual"
            for = "1s"
            [path]
            rate = "8mbit"
            [[flow]]
            name = "a"
            [factors]
            path.rtt = [{ name = "low", path.rtt = "1ms" }, { name = "high", path.rtt = "2ms" },
                        { name = "same", path.rtt = "3ms" }]
        "#;
        let experiment = Experiment::from_toml(text).expect("an experiment");
        let results = results(&experiment);
        let subject = Subject { experiment: &experiment, results: &results, judgements: &[], command: "" };
        let [low, high, same] = &results.cells[..] else { panic!("three cells") };
        let groups = [vec![low], vec![high], vec![same]];
        let expected = [[1.0, 21.0, 31.0], [2.0, 22.0, 32.0], [7.0; 3]];
        assert_eq!(aligned(&subject, &groups, "goodput"), expected);
        assert_eq!(values(&subject, &[same, high], "goodput").len(), 4, "equal repetitions fit all");
    }
}
