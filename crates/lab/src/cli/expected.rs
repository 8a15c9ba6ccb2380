//! Expected values beside measured ones, for `run` and `claims`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::output;
use crate::cell::{levels_json, levels_text};
use crate::claim::{Expectation, Fit};
use crate::experiment::{Compare, Expect, Tolerance};
use crate::report::reason;
use crate::report::scale::significant;
use crate::results::Results;

/// Reasons of one list of values that are printed. The report has each beside its value.
const MAX_REASONS: usize = 3;

/// Returns the text for readers: a heading for each list of expected values, and a line for each.
pub(super) fn table(expected: &[(&Expect, Expectation)], results: &Results) -> String {
    let mut text = String::new();
    let same = |one: &(&Expect, Expectation), two: &(&Expect, Expectation)| std::ptr::eq(one.0, two.0);
    for values in expected.chunk_by(same) {
        let Some((expect, _)) = values.first() else { continue };
        let inside = values.iter().filter(|(_, it)| it.fit == Fit::Inside).count();
        let rows: Vec<Vec<String>> = values.iter().map(|(_, it)| row(it)).collect();
        text.push_str(&heading(expect));
        text.push_str(&[": ", &inside.to_string(), " of ", &values.len().to_string(), " inside\n"].concat());
        text.push_str(&output::table(&rows));
        // Many values may have one reason.
        let told: BTreeSet<String> =
            values.iter().filter_map(|(expect, it)| reason(expect, it, results)).collect();
        text.extend(told.iter().take(MAX_REASONS).map(|reason| format!("    outside: {reason}\n")));
        let further = told.len().saturating_sub(MAX_REASONS);
        text.extend((further > 0).then(|| format!("    {further} further reasons are in the report\n")));
    }
    text
}

fn heading(expect: &Expect) -> String {
    let within = match expect.within {
        Tolerance::Share(share) => format!("{} %", short(share * 100.0)),
        Tolerance::Absolute(amount) => short(amount),
    };
    format!("{}{} of {}, within {within}", expect.of, compared(expect), expect.source)
}

/// Returns the cell to which ratios refer, for the end of a metric's name.
fn compared(expect: &Expect) -> String {
    let Compare::RatioTo(levels) = &expect.compare else { return String::new() };
    format!(" / that of {}", levels_text(&levels.0, ", "))
}

fn row(it: &Expectation) -> Vec<String> {
    let measured = match it.measured {
        None => "-".to_owned(),
        Some(value) if it.has_interval => {
            let [estimate, low, high] = [value.estimate, value.low, value.high].map(short);
            format!("{estimate} ({low} to {high})")
        }
        Some(value) => short(value.estimate),
    };
    let ratio = it.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("x {ratio:.3}"));
    let fit = match (it.fit, it.must) {
        (Fit::Outside, true) => "FAILS".to_owned(),
        (Fit::Outside, false) => "outside (note)".to_owned(),
        (Fit::Missing, true) => "NOT MEASURED".to_owned(),
        (fit, _) => fit.word().to_owned(),
    };
    vec![
        format!("  {}", levels_text(&it.levels.0, " ")),
        it.engine.to_string(),
        measured,
        format!("expected {}", short(it.expected)),
        ratio,
        fit,
    ]
}

/// Returns a number with four significant digits and, from 10,000 on, the prefix k, M or G.
fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    significant(scaled, 4) + prefix
}

/// Returns the JSON object of an expected value.
pub(super) fn line(experiment: &str, expect: &Expect, it: &Expectation, results: &Results) -> Value {
    let (within, is_share) = match expect.within {
        Tolerance::Share(share) => (share, true),
        Tolerance::Absolute(amount) => (amount, false),
    };
    let interval = it.measured.filter(|_| it.has_interval).map(|value| json!([value.low, value.high]));
    let compared = compared(expect);
    let unit = if compared.is_empty() { output::unit_suffix(&expect.of) } else { "" };
    let unit_within = if is_share { "" } else { unit };
    json!({
        "experiment": experiment,
        "expected_by": expect.source,
        "of": format!("{}{compared}", expect.of),
        "levels": levels_json(&it.levels.0),
        "engine": it.engine.word(),
        format!("expected{unit}"): it.expected,
        format!("measured{unit}"): it.measured.map(|value| value.estimate),
        format!("interval_95{unit}"): interval,
        "published": expect.values.iter().find(|value| value.levels == it.levels).map(|it| &it.text),
        "reason": reason(expect, it, results),
        "ratio": it.ratio(),
        format!("within{unit_within}"): within,
        "within_is_share": is_share,
        "fit": it.fit.word(),
        "must": it.must,
        "repetitions": it.repetitions,
    })
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_have_four_significant_digits() {
        let values = [0.0, 0.000_353, 0.936, 1.136, 12.345, 5_620_000.0, 94_150_000.0, 23_104.0];
        assert_eq!(
            values.map(short),
            ["0", "0.000353", "0.936", "1.136", "12.35", "5.62 M", "94.15 M", "23.1 k"].map(str::to_owned)
        );
    }
}
