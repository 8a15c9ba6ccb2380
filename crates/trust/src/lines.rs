//! Lines of a file, cut into words.

use std::path::Path;

use zeroize::Zeroizing;

use crate::{FileError, LineError};

/// Calls a function with each line that is neither empty nor a comment, cut into words.
pub(crate) fn for_each_line(
    path: &Path,
    text: &str,
    mut f: impl FnMut(usize, &[&str]) -> Result<(), LineError>,
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

/// Returns the one line of a file that has a single value.
pub(crate) fn only_line(
    path: &Path,
    text: &str,
    expected: &'static str,
) -> Result<(usize, Vec<Zeroizing<String>>), FileError> {
    let mut found = None;
    for_each_line(path, text, |line, words| {
        if found.is_some() {
            return Err(LineError::Fields { expected: "nothing after the first line" });
        }
        found = Some((line, words.iter().map(|&word| Zeroizing::new(word.to_owned())).collect()));
        Ok(())
    })?;
    found.ok_or_else(|| FileError::Line {
        path: path.to_owned(),
        line: text.lines().count().max(1),
        reason: LineError::Fields { expected },
    })
}
