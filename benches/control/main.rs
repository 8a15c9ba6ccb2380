//! Congestion control, loss recovery and flow control of native transfers in virtual time, each in
//! a table of its own: `cargo bench --bench control` (`-- losses` prints one table; names in
//! [`TABLES`]).
//!
//! Each row has its target and ends in `ok` or `MISSED`. Recorded tables: docs/measurements/.

#![allow(clippy::cast_precision_loss, reason = "figures are printed to three digits")]

mod acks;
mod bad_paths;
mod fairness;
mod long;
mod losses;
mod rules;
mod run;
mod waiting;

use std::env;

/// Functions that print the tables, by name.
const TABLES: &[(&str, fn())] = &[
    ("acks", acks::table),
    ("long", long::table),
    ("losses", losses::table),
    ("rules", rules::table),
    ("fairness", fairness::table),
    ("heavy", bad_paths::heavy),
    ("jitter", bad_paths::jitter),
    ("changes", bad_paths::changes),
    ("waiting", waiting::table),
];

fn main() {
    // Cargo adds options such as `--bench`.
    let wanted: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, table) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            table();
        }
    }
}

/// Returns the last cell of a row.
fn verdict(met: bool) -> &'static str {
    if met { "ok" } else { "MISSED" }
}
