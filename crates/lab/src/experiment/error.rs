//! Errors in an experiment file, with their place, and the nearest word for a misspelt one.

use std::fmt;

use toml::Spanned;

/// Line and column in an experiment file, both from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// Returns the place of byte `offset` of a text.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }

    /// Returns the place of the first byte of a value.
    pub(super) fn start<T>(text: &str, value: &Spanned<T>) -> Self {
        Self::of(text, value.span().start)
    }

    /// Returns an error at this place about `subject`, a word with its table; empty for the file.
    pub(super) fn error(self, subject: &str, message: impl fmt::Display) -> ExperimentError {
        let separator = if subject.is_empty() { "" } else { ": " };
        ExperimentError { place: self, message: format!("{subject}{separator}{message}") }
    }

    /// Returns an error at this place whose message has no subject.
    pub(super) fn because(self, message: impl fmt::Display) -> ExperimentError {
        self.error("", message)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// An error in an experiment file. Its text is a sentence that begins with line and column.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ExperimentError {
    /// Line and column of the wrong word or value.
    pub place: Place,
    /// The word with its table, and what is wrong with it.
    pub message: String,
}

/// Returns the end of a sentence about an unknown word: the nearest known word, or all of them.
pub(crate) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let lower = word.to_ascii_lowercase();
    let nearest = known.iter().map(|name| (strsim::osa_distance(&lower, name), *name)).min();
    match nearest {
        // Up to a third of the letters may differ, but at least two.
        Some((distance, name)) if distance <= (name.len() / 3).max(2) => format!("did you mean '{name}'?"),
        _ => format!("known are {}", known.join(", ")),
    }
}
