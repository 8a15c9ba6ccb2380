//! `rdt-lab export --rows`: one row for each repetition, for other programs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::failure::Failure;
use super::load::all_results;
use super::output;
use super::verdicts::of_folder;
use crate::cell::levels_json;
use crate::record::Record;

/// Format of rows. The option explains its values, so they have no help of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Form {
    Csv,
    Ndjson,
}

/// Prints the repetitions of folders by cell and number. Wall times and hosts are left out, so
/// equal results give equal bytes.
pub(super) fn print(folders: &[PathBuf], form: Form) -> Result<u8, Failure> {
    let mut records = Vec::new();
    for folder in all_results(folders)? {
        let (_, results) = of_folder(&folder)?;
        let mut cells = BTreeSet::new();
        for cell in results.cells.iter().filter(|cell| cells.insert(cell.id)) {
            let reps = results.records.get(&cell.id).into_iter().flatten();
            records
                .extend(reps.map(|(_, record)| Record { factors: cell.factors.clone(), ..record.clone() }));
        }
    }
    let text = match form {
        Form::Csv => csv(&records),
        Form::Ndjson => records.iter().map(|record| object(record).to_string() + "\n").collect(),
    };
    output::text(&text)?;
    Ok(0)
}

fn object(record: &Record) -> Value {
    let metrics: serde_json::Map<String, Value> = record
        .metrics
        .iter()
        .map(|(name, value)| (name.clone() + output::unit_suffix(name), (*value).into()))
        .collect();
    let (status, reason) = record.status.words();
    json!({
        "experiment": record.experiment,
        "engine": record.engine.word(),
        "cell": record.cell.to_string(),
        "rep": record.rep,
        "seed": record.seed,
        "block": record.block,
        "status": status,
        "reason": reason,
        "factors": levels_json(&record.factors),
        "metrics": metrics,
    })
}

fn csv(records: &[Record]) -> String {
    let mut factors: Vec<&str> = Vec::new();
    for (name, _) in records.iter().flat_map(|record| &record.factors) {
        if !factors.contains(&name.as_str()) {
            factors.push(name);
        }
    }
    let metrics: BTreeSet<&str> =
        records.iter().flat_map(|record| record.metrics.keys()).map(String::as_str).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = ["experiment", "engine", "cell", "rep", "seed", "block", "status"];
    let heading = fixed.into_iter().chain(factors.iter().copied()).map(str::to_owned);
    let units = metrics.iter().map(|name| format!("{name}{}", output::unit_suffix(name)));
    write(&mut writer, heading.chain(units));
    for record in records {
        let level = |name: &&str| {
            let found = record.factors.iter().find(|(factor, _)| factor == name);
            found.map_or_else(String::new, |(_, level)| level.clone())
        };
        let metric = |name: &&str| record.metrics.get(*name).map_or_else(String::new, ToString::to_string);
        let fixed = [
            record.experiment.clone(),
            record.engine.word().to_owned(),
            record.cell.to_string(),
            record.rep.to_string(),
            record.seed.to_string(),
            record.block.map_or_else(String::new, |block| block.to_string()),
            record.status.words().0.to_owned(),
        ];
        write(
            &mut writer,
            fixed.into_iter().chain(factors.iter().map(level)).chain(metrics.iter().map(metric)),
        );
    }
    let bytes = writer.into_inner().expect("a vector accepts all rows");
    String::from_utf8(bytes).expect("all fields are texts")
}

fn write(writer: &mut csv::Writer<Vec<u8>>, fields: impl Iterator<Item = String>) {
    writer.write_record(fields).expect("a vector accepts all rows, which are equally long");
}
