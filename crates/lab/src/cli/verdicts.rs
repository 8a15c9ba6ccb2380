//! `rdt-lab claims`, and the text at the end of `run`.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::args::ClaimsArgs;
use super::failure::{CLAIM_FAILS, Failure, UNDECIDED};
use super::load::{Loaded, load};
use super::{expected, homework, output};
use crate::agreement::{self, Agreement, agreements};
use crate::claim::{Expectation, Judgement, Verdict, judge};
use crate::experiment::Expect;
use crate::journal::Store;
use crate::results::Results;
use crate::run::{Campaign, EXPERIMENT_FILE};

/// How much of the verdicts is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing.
    None,
    /// One line.
    Line,
    /// Every verdict and expected value.
    All,
    /// The same as JSON, one object a line.
    Json,
}

/// Prints the verdicts of an experiment, and returns the exit code.
pub(super) fn print(
    loaded: &Loaded,
    results: &Results,
    detail: Detail,
    strict: bool,
    summary: &str,
) -> Result<u8, Failure> {
    let judged = judged(loaded, results);
    let expected = expected::of(loaded, results);
    let off = expected.iter().filter(|(_, it)| it.fails()).count();
    let count = |wanted: fn(&Verdict) -> bool| judged.iter().filter(|it| wanted(&it.verdict)).count();
    let holds = count(|it| *it == Verdict::Holds);
    let fails = count(|it| *it == Verdict::Fails);
    let agreements = agreements(results);
    let undecided = judged.len() - holds - fails;
    let open = if undecided > 0 { format!(", {undecided} cannot be told") } else { String::new() };
    let not_met = if off > 0 { format!(", {off} expected values are not met") } else { String::new() };
    let last = format!("{holds} claims hold, {fails} fail{open}{not_met}. {summary}\n");
    match detail {
        Detail::None => output::text(&homework::table(&judged))?,
        Detail::Line => {
            output::text(&format!("{}: {last}{}", loaded.experiment.name, homework::table(&judged)))?;
        }
        Detail::All => {
            print_all(loaded, &agreements, &judged, &expected)?;
            output::text(&last)?;
        }
        Detail::Json => print_json(&loaded.experiment.name, &agreements, &judged, &expected)?,
    }
    Ok(if fails + off > 0 {
        CLAIM_FAILS
    } else if strict && undecided > 0 {
        UNDECIDED
    } else {
        0
    })
}

fn print_all(
    loaded: &Loaded,
    agreements: &[Agreement<'_>],
    judged: &[Judgement],
    expected: &[(&Expect, Expectation)],
) -> Result<(), Failure> {
    output::text(&format!("{}: {}\n", loaded.experiment.name, loaded.experiment.title))?;
    for it in judged {
        output::text(&sentence(it))?;
    }
    output::text(&homework::table(judged))?;
    output::text(&expected::table(expected))?;
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
        output::json(&expected::line(experiment, expect, it))?;
    }
    if let Some((reached, possible)) = homework::points(judged) {
        output::json(&json!({ "experiment": experiment, "points": reached, "points_possible": possible }))?;
    }
    Ok(())
}

pub(super) fn judged(loaded: &Loaded, results: &Results) -> Vec<Judgement> {
    let judge_one = |engine| judge(&loaded.claims, results, engine, &|reps| loaded.plan.level(engine, reps));
    expected::engines(results).into_iter().flat_map(judge_one).collect()
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
    let factors = it.cell.factors.iter().map(|(name, level)| (name.clone(), Value::from(level.as_str())));
    json!({
        "experiment": experiment,
        "metric": it.metric,
        "factors": factors.collect::<Map<String, Value>>(),
        "virtual": it.virtual_time,
        "kernel": it.kernel,
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

/// Reads the experiment of a folder of results, with the engines of its results.
pub(super) fn of_folder(folder: &Path) -> Result<(Loaded, Results, Vec<String>), Failure> {
    let file = folder.join(EXPERIMENT_FILE);
    if let Err(error) = fs::metadata(&file) {
        return Err(not_results(folder).unwrap_or(Failure::Read(file, error)));
    }
    let store = Store::read(&[folder.to_owned()])?;
    let remarks = store.remarks();
    let (loaded, results) = of_experiment(&file.display().to_string(), folder, store)?;
    Ok((loaded, results, remarks))
}

/// Returns the error for a folder that has folders of results in it.
fn not_results(folder: &Path) -> Option<Failure> {
    let inner = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let first = inner.filter(|path| path.join(EXPERIMENT_FILE).exists()).min()?;
    Some(Failure::Usage(format!(
        "{} has results of several experiments: name one of its folders, such as {}",
        folder.display(),
        first.display()
    )))
}

/// Reads an experiment with the engines of the results in a store, else those of virtual time.
pub(super) fn of_experiment(name: &str, folder: &Path, store: Store) -> Result<(Loaded, Results), Failure> {
    let mut engines: Vec<_> = store.records().map(|record| record.engine).collect();
    engines.sort_unstable();
    engines.dedup();
    let mut loaded = load(name, &[])?;
    engines.retain(|engine| loaded.experiment.engines.contains(engine));
    if engines.is_empty() {
        engines = loaded.experiment.engines.iter().copied().filter(|engine| engine.is_virtual()).collect();
    }
    if !engines.is_empty() {
        loaded = load(name, &engines)?;
    }
    let results = campaign(&loaded, folder).results(store)?;
    Ok((loaded, results))
}

/// Returns a campaign that reads results and runs nothing.
pub(super) fn campaign<'a>(loaded: &'a Loaded, folder: &'a Path) -> Campaign<'a> {
    Campaign {
        experiment: &loaded.experiment,
        plan: &loaded.plan,
        claims: &loaded.claims,
        folder,
        siblings: &[],
        threads: 1,
        shard: None,
        host: String::new(),
    }
}

pub(super) fn claims(args: &ClaimsArgs) -> Result<u8, Failure> {
    let mut worst = 0;
    for folder in &args.folders {
        let (loaded, results, _) = of_folder(folder)?;
        let repetitions: usize = results.records.values().map(std::collections::BTreeMap::len).sum();
        let summary = format!("{repetitions} repetitions in {}", folder.display());
        let detail = if args.json { Detail::Json } else { Detail::All };
        let code = print(&loaded, &results, detail, args.strict, &summary)?;
        worst = [CLAIM_FAILS, UNDECIDED, 0].into_iter().find(|it| *it == code || *it == worst).unwrap_or(0);
    }
    Ok(worst)
}
