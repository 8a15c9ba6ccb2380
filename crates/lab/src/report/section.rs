//! Content of the report: what the page and the text for terminals show of each experiment.

use crate::claim::{Judgement, Verdict};
use crate::experiment::Statement;

use super::scene::Scene;

/// Entry of a table of the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// Text for readers.
    pub text: String,
    /// Number by which the page sorts, in base units, or in the unit of the column's heading.
    pub value: Option<f64>,
    /// How the entry is marked.
    pub mark: Mark,
}

/// Marking of an entry. It is shown by a sign and by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// The entry is not marked.
    #[default]
    None,
    /// The result is as expected.
    Good,
    /// The result is not as expected.
    Bad,
    /// The result is undecided, or a difference that is no failure.
    Open,
}

impl Entry {
    /// Creates an entry of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates an entry of a number with its text.
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value), mark: Mark::None }
    }
}

/// Table of the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Caption.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows, each with as many entries as `head`.
    pub rows: Vec<Vec<Entry>>,
}

/// Experiment in the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// Name of the experiment.
    pub name: String,
    /// Title.
    pub title: String,
    /// Origin of the experiment.
    pub source: Option<String>,
    /// Prose: what was done, what was published, what theory says of it. Blank lines separate
    /// paragraphs.
    pub about: Option<String>,
    /// Statements of the source that do not hold.
    pub statements: Vec<Statement>,
    /// Claims with their verdicts.
    pub judgements: Vec<Judgement>,
    /// Predicates of the claims, by the claims' short names.
    pub predicates: Vec<(String, String)>,
    /// Number of expected values that must be met and are not.
    pub unmet: usize,
    /// Means of the cells, and measured beside published values.
    pub results: Vec<Table>,
    /// Figures.
    pub figures: Vec<Scene>,
    /// Sentences about what limits the flows, such as a window.
    pub limits: Vec<String>,
    /// Lost packets by place and cause.
    pub losses: Option<Table>,
    /// Models drawn in, with source and range.
    pub models: Option<Table>,
    /// Sentences about what was run: repetitions, warm-up, randomness, failed repetitions.
    pub run: Vec<String>,
    /// Numbers of cells and of repetitions.
    pub counts: (usize, usize),
    /// Command that makes these results again.
    pub command: String,
    /// Text of the experiment's file. Empty for a capture.
    pub toml: String,
    /// Versions of programs and names of hosts.
    pub versions: Vec<String>,
    /// Cells as CSV: identity, levels, first seed, and a digest of their results.
    pub cells: String,
    /// Repetitions as CSV: seed, hash, status, metrics.
    pub raw: String,
}

/// Number of claims with each verdict, and number of statements that do not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Claims that hold.
    pub holds: usize,
    /// Claims that fail.
    pub fails: usize,
    /// Claims that the measurements do not decide.
    pub undecided: usize,
    /// Claims without measurements.
    pub missing: usize,
    /// Expected values that must be met and are not.
    pub unmet: usize,
    /// Statements of sources that do not hold.
    pub statements: usize,
}

impl Tally {
    /// Counts the claims and statements of sections.
    pub fn of<'a>(sections: impl IntoIterator<Item = &'a Section>) -> Self {
        let mut tally = Self::default();
        for section in sections {
            tally.statements += section.statements.len();
            tally.unmet += section.unmet;
            for judgement in &section.judgements {
                *match judgement.verdict {
                    Verdict::Holds => &mut tally.holds,
                    Verdict::Fails => &mut tally.fails,
                    Verdict::Undecided { .. } => &mut tally.undecided,
                    Verdict::Missing => &mut tally.missing,
                } += 1;
            }
        }
        tally
    }

    /// Returns the line of verdicts: `14 claims hold, 1 undecided, 0 fail; 4 statements of the
    /// source do not hold`.
    pub fn line(&self) -> String {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let singular = |count: usize| if count == 1 { "s" } else { "" };
        let mut line = format!(
            "{} claim{} hold{}, {} undecided, {} fail{}",
            self.holds,
            plural(self.holds),
            singular(self.holds),
            self.undecided,
            self.fails,
            singular(self.fails),
        );
        if self.missing > 0 {
            put!(line, ", {} not measured", self.missing);
        }
        if self.unmet > 0 {
            put!(line, ", {} expected value{} not met", self.unmet, plural(self.unmet));
        }
        if self.statements > 0 {
            let (many, verb) = (plural(self.statements), if self.statements == 1 { "does" } else { "do" });
            put!(line, "; {} statement{many} of the source {verb} not hold", self.statements);
        }
        line
    }
}

/// Returns what a claim's two sides have for readers: `ratio 1.437 (1.402 to 1.473), 20 runs`. The
/// ratio is left side / right side.
pub fn measured(judgement: &Judgement) -> String {
    let Some(estimate) = judgement.estimate else {
        return judgement.reason.clone().unwrap_or_default();
    };
    let number = |value| super::scale::significant(value, 4);
    let word = if judgement.is_ratio { "ratio" } else { "difference" };
    let runs = judgement.repetitions;
    if judgement.nothing_random {
        return format!("{word} {}, exact: all repetitions are equal", number(estimate.estimate));
    }
    format!(
        "{word} {} ({} to {}), {runs} runs",
        number(estimate.estimate),
        number(estimate.low),
        number(estimate.high)
    )
}

/// Returns the interval of a claim if its repetitions were not compared in pairs, and the ratio of
/// the variances. Empty if there are no pairs.
pub fn pairing(judgement: &Judgement) -> String {
    let (Some(gain), Some(it)) = (judgement.pairing, judgement.estimate) else { return String::new() };
    // The half-width grows with the root of the variance, on the scale of the comparison.
    let scale: fn(f64) -> f64 = if judgement.is_ratio { f64::ln } else { |value| value };
    let back: fn(f64) -> f64 = if judgement.is_ratio { f64::exp } else { |value| value };
    let wider = |end: f64| back(scale(it.estimate) + (scale(end) - scale(it.estimate)) / gain.sqrt());
    let number = |value| super::scale::significant(value, 4);
    let (low, high) = (number(wider(it.low)), number(wider(it.high)));
    format!("{low} to {high}, {} times the variance", super::scale::significant(1.0 / gain, 2))
}

/// Returns a sentence about `gains`: the variance of paired differences as a share of that of
/// unpaired ones, one for each comparison. `None` without comparisons.
pub fn pairing_gained(gains: &[f64]) -> Option<String> {
    let mut sorted = gains.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = crate::statistics::quantile(&sorted, 0.5)?;
    let number = |value: f64| super::scale::significant(value, 2);
    let (least, most) = (number(*sorted.first()?), number(*sorted.last()?));
    let share = if sorted.len() == 1 {
        format!("{least} times")
    } else {
        format!("{least} to {most} times (median {})", number(median))
    };
    Some(format!(
        "Repetitions with equal seeds are compared in pairs. The variance of their differences is {share} that \
         without pairs, which would need {} times as many runs for the same interval.",
        number(1.0 / median.max(1e-9))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::EngineKind;
    use crate::statistics::Interval;

    fn judgement(verdict: Verdict) -> Judgement {
        Judgement {
            id: "c".to_owned(),
            says: "SACK helps".to_owned(),
            engine: EngineKind::Virtual,
            verdict,
            estimate: Some(Interval { estimate: 1.4371, low: 1.4, high: 1.5 }),
            is_ratio: true,
            p: Some(0.01),
            repetitions: 20,
            nothing_random: false,
            points: None,
            pairing: None,
            reason: None,
        }
    }

    #[test]
    fn verdict_line_counts_claims() {
        let verdicts = [Verdict::Holds, Verdict::Holds, Verdict::Undecided { needs: 40 }];
        let section = Section { judgements: verdicts.map(judgement).to_vec(), ..Section::default() };
        assert_eq!(Tally::of([&section]).line(), "2 claims hold, 1 undecided, 0 fail");
        let empty = Tally { missing: 2, statements: 1, ..Tally::default() };
        assert_eq!(
            empty.line(),
            "0 claims hold, 0 undecided, 0 fail, 2 not measured; 1 statement of the source does not hold"
        );
    }

    #[test]
    fn pairing_widens_interval_by_root_of_variance() {
        let mut it = judgement(Verdict::Holds);
        assert_eq!(pairing(&it), "");
        it.is_ratio = false;
        it.estimate = Some(Interval { estimate: 2.0, low: 1.0, high: 3.0 });
        it.pairing = Some(0.25);
        assert_eq!(pairing(&it), "0 to 4, 4 times the variance");
        let told = pairing_gained(&[0.5, 0.02, 0.9]).expect("three comparisons");
        assert!(
            told.contains("0.02 to 0.9 times (median 0.5)") && told.contains("2 times as many"),
            "{told}"
        );
        assert_eq!(pairing_gained(&[]), None);
    }

    #[test]
    fn estimates_have_their_interval() {
        assert_eq!(measured(&judgement(Verdict::Holds)), "ratio 1.437 (1.4 to 1.5), 20 runs");
    }
}
