//! Verdicts of an experiment, for `claims` and the end of `run`.

use serde_json::{Value, json};

use super::failure::{CLAIM_FAILS, Failure, INCOMPLETE, REPETITIONS_FAILED, UNDECIDED, gravest};
use super::load::Loaded;
use super::{expected, homework, output};
use crate::agreement::{self, Agreement, agreements};
use crate::cell::levels_json;
use crate::claim::{Expectation, Judgement, Verdict, judge};
use crate::experiment::Expect;
use crate::report::expected_values;
use crate::results::Results;

/// Detail in which the verdicts of an experiment are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The points of a homework alone.
    Points,
    /// The number of claims with each verdict, and the points.
    Line,
    /// Every verdict and expected value.
    All,
    /// The same as JSON, one object a line.
    Json,
}

/// Returns the exit code for repetitions that failed.
pub(super) fn code_of_repetitions(results: &Results) -> u8 {
    if results.unusable().0 > 0 { REPETITIONS_FAILED } else { 0 }
}

/// Prints the verdicts of an experiment, and returns the exit code. `summary` ends the line of
/// numbers.
pub(super) fn print(
    loaded: &Loaded,
    results: &Results,
    detail: Detail,
    strict: bool,
    summary: &str,
) -> Result<u8, Failure> {
    let judged = judged(loaded, results);
    let expected = expected_values(&loaded.experiment, results);
    let off = expected.iter().filter(|(_, it)| it.fails()).count();
    let unknown = expected.iter().filter(|(_, it)| it.is_missing()).count();
    let count = |wanted: fn(&Verdict) -> bool| judged.iter().filter(|it| wanted(&it.verdict)).count();
    let holds = count(|it| *it == Verdict::Holds);
    let fails = count(|it| *it == Verdict::Fails);
    let unmeasured = count(|it| *it == Verdict::Missing);
    let undecided = judged.len() - holds - fails - unmeasured;
    let agreements = agreements(results);
    let some = |count: usize, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    let last = format!(
        "{holds} claims hold, {fails} fail{}{}{}{}. {summary}\n",
        some(undecided, "undecided"),
        some(unmeasured, "not measured"),
        some(off, "expected values are not met"),
        some(unknown, "expected values are not measured"),
    );
    match detail {
        Detail::Points => output::text(&homework::table(&judged))?,
        Detail::Line => {
            output::text(&format!("{}: {last}{}", loaded.experiment.name, homework::table(&judged)))?;
        }
        Detail::All => {
            print_all(loaded, results, &agreements, &judged, &expected)?;
            if let Some(sentence) = results.not_stationary() {
                output::text(&format!("{sentence}\n"))?;
            }
            output::text(&last)?;
        }
        Detail::Json => print_json(&loaded.experiment.name, results, &agreements, &judged, &expected)?,
    }
    let reasons = [
        (fails + off > 0, CLAIM_FAILS),
        (unmeasured + unknown > 0, INCOMPLETE),
        (strict && undecided > 0, UNDECIDED),
    ];
    let codes = reasons.into_iter().filter(|(is_so, _)| *is_so).map(|(_, code)| code);
    Ok(codes.fold(code_of_repetitions(results), gravest))
}

fn print_all(
    loaded: &Loaded,
    results: &Results,
    agreements: &[Agreement<'_>],
    judged: &[Judgement],
    expected: &[(&Expect, Expectation)],
) -> Result<(), Failure> {
    output::text(&format!("{}: {}\n", loaded.experiment.name, loaded.experiment.title))?;
    for it in judged {
        output::text(&sentence(it))?;
    }
    output::text(&homework::table(judged))?;
    output::text(&expected::table(expected, results))?;
    if let Some(sentence) = agreement::sentence(agreements) {
        output::text(&format!("{sentence}\n"))?;
    }
    let statements = loaded.experiment.statements.len();
    if statements > 0 {
        let of = if statements == 1 { "statement" } else { "statements" };
        let verb = if statements == 1 { "does" } else { "do" };
        output::text(&format!("{statements} {of} of the source {verb} not hold, see the report\n"))?;
    }
    Ok(())
}

fn print_json(
    experiment: &str,
    results: &Results,
    agreements: &[Agreement<'_>],
    judged: &[Judgement],
    expected: &[(&Expect, Expectation)],
) -> Result<(), Failure> {
    for it in agreements {
        output::json(&agreement_line(experiment, it))?;
    }
    for it in judged {
        output::json(&line(experiment, it))?;
    }
    for (expect, it) in expected {
        output::json(&expected::line(experiment, expect, it, results))?;
    }
    if let Some((reached, possible)) = homework::points(judged) {
        output::json(&json!({ "experiment": experiment, "points": reached, "points_possible": possible }))?;
    }
    Ok(())
}

/// Judges the claims of an experiment for each engine that has results.
pub(super) fn judged(loaded: &Loaded, results: &Results) -> Vec<Judgement> {
    let claims = &loaded.experiment.claims;
    let judge_one = |engine| judge(claims, results, engine, &|reps| loaded.plan.level(engine, reps));
    results.engines().into_iter().flat_map(judge_one).collect()
}

fn sentence(it: &Judgement) -> String {
    let estimate = it.estimate.map_or(String::new(), |estimate| {
        let kind = if it.is_ratio { "ratio" } else { "difference" };
        if it.nothing_random {
            format!(" [{kind} {:.4}, nothing random]", estimate.estimate)
        } else {
            format!(" [{kind} {:.4}, 95 % {:.4} to {:.4}]", estimate.estimate, estimate.low, estimate.high)
        }
    });
    let reason = it.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("  {} ({}): {}{estimate}{reason}\n", it.verdict, it.engine, it.says)
}

fn agreement_line(experiment: &str, it: &Agreement<'_>) -> Value {
    let unit = output::unit_suffix(&it.metric);
    json!({
        "experiment": experiment,
        "metric": it.metric,
        "factors": levels_json(&it.cell.factors),
        format!("virtual{unit}"): it.virtual_time,
        format!("kernel{unit}"): it.kernel,
        "ratio": it.quotient(),
        "interval_95": it.ratio.map(|ratio| json!([ratio.low, ratio.high])),
        "differs": it.differs(),
    })
}

fn line(experiment: &str, it: &Judgement) -> Value {
    let (verdict, needs) = match it.verdict {
        Verdict::Holds => ("holds", None),
        Verdict::Fails => ("fails", None),
        Verdict::Undecided { needs } => ("undecided", Some(needs).filter(|needs| *needs < u32::MAX)),
        Verdict::Missing => ("missing", None),
    };
    let interval = it.estimate.map(|estimate| json!([estimate.low, estimate.high]));
    json!({
        "experiment": experiment,
        "claim": it.id,
        "says": it.says,
        "engine": it.engine.word(),
        "verdict": verdict,
        "needs_repetitions": needs,
        "estimate": it.estimate.map(|estimate| estimate.estimate),
        "interval_95": interval,
        "is_ratio": it.is_ratio,
        "p_adjusted": it.p,
        "repetitions": it.repetitions,
        "nothing_random": it.nothing_random,
        "reason": it.reason,
        "points": it.reached(),
        "points_possible": it.points,
    })
}
