//! The report as text for terminals: sentences first, then means with bars and series as sparks.

use std::time::Duration;

use super::html::Report;
use super::scale::significant;
use super::scene::{Mark, Origin, Scene};
use super::section::{Section, Tally, measured};
use crate::claim::{Judgement, Verdict};
use crate::experiment::{Statement, StatementKind};

/// Width of a bar in letters.
const BAR: usize = 30;
/// Most claims that a sentence names.
const MAX_NAMED: usize = 3;
/// Width of a series in letters.
const SPARK: usize = 60;

/// Returns the four sentences at the end of a run: what ran, what was found, which statements of
/// the sources are wrong, where the report is.
pub fn sentences(sections: &[Section], took: Duration, place: &str) -> String {
    let (cells, runs) = sections.iter().fold((0, 0), |sum, it| (sum.0 + it.counts.0, sum.1 + it.counts.1));
    let what = match sections {
        [one] => format!("{}, \"{}\"", one.name, one.title),
        several => format!("{} experiments", several.len()),
    };
    let mut out = format!("Ran {what}: {cells} cells, {runs} repetitions, in {:.1} s.\n", took.as_secs_f64());
    put!(out, "{}\n", found(sections));
    put!(out, "{}\n", wrong(sections));
    put!(out, "All figures, tables and claims are on the page {place}, for a browser.\n");
    out
}

/// Returns the sentence about the claims: the one that fails, else the first one that holds.
fn found(sections: &[Section]) -> String {
    let all = || sections.iter().flat_map(|section| &section.judgements);
    let tally = Tally::of(sections);
    let bad = all().filter(|it| it.verdict != Verdict::Holds);
    let quoted = |it: &Judgement| format!("\"{}\" ({}: {})", it.says, it.verdict, measured(it));
    let bad: Vec<String> = bad.take(MAX_NAMED).map(quoted).collect();
    let count = all().count();
    let unmet =
        if tally.unmet > 0 { format!(", {} expected values not met", tally.unmet) } else { String::new() };
    match (count, all().next()) {
        (0, _) if sections.len() == 1 => format!("Found means{unmet}; the experiment makes no claims."),
        (0, _) => format!("Found means{unmet}; the experiments make no claims."),
        (_, Some(first)) if bad.is_empty() => format!(
            "Found that all {count} claims hold{unmet}; the first: \"{}\" ({}).",
            first.says,
            measured(first)
        ),
        _ => format!("Found that {} of {count} claims hold{unmet}; not: {}.", tally.holds, bad.join("; ")),
    }
}

/// Returns the sentence about the statements of the sources, of which errors come first.
fn wrong(sections: &[Section]) -> String {
    let mut statements: Vec<&Statement> = sections.iter().flat_map(|section| &section.statements).collect();
    statements.sort_by_key(|it| it.kind != StatementKind::Error);
    let Some(first) = statements.first() else {
        return "No statement of a source is known to be wrong here.".to_owned();
    };
    let so = first.so.trim_end_matches('.');
    let says = first.says.trim_end_matches('.');
    let more = match statements.len() - 1 {
        0 => String::new(),
        1 => "; 1 more is in the report".to_owned(),
        more => format!("; {more} more are in the report"),
    };
    let kind = if first.kind == StatementKind::Open { "Open" } else { "Wrong" };
    format!("{kind} in the source: \"{says}\"; in fact: {so}{more}.")
}

/// Returns the whole report as text.
pub fn text(report: &Report) -> String {
    let mut out = format!("{}\n{}\n", report.title, Tally::of(&report.sections).line());
    for section in &report.sections {
        put!(out, "\n{}: {}\n", section.name, section.title);
        for judgement in &section.judgements {
            let sign = match judgement.verdict {
                Verdict::Holds => '\u{2713}',
                Verdict::Fails => '\u{2717}',
                Verdict::Undecided { .. } | Verdict::Missing => '?',
            };
            put!(
                out,
                "  {sign} {}: {} ({}, {})\n",
                judgement.says,
                judgement.verdict,
                judgement.engine,
                measured(judgement)
            );
        }
        for scene in &section.figures {
            put!(out, "\n  {}\n{}", scene.title, figure(scene));
        }
        for sentence in section.limits.iter().chain(&section.run) {
            put!(out, "  {sentence}\n");
        }
    }
    out
}

/// Returns the first panel of a figure as text: measured means as bars, lines of many values as
/// sparks.
fn figure(scene: &Scene) -> String {
    let Some(panel) = scene.panels.first() else { return String::new() };
    let mut out = format!("  {}\n", panel.y.label);
    let shown = |layer: &&super::scene::Layer| scene.series[layer.series].origin != Origin::Theory;
    let means: Vec<_> =
        panel.layers.iter().filter(shown).filter(|layer| layer.mark == Mark::Points).collect();
    let largest = means.iter().flat_map(|layer| &layer.rows).map(|row| row.y.abs()).fold(0.0, f64::max);
    let name = |layer: &super::scene::Layer, x: f64| {
        let at = panel.x.ticks.iter().find(|tick| (tick.at - x).abs() < 1e-9).map(|tick| tick.label.clone());
        format!("{} {}", scene.series[layer.series].name, at.unwrap_or_else(|| panel.x.shown(x)))
    };
    let width =
        means.iter().flat_map(|layer| layer.rows.iter().map(|row| name(layer, row.x).chars().count()));
    let width = width.max().unwrap_or(0);
    for layer in &means {
        for row in &layer.rows {
            let value = significant(row.y * panel.y.factor, 4);
            let interval = row.interval_text(panel.y.factor);
            let bar = bar(row.y.abs() / largest);
            put!(out, "  {:width$}  {bar} {value}{interval}\n", name(layer, row.x));
        }
    }
    for layer in
        panel.layers.iter().filter(shown).filter(|layer| matches!(layer.mark, Mark::Line | Mark::Bins(_)))
    {
        if means.is_empty() && layer.rows.len() > 5 {
            let values: Vec<f64> = layer.rows.iter().map(|row| row.y).collect();
            put!(out, "  {}\n  {}\n", scene.series[layer.series].name, spark(&values));
        }
    }
    out
}

/// Returns a bar for a share of the largest value, in eighths of a letter.
fn bar(share: f64) -> String {
    let eighths =
        (0..BAR * 8).filter(|i| super::scale::number(*i) + 0.5 < share * super::scale::number(BAR * 8));
    let eighths = eighths.count();
    let part = ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    let mut bar = "\u{2588}".repeat(eighths / 8) + part[eighths % 8];
    bar.extend(std::iter::repeat_n(' ', BAR - bar.chars().count()));
    bar
}

/// Returns a line of eight heights: means of equal parts of a series. A part without values is
/// empty.
fn spark(values: &[f64]) -> String {
    const HEIGHTS: [char; 8] =
        ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    let mean = |part: &[f64]| {
        let finite: Vec<f64> = part.iter().copied().filter(|value| value.is_finite()).collect();
        crate::statistics::mean(&finite)
    };
    let means: Vec<Option<f64>> = values.chunks(values.len().div_ceil(SPARK).max(1)).map(mean).collect();
    let top = means.iter().flatten().copied().fold(0.0, f64::max);
    let letter = |mean: &Option<f64>| {
        let Some(mean) = mean else { return ' ' };
        let above = (1..8_u32).filter(|step| *mean * 8.0 >= top * f64::from(*step) && top > 0.0).count();
        HEIGHTS[above.min(7)]
    };
    means.iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests as samples;
    use super::*;

    #[test]
    fn bars_have_the_length_of_the_share() {
        assert_eq!(bar(1.0).chars().filter(|c| *c == '\u{2588}').count(), BAR);
        assert_eq!(bar(0.0).trim_end(), "");
        assert_eq!(bar(0.5).trim_end().chars().count(), BAR / 2);
        assert_eq!(spark(&[0.0, 4.0, f64::NAN, 8.0]), "\u{2581}\u{2585} \u{2588}");
    }

    #[test]
    fn figures_are_readable_as_text() {
        let text = figure(&samples::side_by_side());
        assert!(text.contains("newreno off") && text.contains("5.78 \u{b1} 0.08"), "{text}");
        for scene in samples::gallery() {
            assert!(figure(&scene).lines().all(|line| line.chars().count() < 110), "{}", scene.id);
        }
    }

    #[test]
    fn first_contact_has_four_sentences() {
        let statement = |kind, says: &str| Statement {
            number: 1,
            kind,
            at: "000-A".to_owned(),
            says: says.to_owned(),
            so: "The loss window is 1.".to_owned(),
            shows: Vec::new(),
        };
        let statements = vec![
            statement(StatementKind::Open, "The cause is not known."),
            statement(StatementKind::Error, "The window of 4 works after each loss."),
        ];
        let section = Section {
            name: "000-A".to_owned(),
            title: "SACK".to_owned(),
            counts: (4, 40),
            statements,
            ..Section::default()
        };
        let text = sentences(&[section], Duration::from_millis(9_840), "results/report.html");
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("Ran 000-A, \"SACK\": 4 cells, 40 repetitions, in 9.8 s.\n"), "{text}");
        let wrong = "Wrong in the source: \"The window of 4 works after each loss\"; \
                     in fact: The loss window is 1; 1 more is in the report.";
        assert!(text.contains(wrong), "{text}");
    }
}
