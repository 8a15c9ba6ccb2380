//! The standard output.

use std::io::{self, Write as _};

use rdt_program::json::versioned;
use rdt_program::standard::stdout;
use serde_json::Value;

use super::failure::Failure;
use crate::report::scale::Unit;

/// Prints a text. A closed pipe is no error, so that `rdt-lab list | head` succeeds.
pub(super) fn text(text: &str) -> Result<(), Failure> {
    match print(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Prints an object as one line of JSON, with the version of its schema. Its reader needs it whole,
/// so a closed pipe is an error.
pub(super) fn json(object: &Value) -> Result<(), Failure> {
    print(format!("{}\n", versioned(object.clone())).as_bytes()).map_err(Failure::Output)
}

pub(super) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Returns a table with aligned columns. The first row is the heading.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Returns the suffix of JSON keys for the unit of a metric: `_bps`, `_s`, `_bytes`, `_count` or
/// none.
pub(super) fn unit_suffix(metric: &str) -> &'static str {
    match Unit::of_metric(metric) {
        Unit::None | Unit::Share => "",
        Unit::Rate => "_bps",
        Unit::Time => "_s",
        Unit::Bytes => "_bytes",
        Unit::Count => "_count",
    }
}
