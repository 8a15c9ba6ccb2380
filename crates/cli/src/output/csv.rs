//! Table of `rdt-send --csv`: a row for each event `interval`, with its keys as columns.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rdt_program::files::create_private;
use serde_json::Value;

use crate::Failure;

const COLUMNS: [&str; 9] = [
    "time_ns",
    "elapsed_ns",
    "base_packets",
    "next_packets",
    "timeouts",
    "fast_retransmits",
    "window_packets",
    "rate_bps",
    "srtt_ns",
];

pub(crate) struct CsvFile {
    path: PathBuf,
    file: File,
    /// First failed write, after which nothing is written.
    error: Option<io::Error>,
}

impl CsvFile {
    /// Creates the file, or replaces it with `force`, and writes the names of the columns.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self, Failure> {
        let file = create_private(path, force).map_err(|error| Failure::output(path, error))?;
        let mut csv = Self { path: path.to_owned(), file, error: None };
        csv.line(&COLUMNS.join(","));
        Ok(csv)
    }

    /// Writes the row of an event. Unknown values are empty.
    pub(crate) fn row(&mut self, event: &Value) {
        let field = |key: &&str| match &event[*key] {
            Value::Null => String::new(),
            number => number.to_string(),
        };
        self.line(&COLUMNS.iter().map(field).collect::<Vec<_>>().join(","));
    }

    /// Returns the first failed write as the failure of the program.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.error.map_or(Ok(()), |error| Err(Failure::output(&self.path, error)))
    }

    fn line(&mut self, line: &str) {
        if self.error.is_none() {
            self.error = writeln!(self.file, "{line}").err();
        }
    }
}
