//! One row for each repetition, for other programs: `rdt-lab export --rows` and `--parquet`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use rdt_program::json::{seed, versioned};
use serde_json::{Value as Json, json};

use super::failure::Failure;
use super::folder::of_folder;
use super::load::all_results;
use super::output;
use crate::cell::levels_json;
use crate::record::Record;
use crate::report::export;

/// Format of rows. The option explains its values, so they have no help of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    Csv,
    Ndjson,
}

/// Prints the repetitions of folders.
pub(super) fn print(given: &[PathBuf], form: Form) -> Result<u8, Failure> {
    let records = records(given)?;
    let text = match form {
        Form::Csv => csv(&records),
        Form::Ndjson => records.iter().map(|record| object(record).to_string() + "\n").collect(),
    };
    output::text(&text)?;
    Ok(0)
}

/// Returns the repetitions of folders by cell and number. Wall times and hosts are no columns, so
/// equal results give equal bytes.
pub(super) fn records(given: &[PathBuf]) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::new();
    for folder in all_results(given)? {
        let (_, results) = of_folder(&folder)?;
        let mut cells = BTreeSet::new();
        for cell in results.cells.iter().filter(|cell| cells.insert(cell.id)) {
            let of_cell = results.of_cell(cell.id);
            records.extend(of_cell.map(|record| Record { factors: cell.factors.clone(), ..record.clone() }));
        }
    }
    Ok(records)
}

fn object(record: &Record) -> Json {
    let metrics: serde_json::Map<String, Json> = record
        .metrics
        .iter()
        .map(|(name, value)| (name.clone() + output::unit_suffix(name), (*value).into()))
        .collect();
    let (status, reason) = record.status.words();
    versioned(json!({
        "experiment": record.experiment,
        "engine": record.engine.word(),
        "cell": record.cell.to_string(),
        "rep": record.rep,
        "seed": seed(record.seed),
        "block": record.block,
        "status": status,
        "reason": reason,
        "factors": levels_json(&record.factors),
        "metrics": metrics,
    }))
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Count,
    Number,
}

/// Value of a repetition in a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Count(u64),
    Number(f64),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => count.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// Value of a field of a record.
type Field = fn(&Record) -> Option<Value<'_>>;

/// Source of a column's values.
#[derive(Debug, Clone, Copy)]
enum Of<'a> {
    Field(Field),
    Factor(&'a str),
    Metric(&'a str),
}

/// Columns that every table has, and their order.
const FIXED: [(&str, Kind, Field); 7] = [
    ("experiment", Kind::Text, |it| Some(text(&it.experiment))),
    ("engine", Kind::Text, |it| Some(text(it.engine.word()))),
    ("cell", Kind::Text, |it| Some(Value::Text(it.cell.to_string().into()))),
    ("rep", Kind::Count, |it| Some(Value::Count(it.rep.into()))),
    ("seed", Kind::Count, |it| Some(Value::Count(it.seed))),
    ("block", Kind::Count, |it| Some(Value::Count(it.block?.into()))),
    ("status", Kind::Text, |it| Some(text(it.status.words().0))),
];

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

/// Column of the table of repetitions.
#[derive(Debug)]
pub(super) struct Column<'a> {
    /// Name, which for a metric ends with the unit.
    pub(super) name: String,
    /// Type of all values.
    pub(super) kind: Kind,
    of: Of<'a>,
}

impl Column<'_> {
    /// Returns the value of a repetition, or `None` if it has no such factor or metric.
    pub(super) fn value<'r>(&self, record: &'r Record) -> Option<Value<'r>> {
        match self.of {
            Of::Field(value) => value(record),
            Of::Metric(name) => record.metrics.get(name).copied().map(Value::Number),
            Of::Factor(name) => {
                let (_, level) = record.factors.iter().find(|(factor, _)| factor == name)?;
                let parsed = match self.kind {
                    Kind::Text => None,
                    Kind::Count => level.parse().ok().map(Value::Count),
                    Kind::Number => level.parse().ok().map(Value::Number),
                };
                Some(parsed.unwrap_or_else(|| text(level)))
            }
        }
    }
}

/// Returns the type of a factor: that of numbers only if all levels are numbers whose notation a
/// program would print too, so that no level changes.
fn kind(records: &[Record], factor: &str) -> Kind {
    let factors = records.iter().flat_map(|record| &record.factors);
    let levels: BTreeSet<&str> =
        factors.filter(|(name, _)| name == factor).map(|(_, level)| level.as_str()).collect();
    let is_count = |level: &&str| level.parse::<u64>().is_ok_and(|it| it.to_string() == **level);
    let is_number =
        |level: &&str| level.parse::<f64>().is_ok_and(|it| it.is_finite() && it.to_string() == **level);
    if levels.iter().all(is_count) {
        Kind::Count
    } else if levels.iter().all(is_number) {
        Kind::Number
    } else {
        Kind::Text
    }
}

/// Returns the columns of all repetitions: the fixed ones, the factors in the order of the
/// experiments, the metrics by name. A factor with the name of another column is `factor.NAME`.
pub(super) fn columns(records: &[Record]) -> Vec<Column<'_>> {
    let mut factors: Vec<&str> = Vec::new();
    for (name, _) in records.iter().flat_map(|record| &record.factors) {
        if !factors.contains(&name.as_str()) {
            factors.push(name);
        }
    }
    let metrics: BTreeSet<&str> =
        records.iter().flat_map(|record| record.metrics.keys()).map(String::as_str).collect();
    let metrics: Vec<Column<'_>> = metrics
        .into_iter()
        .map(|name| {
            let unit = output::unit_suffix(name);
            Column { name: format!("{name}{unit}"), kind: Kind::Number, of: Of::Metric(name) }
        })
        .collect();
    let mut columns: Vec<Column<'_>> =
        FIXED.map(|(name, kind, of)| Column { name: name.to_owned(), kind, of: Of::Field(of) }).into();
    for factor in factors {
        let taken = columns.iter().chain(&metrics).any(|column| column.name == factor);
        let name = if taken { format!("factor.{factor}") } else { factor.to_owned() };
        columns.push(Column { name, kind: kind(records, factor), of: Of::Factor(factor) });
    }
    columns.extend(metrics);
    columns
}

fn csv(records: &[Record]) -> String {
    let columns = columns(records);
    let header = columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    let row = |record: &Record| {
        let text = |column: &Column<'_>| column.value(record).map_or_else(String::new, |it| it.to_string());
        columns.iter().map(text).collect()
    };
    export::records(std::iter::once(header).chain(records.iter().map(row)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, EngineKind, Physics};

    fn record(factors: &[(&str, &str)], metric: &str) -> Record {
        let physics = Physics {
            engine: EngineKind::Virtual,
            duration: None,
            links: Vec::new(),
            flows: Vec::new(),
            engine_words: Vec::new(),
        };
        let factors = factors.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect();
        Record::of(&Cell::new(factors, physics), 0, metric, 0.5)
    }

    #[test]
    fn factors_have_types_that_keep_their_notation() {
        let records = [
            record(&[("window", "4"), ("gain", "2"), ("size", "10"), ("id", "1e3")], "jain"),
            record(&[("window", "16"), ("gain", "0.5"), ("size", "010"), ("scale", "inf")], "jain"),
        ];
        let columns = columns(&records);
        let kind = |name: &str| columns.iter().find(|column| column.name == name).map(|it| it.kind);
        for (name, expected) in [
            ("window", Kind::Count),
            ("gain", Kind::Number),
            ("size", Kind::Text),
            ("id", Kind::Text),
            ("scale", Kind::Text),
        ] {
            assert_eq!(kind(name), Some(expected), "{name}");
        }
        let gain = columns.iter().find(|column| column.name == "gain").expect("a column");
        let scale = columns.iter().find(|column| column.name == "scale").expect("a column");
        assert_eq!(gain.value(&records[0]), Some(Value::Number(2.0)));
        assert_eq!(scale.value(&records[0]), None);
    }

    #[test]
    fn equal_names_are_told_apart() {
        let records = [record(&[("seed", "x"), ("load", "y"), ("z", "1")], "load")];
        let names: Vec<String> = columns(&records).into_iter().map(|column| column.name).collect();
        assert_eq!(names[7..], ["factor.seed", "factor.load", "z", "load"]);
    }
}
