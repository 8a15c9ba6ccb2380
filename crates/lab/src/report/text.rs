//! The report as text for terminals: sentences first, then means with bars and series as sparks.

use super::html::Report;
use super::scale::significant;
use super::scene::{Mark, Origin, Scene};
use super::section::{Section, Tally, measured};
use crate::claim::Verdict;

/// Width of a bar in letters.
const BAR: usize = 30;
/// Width of a series in letters.
const SPARK: usize = 60;

/// Returns the four sentences of a first contact: what ran, what was found, what does not hold,
/// where the report is.
pub fn sentences(sections: &[Section], place: &str) -> String {
    let names: Vec<&str> = sections.iter().map(|section| section.name.as_str()).collect();
    let ran: Vec<&str> =
        sections.iter().filter_map(|section| section.run.first()).map(String::as_str).collect();
    let what = match &names[..] {
        [name] => format!("Ran {name}: {}.", sections[0].title),
        names => format!("Ran {} experiments: {}.", names.len(), names.join(", ")),
    };
    let ran = if let [one] = &ran[..] { format!(" {one}") } else { String::new() };
    let mut out = format!("{what}{ran}\nFound: {}.\n", Tally::of(sections).line());
    let bad = sections.iter().flat_map(|section| &section.judgements);
    let bad: Vec<String> = bad
        .filter(|it| it.verdict != Verdict::Holds)
        .map(|it| format!("{} ({}: {})", it.says, it.verdict, measured(it)))
        .collect();
    let statements = sections.iter().flat_map(|section| &section.statements);
    let wrong: Vec<String> =
        statements.map(|it| format!("\"{}\" (so it is: {})", it.says, it.so)).take(3).collect();
    match (&bad[..], &wrong[..]) {
        ([], []) => out.push_str("Nothing that was claimed fails.\n"),
        ([], wrong) => put!(out, "Does not hold as the source says it: {}.\n", wrong.join("; ")),
        (bad, _) => put!(out, "Does not hold: {}.\n", bad[..bad.len().min(3)].join("; ")),
    }
    put!(out, "The report is {place}.\n");
    out
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
            let half = row.high.map_or_else(String::new, |high| {
                format!(" \u{b1} {}", significant((high - row.y) * panel.y.factor, 2))
            });
            let bar = bar(row.y.abs() / largest);
            put!(out, "  {:width$}  {bar} {value}{half}\n", name(layer, row.x));
        }
    }
    for layer in panel.layers.iter().filter(shown).filter(|layer| layer.mark == Mark::Line) {
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
    use super::super::samples;
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
        let section = Section { name: "000-A".to_owned(), title: "SACK".to_owned(), ..Section::default() };
        let text = sentences(&[section], "results/report.html");
        assert_eq!(text.lines().count(), 4);
        assert!(text.starts_with("Ran 000-A: SACK.\nFound: 0 claims hold"), "{text}");
        assert!(text.ends_with("The report is results/report.html.\n"));
    }
}
