//! Series of one repetition: a gzip file of JSON lines. The first line has the width of the bins,
//! each further line a column of values or the times of one kind of event.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde_json::{Value, json};

use super::SERIES_FOLDER;
use crate::cell::CellId;
use crate::record::Series;

/// Level of compression: above it, files shrink by few percent and take several times as long.
const DEFLATE_LEVEL: u8 = 6;
/// Limit on the decompressed text of a file, bytes.
const MAX_TEXT_BYTES: usize = 1 << 30;
/// Header of a gzip file without name and time (RFC 1952): deflate, no flags, unknown system.
const GZIP_HEADER: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255];
/// Bytes after the compressed data: CRC-32 and length of the text.
const GZIP_TRAILER_BYTES: usize = 8;

fn path(results: &Path, cell: CellId, rep: u32) -> PathBuf {
    results.join(SERIES_FOLDER).join(format!("{cell}-{rep}.ndjson.gz"))
}

/// Writes the series of a repetition. The file appears whole or not at all.
pub fn write_series(results: &Path, cell: CellId, rep: u32, series: &Series) -> io::Result<()> {
    let path = path(results, cell, rep);
    fs::create_dir_all(results.join(SERIES_FOLDER))?;
    let mut text = json!({ "bin_s": series.bin_s }).to_string() + "\n";
    for (name, values) in &series.columns {
        text += &(json!({ "column": name, "values": values }).to_string() + "\n");
    }
    for (name, times) in &series.events {
        text += &(json!({ "event": name, "times_s": times }).to_string() + "\n");
    }
    let unfinished = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = File::create(&unfinished)?;
    let result = file.write_all(&gzip(text.as_bytes())).and_then(|()| file.sync_data());
    if let Err(error) = result.and_then(|()| fs::rename(&unfinished, &path)) {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    Ok(())
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
    let bytes = match fs::read(path(results, cell, rep)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let series = gunzip(&bytes).and_then(|bytes| parse(std::str::from_utf8(&bytes).ok()?));
    series
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file of series is damaged"))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = GZIP_HEADER.to_vec();
    file.extend(compress_to_vec(bytes, DEFLATE_LEVEL));
    file.extend(crc32fast::hash(bytes).to_le_bytes());
    #[allow(clippy::cast_possible_truncation, reason = "RFC 1952: the length modulo 2^32")]
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

fn gunzip(file: &[u8]) -> Option<Vec<u8>> {
    let compressed = file.strip_prefix(&GZIP_HEADER)?;
    let (compressed, trailer) =
        compressed.split_at_checked(compressed.len().checked_sub(GZIP_TRAILER_BYTES)?)?;
    let bytes = decompress_to_vec_with_limit(compressed, MAX_TEXT_BYTES).ok()?;
    (trailer[..4] == crc32fast::hash(&bytes).to_le_bytes()).then_some(bytes)
}

fn parse(text: &str) -> Option<Series> {
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    let mut series = Series { bin_s: lines.next()?.ok()?.get("bin_s")?.as_f64()?, ..Series::default() };
    for line in lines {
        let line = line.ok()?;
        if let Some(name) = line.get("column").and_then(Value::as_str) {
            let values = line.get("values")?.as_array()?.iter().map(Value::as_f64).collect();
            series.columns.insert(name.to_owned(), values);
        } else {
            let name = line.get("event")?.as_str()?;
            let times: Option<Vec<f64>> =
                line.get("times_s")?.as_array()?.iter().map(Value::as_f64).collect();
            series.events.insert(name.to_owned(), times?);
        }
    }
    Some(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_read_back_equal_and_damage_is_noticed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let columns = [("a.goodput".to_owned(), vec![Some(0.1), None, Some(3.0)])].into();
        let events = [("a.timeout".to_owned(), vec![0.25])].into();
        let series = Series { bin_s: 0.025, columns, events };
        let cell = CellId([7; 16]);
        assert_eq!(read_series(folder.path(), cell, 0).expect("no error"), None);
        write_series(folder.path(), cell, 0, &series).expect("a written series");
        assert_eq!(read_series(folder.path(), cell, 0).expect("a series"), Some(series));
        let file = path(folder.path(), cell, 0);
        let mut bytes = fs::read(&file).expect("the file");
        let middle = bytes.len() - 6;
        bytes[middle] ^= 1;
        fs::write(&file, bytes).expect("a written file");
        assert!(read_series(folder.path(), cell, 0).is_err());
    }
}
