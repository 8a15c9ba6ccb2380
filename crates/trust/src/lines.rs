//! Lines of a file, cut into words.

use std::fs::OpenOptions;
use std::path::Path;

use crate::files::{self, Forbid};
use crate::{FileError, LineError};

/// Calls a function with each line that is neither empty nor a comment, cut into words.
pub(crate) fn for_each_line<'a>(
    path: &Path,
    text: &'a str,
    mut f: impl FnMut(usize, &[&'a str]) -> Result<(), LineError>,
) -> Result<(), FileError> {
    for (i, line) in text.lines().enumerate() {
        let words: Vec<_> = line.split_whitespace().collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        f(i + 1, &words).map_err(|reason| FileError::Line { path: path.to_owned(), line: i + 1, reason })?;
    }
    Ok(())
}

/// Reads a file with a secret, whose only line `parse` reads. `expected` describes the line.
pub(crate) fn read_only_line<T>(
    path: &Path,
    expected: &'static str,
    parse: impl FnOnce(&[&str]) -> Result<T, LineError>,
) -> Result<T, FileError> {
    let mut file = files::open(path, OpenOptions::new().read(true), Forbid::All)?;
    let text = files::read(path, &mut file)?;
    let mut found = None;
    for_each_line(path, &text, |line, words| {
        if found.replace((line, words.to_vec())).is_some() {
            return Err(LineError::Fields("nothing after the first line"));
        }
        Ok(())
    })?;
    let (line, result) = match found {
        Some((line, words)) => (line, parse(&words)),
        None => (text.lines().count().max(1), Err(LineError::Fields(expected))),
    };
    result.map_err(|reason| FileError::Line { path: path.to_owned(), line, reason })
}
