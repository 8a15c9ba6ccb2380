//! Levels as readers see them.

use crate::cell::Cell;

/// Returns the levels of a cell for readers: `sack on, rate 8mbit`.
pub(super) fn levels(cell: &Cell) -> String {
    if cell.factors.is_empty() { "all".to_owned() } else { words(&cell.factors) }
}

/// Returns levels as words: `sack on, rate 8mbit`.
pub(super) fn words<'a>(levels: impl IntoIterator<Item = &'a (String, String)>) -> String {
    let words = levels.into_iter().map(|(factor, level)| format!("{factor} {level}"));
    words.collect::<Vec<_>>().join(", ")
}
