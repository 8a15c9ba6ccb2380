//! Series of one repetition: a gzip file of JSON lines. The first line has the width of the bins,
//! each further line a column of values or the times of one kind of event.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{SERIES_FOLDER, write_whole};
use crate::cell::CellId;
use crate::record::Series;

/// Level of compression: above it, files shrink by few percent and take several times as long.
const DEFLATE_LEVEL: u32 = 6;
/// Longest line that is read, bytes: a column of an hour in bins of 1 ms has some 40 MB.
const MAX_LINE_BYTES: u64 = 1 << 30;
/// Parts of lines around the name of a column or event.
const COLUMN: &str = "{\"column\":";
const VALUES: &str = ",\"values\":";
const EVENT: &str = "{\"event\":";
const TIMES: &str = ",\"times_s\":";

fn path(results: &Path, cell: CellId, rep: u32) -> PathBuf {
    results.join(SERIES_FOLDER).join(format!("{cell}-{rep}.ndjson.gz"))
}

/// Writes the series of a repetition. The file appears whole or not at all.
pub fn write_series(results: &Path, cell: CellId, rep: u32, series: &Series) -> io::Result<()> {
    fs::create_dir_all(results.join(SERIES_FOLDER))?;
    write_whole(&path(results, cell, rep), |file| write(file, series))
}

/// Writes a file line by line, because the text of all columns may be large.
fn write(path: &Path, series: &Series) -> io::Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut gzip = GzEncoder::new(file, Compression::new(DEFLATE_LEVEL));
    writeln!(gzip, "{}", json!({ "bin_s": series.bin_s }))?;
    for (name, values) in &series.columns {
        let (name, values) = (serde_json::to_string(name)?, serde_json::to_string(values)?);
        writeln!(gzip, "{COLUMN}{name}{VALUES}{values}}}")?;
    }
    for (name, times) in &series.events {
        let (name, times) = (serde_json::to_string(name)?, serde_json::to_string(times)?);
        writeln!(gzip, "{EVENT}{name}{TIMES}{times}}}")?;
    }
    gzip.finish()?.into_inner()?.sync_data()
}

/// Copies the series of a repetition from one folder of results to another, if there is one.
pub fn copy_series(from: &Path, to: &Path, cell: CellId, rep: u32) -> io::Result<()> {
    let (from, to) = (path(from, cell, rep), path(to, cell, rep));
    if from == to || !from.exists() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map(|_| ())
}

/// Reads the series of a repetition. `None` if there is no file of them.
///
/// # Errors
/// The file cannot be read, or its content is not that of a series.
pub fn read_series(results: &Path, cell: CellId, rep: u32) -> io::Result<Option<Series>> {
    read_columns(results, cell, rep, |_| true)
}

/// Reads the columns that `wants` accepts, and all events, of the series of a repetition. `None` if
/// it has none.
///
/// # Errors
/// As [`read_series`].
pub fn read_columns(
    results: &Path,
    cell: CellId,
    rep: u32,
    wants: impl Fn(&str) -> bool,
) -> io::Result<Option<Series>> {
    let bytes = match fs::read(path(results, cell, rep)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let mut series = Series::default();
    let whole = for_lines(&bytes, |line| add_line(line, &wants, &mut series));
    whole
        .map(|()| Some(series))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file of a series is damaged"))
}

/// Adds the content of a line. `None` if it is not one of a series.
fn add_line(line: &str, wants: &impl Fn(&str) -> bool, series: &mut Series) -> Option<()> {
    if let Some(rest) = line.strip_prefix(COLUMN) {
        let (name, values) = rest.strip_suffix('}')?.split_once(VALUES)?;
        let name: String = serde_json::from_str(name).ok()?;
        if wants(&name) {
            series.columns.insert(name, serde_json::from_str(values).ok()?);
        }
    } else if let Some(rest) = line.strip_prefix(EVENT) {
        let (name, times) = rest.strip_suffix('}')?.split_once(TIMES)?;
        series.events.insert(serde_json::from_str(name).ok()?, serde_json::from_str(times).ok()?);
    } else {
        series.bin_s = serde_json::from_str::<Value>(line).ok()?.get("bin_s")?.as_f64()?;
    }
    Some(())
}

/// Passes each line of a gzip file to `take`. `None` if the file is damaged, or `take` returns it.
fn for_lines(file: &[u8], mut take: impl FnMut(&str) -> Option<()>) -> Option<()> {
    let mut lines = BufReader::new(GzDecoder::new(file));
    let mut line = Vec::new();
    while lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).ok()? > 0 {
        take(std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?)?;
        line.clear();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn long_columns_read_back_equal() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // More than a step of the compressor, before and after compression.
        let value = |n: u32| (!n.is_multiple_of(7)).then(|| f64::from(n.wrapping_mul(2_654_435_761)) / 3.0);
        let column = |first: u32| (first..first + 100_000).map(value).collect::<Vec<_>>();
        let columns = (0..3).map(|n| (format!("a.{n}"), column(n))).collect();
        let series = Series { bin_s: 0.001, columns, events: BTreeMap::new() };
        write_series(folder.path(), CellId([1; 16]), 3, &series).expect("a written series");
        assert!(read_series(folder.path(), CellId([1; 16]), 3).expect("a series") == Some(series));
    }

    #[test]
    fn series_read_back_equal_and_damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let columns = [("a.goodput".to_owned(), vec![Some(0.1), None, Some(3.0)])].into();
        let events = [("a.timeout".to_owned(), vec![0.25])].into();
        let series = Series { bin_s: 0.025, columns, events };
        let cell = CellId([7; 16]);
        assert_eq!(read_series(folder.path(), cell, 0).expect("no error"), None);
        write_series(folder.path(), cell, 0, &series).expect("a written series");
        assert_eq!(read_series(folder.path(), cell, 0).expect("a series"), Some(series.clone()));
        let events = read_columns(folder.path(), cell, 0, |name| name != "a.goodput").expect("a series");
        assert_eq!(events, Some(Series { columns: BTreeMap::new(), ..series }));
        let file = path(folder.path(), cell, 0);
        let mut bytes = fs::read(&file).expect("the file");
        let middle = bytes.len() - 6;
        bytes[middle] ^= 1;
        fs::write(&file, bytes).expect("a written file");
        assert!(read_series(folder.path(), cell, 0).is_err());
    }
}
