//! Tables and sentences of the report.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::agreement::{Agreement, agreements, sentence};
use crate::cell::{Cell, EngineKind, hex};
use crate::claim::{Expectation, Fit, expectations, value_of};
use crate::experiment::{Compare, Expect, Experiment, FigureKind, Statement, Step, Tolerance, Until, WarmUp};
use crate::record::{Record, Status};
use crate::results::Results;
use crate::run::too_wide;
use crate::statistics::mean;
use crate::theory::model;

use super::super::scale::{Unit, significant};
use super::super::scene::Row;
use super::super::section::{Entry, Mark, Table};
use super::Subject;
use super::missing;
use super::reasons::reason;
use super::select::{mean_interval, mean_row, values};
use super::words::{InUnit, levels, words};

/// Rows of a table of cells. The journal has all cells.
const MAX_ROWS: usize = 128;
/// Sentences about the limits of flows.
const MAX_LIMITS: usize = 12;
/// Rows of the table of losses.
const MAX_LOSSES: usize = 32;
/// Repetitions in the page. The journal has all.
const MAX_RAW: usize = 400;

/// Returns the column of a metric: its heading, and an entry for each cell.
fn column(subject: &Subject<'_>, cells: &[Cell], metric: &str) -> (String, Vec<Entry>) {
    let rows: Vec<Option<Row>> = cells.iter().map(|cell| mean_row(subject, &[cell], metric, 0.0)).collect();
    let unit = InUnit::of(Unit::of_metric(metric), rows.iter().flatten().map(|row| row.y));
    let missing = |cell: &Cell| Entry::text(missing::in_place_of_mean(subject, cell, metric));
    let entry = |(cell, row): (&Cell, &Option<Row>)| {
        row.as_ref().map_or_else(|| missing(cell), |row| unit.entry(row))
    };
    (unit.heading(metric), cells.iter().zip(&rows).map(entry).collect())
}

/// Returns the metrics of the table of cells: those of figures and of expected values, else goodput
/// and completion time.
fn shown_metrics(subject: &Subject<'_>) -> Vec<String> {
    let tables = subject.experiment.figures.iter().filter(|figure| figure.kind == FigureKind::Table);
    let mut names: Vec<String> = tables.flat_map(|figure| figure.of.iter().cloned()).collect();
    if names.is_empty() {
        names.extend(subject.experiment.figures.iter().flat_map(|figure| figure.of.iter().cloned()));
        names.extend(subject.experiment.expects.iter().map(|expect| expect.of.clone()));
        names.extend(["goodput", "completion"].map(str::to_owned));
        if subject.experiment.flows.len() > 1 {
            names.extend(["sum", "jain"].map(str::to_owned));
        }
    }
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        let name = without_flow(subject, &name).to_owned();
        let is_there =
            |cell: &Cell| !values(subject, &[cell], &name).is_empty() || missing::is_of_outcome(cell, &name);
        if !kept.contains(&name) && subject.results.cells.iter().any(is_there) {
            kept.push(name);
        }
    }
    kept
}

/// Returns the name of a metric without that of its flow if all cells have only this flow: then
/// `goodput` is `a.goodput`.
fn without_flow<'a>(subject: &Subject<'_>, metric: &'a str) -> &'a str {
    let Some((flow, word)) = metric.split_once('.') else { return metric };
    let is_alone = |cell: &Cell| matches!(&cell.physics.flows[..], [only] if only.name == flow);
    if subject.results.cells.iter().all(is_alone) { word } else { metric }
}

/// Returns the tables of cells, of effects, of expected values, and of engines side by side.
pub(super) fn results(subject: &Subject<'_>) -> Vec<Table> {
    let metrics = shown_metrics(subject);
    let factors: Vec<&str> = subject.experiment.factors.iter().map(|factor| factor.name.as_str()).collect();
    let cells = &subject.results.cells[..];
    let shown = &cells[..cells.len().min(MAX_ROWS)];
    let (names, columns): (Vec<String>, Vec<Vec<Entry>>) =
        metrics.iter().map(|metric| column(subject, shown, metric)).unzip();
    let head = factors.iter().copied().chain(["engine", "n"]).map(str::to_owned).chain(names);
    let row = |(i, cell): (usize, &Cell)| {
        let level = |factor: &&str| Entry::text(cell.level(factor).unwrap_or(""));
        let runs = subject.results.valid_repetitions(cell.id).count();
        let n = if subject.results.is_one_run(cell.id) { 1 } else { runs };
        let mut row: Vec<Entry> = factors.iter().map(level).collect();
        row.push(Entry::text(cell.physics.engine.word()));
        row.push(Entry::number(n.to_string(), super::super::scale::number(n)));
        row.extend(columns.iter().map(|column| column[i].clone()));
        row
    };
    let rows: Vec<Vec<Entry>> = shown.iter().enumerate().map(row).collect();
    let has_interval = |row: &Vec<Entry>| row.iter().any(|entry| entry.text.contains('\u{b1}'));
    let mut caption = match rows.iter().filter(|row| has_interval(row)).count() {
        0 => "Means".to_owned(),
        some if some == rows.len() => "Means with 95 % intervals".to_owned(),
        _ => "Means, with 95 % intervals where n is at least 5".to_owned(),
    };
    if cells.len() > MAX_ROWS {
        put!(caption, ", the first {MAX_ROWS} of {} cells", cells.len());
    }
    let mut tables = vec![Table { caption, head: head.collect(), rows }];
    tables.extend(super::designs::tables(subject));
    tables.extend(subject.experiment.expects.iter().filter_map(|expect| expected(subject, expect)));
    tables.extend(side_by_side(subject));
    tables
}

/// Returns all expected values of an experiment, beside the measurements of each engine.
pub fn expected_values<'a>(experiment: &'a Experiment, results: &Results) -> Vec<(&'a Expect, Expectation)> {
    let measured = |expect: &'a Expect| {
        let of_engine = |engine| expectations(expect, results, engine);
        let all: Vec<_> = results.engines().into_iter().flat_map(of_engine).collect();
        all.into_iter().map(move |it| (expect, it))
    };
    experiment.expects.iter().flat_map(measured).collect()
}

/// Returns the statements of the source, with the values of expressions of metrics: `... = 1.001
/// (virtual)`.
pub(super) fn statements(subject: &Subject<'_>) -> Vec<Statement> {
    let values = |step: &Step| {
        let values = subject.results.engines().into_iter().filter_map(|engine| {
            let value = value_of(step.measured.as_ref()?, subject.results, engine)?;
            Some(format!("{} ({engine})", significant(value, 4)))
        });
        values.collect::<Vec<_>>().join(", ")
    };
    let evaluated = |step: &Step| match values(step) {
        values if values.is_empty() => step.clone(),
        values => Step { text: format!("{} = {values}", step.text), ..step.clone() },
    };
    let each = subject.experiment.statements.iter();
    each.map(|it| Statement { shows: it.shows.iter().map(evaluated).collect(), ..it.clone() }).collect()
}

/// Returns published beside measured values. `None` if none of them was measured.
fn expected(subject: &Subject<'_>, expect: &Expect) -> Option<Table> {
    let compared = match &expect.compare {
        Compare::Absolute => String::new(),
        Compare::RatioTo(levels) => format!(", as ratio to {}", words(&levels.0)),
    };
    let unit = if compared.is_empty() { Unit::of_metric(&expect.of) } else { Unit::None };
    let all = subject.results.engines();
    let all = all.into_iter().flat_map(|engine| expectations(expect, subject.results, engine));
    let all: Vec<Expectation> = all.collect();
    let reasons: Vec<Option<String>> = all.iter().map(|it| reason(expect, it, subject.results)).collect();
    let has_reason = reasons.iter().any(Option::is_some);
    let values = all.iter().flat_map(|it| [Some(it.expected), it.measured.map(|mean| mean.estimate)]);
    let shown = InUnit::of(unit, values.flatten());
    let row = |(it, reason): (&Expectation, Option<String>)| {
        let mut row = expected_row(expect, it, &shown);
        row.extend(has_reason.then(|| Entry::text(reason.unwrap_or_default())));
        row
    };
    let rows: Vec<Vec<Entry>> = all.iter().zip(reasons).map(row).collect();
    let within = match expect.within {
        Tolerance::Share(share) => format!("{} %", significant(share * 100.0, 3)),
        Tolerance::Absolute(amount) => unit.text(amount),
    };
    let why =
        expect.why.as_deref().map_or_else(String::new, |why| format!(". {}", why.trim_end_matches('.')));
    let [published, measured] = ["published", "measured"].map(|name| shown.heading(name));
    let head = ["cells", "engine", &published, &measured, "difference"].into_iter();
    let head = head.chain(has_reason.then_some("reason if outside"));
    (!rows.is_empty()).then(|| Table {
        caption: format!("{}{compared}. Published: {}. Tolerance {within}{why}", expect.of, expect.source),
        head: head.map(str::to_owned).collect(),
        rows,
    })
}

fn expected_row(expect: &Expect, it: &Expectation, unit: &InUnit) -> Vec<Entry> {
    let value = it.expected * unit.factor;
    // Beside a ratio stands the value that it was computed from.
    let is_from = |text: &str| expect.compare != Compare::Absolute && text.parse::<f64>().is_err();
    let from = expect.values.iter().find(|value| value.levels == it.levels && is_from(&value.text));
    let from = from.map_or_else(String::new, |value| format!(" ({})", value.text));
    let published = Entry::number(significant(value, 4) + &from, value);
    let measured = it.measured.map_or_else(Entry::default, |mean| {
        let ends = it.has_interval.then_some((mean.low, mean.high));
        let row = Row {
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
            ..Row::at(0.0, mean.estimate)
        };
        unit.entry(&row)
    });
    let mark = match it.fit {
        Fit::Inside => Mark::Good,
        Fit::Outside if it.must => Mark::Bad,
        Fit::Outside | Fit::Unclear | Fit::Missing => Mark::Open,
    };
    let text = match it.ratio() {
        Some(ratio) => {
            let sign = if ratio > 1.0 { "+" } else { "" };
            format!("{sign}{} %, {}", significant((ratio - 1.0) * 100.0, 3), it.fit.word())
        }
        None => it.fit.word().to_owned(),
    };
    let difference = Entry { text, value: it.ratio(), mark };
    vec![Entry::text(words(&it.levels.0)), Entry::text(it.engine.word()), published, measured, difference]
}

/// Returns the values of cells that both virtual time and the kernel have, with ratios. `None` if
/// there are none.
fn side_by_side(subject: &Subject<'_>) -> Option<Table> {
    let all = agreements(subject.results);
    let caption = format!("{}.", sentence(&all)?);
    let row = |it: &Agreement<'_>| {
        let [virtual_time, kernel] = it.means_text();
        let differs = if it.differs() { ", differs" } else { "" };
        vec![
            Entry::text(levels(it.cell)),
            Entry::text(&it.metric),
            Entry::number(virtual_time, it.virtual_time),
            Entry::number(kernel, it.kernel),
            Entry {
                text: it.ratio_text() + differs,
                value: Some(it.quotient()),
                mark: if it.differs() { Mark::Open } else { Mark::Good },
            },
        ]
    };
    let ratio = if all.iter().any(|it| it.ratio.is_some()) { "ratio (95 %)" } else { "ratio" };
    let head = ["cells", "metric", "virtual time", "kernel", ratio];
    let rows = all.iter().take(MAX_ROWS).map(row).collect();
    Some(Table { caption, head: head.map(str::to_owned).to_vec(), rows })
}

/// Returns sentences about the limits of the first flows.
pub(super) fn limits(subject: &Subject<'_>) -> Vec<String> {
    let all = super::limits::limits(subject);
    let mut sentences: Vec<String> = all.iter().take(MAX_LIMITS).map(super::Bound::sentence).collect();
    if all.len() > MAX_LIMITS {
        let more = all.len() - MAX_LIMITS;
        sentences.push(format!("The command 'rdt-lab limits' prints {more} more."));
    }
    sentences
}

/// Returns lost packets by place and cause. `None` if nothing was lost.
pub(super) fn losses(subject: &Subject<'_>) -> Option<Table> {
    let mut causes: BTreeSet<String> = BTreeSet::new();
    let mut rows: Vec<(String, BTreeMap<String, f64>)> = Vec::new();
    for cell in subject.results.cells.iter().take(MAX_LOSSES) {
        let names = subject.results.of_cell(cell.id).flat_map(|record| record.metrics.keys());
        let names = names.filter(|name| name.contains(".dropped-") || name.contains(".lost-"));
        // A repetition in which nothing was lost by a cause has no such metric.
        let packets = |name: &String| {
            let lost = |rep| subject.results.metric(cell, name, rep).unwrap_or(0.0);
            let all: Vec<f64> = subject.results.valid_repetitions(cell.id).map(lost).collect();
            mean(&all).filter(|it| *it > 0.0)
        };
        let names: BTreeSet<&String> = names.collect();
        let of_cell: BTreeMap<String, f64> =
            names.into_iter().filter_map(|name| Some((name.clone(), packets(name)?))).collect();
        causes.extend(of_cell.keys().cloned());
        rows.push((format!("{}, {}", levels(cell), cell.physics.engine), of_cell));
    }
    let row = |(name, of_cell): &(String, BTreeMap<String, f64>)| {
        let packets = |cause: &String| {
            let found = of_cell.get(cause).copied().unwrap_or(0.0);
            Entry::number(significant(found, 4), found)
        };
        std::iter::once(Entry::text(name)).chain(causes.iter().map(packets)).collect()
    };
    let head = std::iter::once("cells".to_owned()).chain(causes.iter().cloned()).collect();
    let mut caption = "Lost packets by place and cause, mean of a repetition".to_owned();
    let all = subject.results.cells.len();
    if all > MAX_LOSSES {
        put!(caption, ", the first {MAX_LOSSES} of {all} cells");
    }
    (!causes.is_empty()).then(|| Table { caption, head, rows: rows.iter().map(row).collect() })
}

/// Returns the models of the figures with formula, source and range. `None` without models.
pub(super) fn models(subject: &Subject<'_>) -> Option<Table> {
    let figures = super::obvious::figures(subject);
    let names: BTreeSet<&String> = figures.iter().flat_map(|it| &it.theory).collect();
    let row = |name: &String| {
        let model = model(name)?;
        let words = [model.legend, model.name, model.metric, model.formula, model.range, model.source];
        Some(words.map(Entry::text).to_vec())
    };
    let rows: Vec<Vec<Entry>> = names.into_iter().filter_map(row).collect();
    let head = ["model", "name in the file", "of", "formula", "range", "source"].map(str::to_owned).to_vec();
    let caption = "Models in the figures; outside of their range they are thin".to_owned();
    (!rows.is_empty()).then_some(Table { caption, head, rows })
}

fn records<'a>(subject: &Subject<'a>) -> impl Iterator<Item = (&'a Cell, &'a Record)> {
    let results = subject.results;
    let of_cell = |cell: &'a Cell| results.of_cell(cell.id).map(move |record| (cell, record));
    results.cells.iter().flat_map(of_cell)
}

/// Returns the number of cells, and that of their repetitions.
pub(super) fn counts(subject: &Subject<'_>) -> (usize, usize) {
    (subject.results.cells.len(), records(subject).count())
}

/// Returns sentences about the repetitions: how many and why, randomness, warm-up, failures.
pub(super) fn run(subject: &Subject<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    for engine in subject.results.engines() {
        let cells = subject.results.cells.iter().filter(|cell| cell.physics.engine == engine);
        let counts: Vec<usize> =
            cells.clone().map(|cell| subject.results.valid_repetitions(cell.id).count()).collect();
        let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
        let span = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let rule = rule(subject, engine);
        sentences
            .push(format!("Engine {engine}: {} cells, each with {span} repetitions ({rule}).", counts.len()));
        let (wider, all) = bootstrapped(subject, engine);
        if wider > 0 {
            sentences.push(format!(
                "{wider} of {all} means have the BCa bootstrap interval, because it is wider than Student's by \
                 more than a third."
            ));
        }
        sentences.extend(missing::sentences(subject, engine, &shown_metrics(subject)));
        let same = cells.filter(|cell| subject.results.is_one_run(cell.id)).count();
        if same > 0 {
            sentences.push(format!(
                "In {same} of these cells nothing is random: their repetitions are equal, count as one, and have \
                 no interval."
            ));
        }
    }
    sentences.extend(too_wide(&subject.experiment.repeats.until, subject.results).map(|it| it + "."));
    sentences.extend(subject.results.repeated().map(|it| capital(&it) + "."));
    let mut problems: BTreeMap<String, usize> = BTreeMap::new();
    for (_, record) in records(subject) {
        match &record.status {
            Status::Ok => {}
            Status::HostLimited => *problems.entry("the host was too slow".to_owned()).or_default() += 1,
            Status::Failed(reason) => *problems.entry(reason.clone()).or_default() += 1,
        }
    }
    let problems = problems.iter();
    sentences.extend(problems.map(|(reason, count)| format!("Repetitions left out: {count}, {reason}.")));
    sentences.push(warm_up(subject));
    sentences.extend(subject.results.not_stationary());
    sentences.extend(absent(subject));
    sentences
}

/// Returns a sentence with a capital letter at its start.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Returns when the repetitions of a cell end, for readers.
fn rule(subject: &Subject<'_>, engine: EngineKind) -> String {
    let repeats = &subject.experiment.repeats;
    let (least, most) = repeats.range(engine);
    let until = match &repeats.until {
        Until::Width { share, of } if least < most => {
            let share = significant(share * 100.0, 3);
            format!("until the half-width of the interval of {of} is at most {share} % of its mean")
        }
        Until::Claims if least < most => "until each claim is decided".to_owned(),
        _ => return "a fixed number".to_owned(),
    };
    format!("{least} to {most}, {until}")
}

/// Returns a sentence for each metric that a figure asks for and no result has.
fn absent(subject: &Subject<'_>) -> Vec<String> {
    let of_records = records(subject).flat_map(|(_, record)| record.metrics.keys());
    let known: BTreeSet<&str> = of_records.map(String::as_str).collect();
    let is_there = |name: &str| known.iter().any(|it| *it == name || it.ends_with(&format!(".{name}")));
    // Columns of series are not in memory.
    let figures = subject.experiment.figures.iter().filter(|figure| figure.kind != FigureKind::Series);
    let asked: BTreeSet<&String> = figures.flat_map(|figure| &figure.of).collect();
    let missing = asked.into_iter().filter(|name| !known.is_empty() && !is_there(name));
    missing.map(|name| format!("A figure lacks {name}, because no repetition has such a metric.")).collect()
}

/// Returns how many means of the table of cells have the interval of the bootstrap, of how many.
fn bootstrapped(subject: &Subject<'_>, engine: EngineKind) -> (usize, usize) {
    let metrics = shown_metrics(subject);
    let is_random = |cell: &&Cell| cell.physics.engine == engine && !subject.results.is_one_run(cell.id);
    let intervals = metrics.iter().flat_map(|metric| {
        let random = subject.results.cells.iter().filter(is_random);
        random.filter_map(move |cell| mean_interval(&values(subject, &[cell], metric)))
    });
    intervals.fold((0, 0), |(wider, all), (_, is_resampled)| (wider + usize::from(is_resampled), all + 1))
}

fn warm_up(subject: &Subject<'_>) -> String {
    let cut: Vec<f64> = records(subject)
        .flat_map(|(_, record)| record.metrics.iter().filter(|(name, _)| name.ends_with("warm-up")))
        .map(|(_, seconds)| *seconds)
        .collect();
    let rule = match subject.experiment.measure.warm_up {
        WarmUp::Auto => "the rule MSER-5".to_owned(),
        WarmUp::Time(time) if time.is_zero() => return "No warm-up was cut off.".to_owned(),
        WarmUp::Time(time) => format!("{} as the file says", Unit::Time.text(time.as_secs_f64())),
    };
    let Some(most) = cut.iter().copied().reduce(f64::max) else {
        return format!("Warm-up ({rule}): nothing was cut off.");
    };
    let mean = mean(&cut).unwrap_or(0.0);
    format!(
        "Warm-up ({rule}): {} cut off on average, {} at most.",
        Unit::Time.text(mean),
        Unit::Time.text(most)
    )
}

/// Returns the versions and hosts of the records.
pub(super) fn versions(subject: &Subject<'_>) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (_, record) in records(subject) {
        let text = format!("rdt-lab {}, physics {}, host {}", record.tool, record.physics, record.host);
        *seen.entry(text).or_default() += 1;
    }
    let mut sentences: Vec<String> =
        seen.iter().map(|(text, count)| format!("{text}: {count} repetitions.")).collect();
    let all = records(subject).count();
    if all > MAX_RAW {
        sentences
            .push(format!("The page has the first {MAX_RAW} of {all} repetitions. The journal has all."));
    }
    sentences
}

/// Returns the cells as CSV with identity, number of repetitions, and a digest of the event hashes.
pub(super) fn cells(subject: &Subject<'_>) -> String {
    let mut out = "cell,engine,levels,n,first_seed,digest\n".to_owned();
    for cell in &subject.results.cells {
        let mut digest = Sha256::new();
        let mut seeds = Vec::new();
        for record in subject.results.of_cell(cell.id) {
            digest.update(record.hash.unwrap_or(0).to_be_bytes());
            seeds.push(record.seed);
        }
        let hex = hex(&digest.finalize()[..8]);
        let levels = levels(cell).replace('"', "\"\"");
        let first = seeds.first().map_or_else(String::new, u64::to_string);
        put!(out, "{},{},\"{levels}\",{},{first},{hex}\n", cell.id, cell.physics.engine, seeds.len());
    }
    out
}

/// Returns the first repetitions as CSV.
pub(super) fn raw(subject: &Subject<'_>) -> String {
    let metrics = shown_metrics(subject);
    let mut out = format!("cell,engine,rep,seed,hash,status,{}\n", metrics.join(","));
    for (cell, record) in records(subject).take(MAX_RAW) {
        let hash = record.hash.map_or_else(String::new, |hash| format!("{hash:016x}"));
        let status = record.status.words().0;
        put!(out, "{},{},{},{},{hash},{status}", cell.id, record.engine, record.rep, record.seed);
        for metric in &metrics {
            let value = subject.results.metric(cell, metric, record.rep);
            put!(out, ",{}", value.map_or_else(String::new, |value| value.to_string()));
        }
        out.push('\n');
    }
    out
}
