//! `rdt-lab compare`: two folders of results, cell by cell.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::failure::{CLAIM_FAILS, Failure, INCOMPLETE};
use super::folder::{nearest_metric, of_folder};
use super::{output, talk};
use crate::cell::{Cell, levels_json, levels_text};
use crate::report::metrics::{self, Better};
use crate::report::scale::Unit;
use crate::results::Results;
use crate::statistics::{Comparison, holm, mean, paired_log_ratio, unpaired_log_ratio};

/// Probability of any false difference among all cells (familywise error rate).
const ALPHA: f64 = 0.001;

const HELP: &str = "\
Compares cells with the same levels and engine by the ratio B / A of a metric. Repetitions with
equal seeds are compared in pairs. A cell is worse if both are true:
  - the ratio differs from 1, with a probability of error of 0.1 % for all cells together (Holm),
  - its 95 % interval reaches a loss of the threshold.
Metrics are those of 'rdt-lab export --rows csv', without their unit; that of a flow has the
flow's name, such as a.goodput, which may be left out if there is one flow. Of rates,
utilisation and delivered packets more is better; of times, losses, retransmissions, queues and
other costs less is. Metrics that are neither, such as windows, need --better.

Exit codes: 0 no cell is worse; 1 a cell is worse; 3 none is known to be worse, but a cell of A with
values cannot be compared: B lacks it, or has no values, or the values have no ratio.

Examples:
  rdt-lab compare before/000-a after/000-a
  rdt-lab compare before/000-a after/000-a --by completion --threshold 5%";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct CompareArgs {
    /// Folder of results of one experiment, to compare with
    #[arg(value_name = "A")]
    before: PathBuf,
    /// Folder of results that may be worse
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Metric to compare
    #[arg(long, value_name = "METRIC", default_value = "goodput")]
    by: String,
    /// Smallest loss that counts, in percent or as a share: 3% or 0.03
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = share)]
    threshold: f64,
    /// Whether more or less of the metric is better [default: by its name, see below]
    #[arg(long, value_name = "DIRECTION")]
    better: Option<Better>,
    /// Print JSON, one object for each cell
    #[arg(long)]
    json: bool,
}

/// Parses `3%` or `0.03`.
fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = text.strip_suffix('%').map_or_else(|| number(text), |it| Some(number(it)? / 100.0));
    share
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| format!("'{text}' is no share from 0 to below 100 %: write one such as 3%"))
}

/// Two cells with the same levels and engine.
struct Pair<'a> {
    cell: &'a Cell,
    /// Mean of A.
    before: Option<f64>,
    /// Mean of B.
    after: Option<f64>,
    ratio: Ratio,
}

/// Ratio of B to A.
enum Ratio {
    /// All repetitions with equal seeds have equal values.
    Identical,
    /// The ratio with its interval. `is_paired`: of repetitions with equal seeds.
    Measured { comparison: Comparison, is_paired: bool },
    /// There is no ratio, for this reason.
    Unknown(&'static str),
}

/// Reason of [`Ratio::Unknown`].
const NO_VALUES: &str = "no valid values of the metric";
const PARTLY: &str = "some repetitions lack the metric";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Same,
    Worse,
    Better,
    Unknown,
}

impl Outcome {
    const fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Unknown => "unknown",
        }
    }
}

pub(super) fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let (_, before) = of_folder(&args.before)?;
    let (_, after) = of_folder(&args.after)?;
    let pairs = pairs(&before, &after, &args.by);
    if !pairs.iter().any(|pair| !matches!(pair.ratio, Ratio::Unknown(NO_VALUES))) {
        return Err(nothing(args, &before, pairs.is_empty()));
    }
    let alone = |results: &Results| results.cells.len().saturating_sub(pairs.len());
    for (folder, alone) in [(&args.before, alone(&before)), (&args.after, alone(&after))] {
        if alone > 0 {
            let folder = folder.display();
            talk(&format!("{alone} cells of {folder} are not compared: the other folder has no such cells"));
        }
    }
    let p: Vec<f64> = pairs.iter().map(|pair| pair.ratio.p()).collect();
    let better = args.better.or_else(|| metrics::find(&args.by).1).ok_or_else(|| {
        Failure::Usage(format!(
            "whether more or less of {} is better does not follow from its name: add --better more or --better less",
            args.by
        ))
    })?;
    let outcomes: Vec<Outcome> =
        pairs.iter().zip(holm(&p)).map(|(pair, p)| pair.ratio.outcome(p, args.threshold, better)).collect();
    if args.json {
        for (pair, outcome) in pairs.iter().zip(&outcomes) {
            output::json(&object(pair, *outcome, &args.by))?;
        }
    } else {
        output::text(&text(&pairs, &outcomes, args))?;
    }
    let is_unjudged = |pair: &Pair<'_>| match pair.ratio {
        Ratio::Unknown(reason) => reason == PARTLY || pair.before.is_some(),
        _ => false,
    };
    Ok(match outcomes.contains(&Outcome::Worse) {
        true => CLAIM_FAILS,
        false if alone(&before) > 0 || pairs.iter().any(is_unjudged) => INCOMPLETE,
        false => 0,
    })
}

/// Returns the error of a comparison without values.
fn nothing(args: &CompareArgs, results: &Results, no_cells: bool) -> Failure {
    let (a, b) = (args.before.display(), args.after.display());
    if no_cells {
        return Failure::Data(format!("{a} and {b} have no cell with the same levels and engine"));
    }
    let nearest = nearest_metric(&args.by, results);
    Failure::Usage(format!("no cell of {a} and {b} has the metric '{}'; {nearest}", args.by))
}

fn pairs<'a>(before: &'a Results, after: &Results, metric: &str) -> Vec<Pair<'a>> {
    let key = |cell: &Cell| (cell.physics.engine, cell.factors.clone());
    let others: BTreeMap<_, &Cell> = after.cells.iter().map(|cell| (key(cell), cell)).collect();
    let both = before.cells.iter().filter_map(|cell| Some((cell, *others.get(&key(cell))?)));
    both.map(|(cell, other)| {
        let (one, two) = (by_seed(before, cell, metric), by_seed(after, other, metric));
        let mean = |values: &BTreeMap<u64, f64>| mean(&values.values().copied().collect::<Vec<_>>());
        let lacks = |results: &Results, cell: &Cell| {
            let (missing, all) = results.missing(cell, metric);
            missing > 0 && missing < all
        };
        if lacks(before, cell) || lacks(after, other) {
            let value = |values: &BTreeMap<u64, f64>, lacks: bool| mean(values).filter(|_| !lacks);
            let (before, after) = (value(&one, lacks(before, cell)), value(&two, lacks(after, other)));
            return Pair { cell, before, after, ratio: Ratio::Unknown(PARTLY) };
        }
        Pair { cell, before: mean(&one), after: mean(&two), ratio: Ratio::of(&one, &two) }
    })
    .collect()
}

/// Returns the valid values of a cell by seed.
fn by_seed(results: &Results, cell: &Cell, metric: &str) -> BTreeMap<u64, f64> {
    let seed = |rep: u32| results.records.get(&cell.id)?.get(&rep).map(|record| record.seed);
    let reps = results.valid_repetitions(cell.id);
    reps.filter_map(|rep| Some((seed(rep)?, results.metric(cell, metric, rep)?))).collect()
}

impl Ratio {
    fn of(before: &BTreeMap<u64, f64>, after: &BTreeMap<u64, f64>) -> Self {
        if before.is_empty() || after.is_empty() {
            return Self::Unknown(NO_VALUES);
        }
        let common = before.iter().filter_map(|(seed, a)| Some((*a, *after.get(seed)?)));
        let (a, b): (Vec<f64>, Vec<f64>) = common.unzip();
        if !a.is_empty() && a == b {
            return Self::Identical;
        }
        let is_paired = a.len() > 1;
        let comparison = if is_paired {
            paired_log_ratio(&b, &a, 0.95)
        } else {
            let all = |values: &BTreeMap<u64, f64>| values.values().copied().collect::<Vec<_>>();
            unpaired_log_ratio(&all(after), &all(before), 0.95)
        };
        let few = before.len() < 2 || after.len() < 2;
        match comparison {
            Some(comparison) => Self::Measured { comparison, is_paired },
            None if few => Self::Unknown("fewer than two repetitions"),
            None => Self::Unknown("values that are not positive have no ratio"),
        }
    }

    fn p(&self) -> f64 {
        match self {
            Self::Measured { comparison, .. } => comparison.p,
            Self::Identical | Self::Unknown(_) => 1.0,
        }
    }

    fn outcome(&self, adjusted_p: f64, threshold: f64, better: Better) -> Outcome {
        let Self::Measured { comparison, .. } = self else {
            return if matches!(self, Self::Identical) { Outcome::Same } else { Outcome::Unknown };
        };
        let it = comparison.interval;
        // A loss of exactly the threshold counts, whatever its rounding.
        let (low, high) = (1.0 - threshold + 1e-9, 1.0 / (1.0 - threshold) - 1e-9);
        let (is_less, is_more) = (it.estimate < 1.0 && it.low <= low, it.estimate > 1.0 && it.high >= high);
        match (is_less, is_more, better) {
            _ if adjusted_p > ALPHA => Outcome::Same,
            (true, _, Better::Less) | (false, true, Better::More) => Outcome::Better,
            (true, _, Better::More) | (false, true, Better::Less) => Outcome::Worse,
            (false, false, _) => Outcome::Same,
        }
    }
}

fn object(pair: &Pair<'_>, outcome: Outcome, metric: &str) -> Value {
    let (ratio, interval, paired, reason) = match &pair.ratio {
        Ratio::Identical => (Some(1.0), None, true, None),
        Ratio::Measured { comparison, is_paired } => {
            let it = comparison.interval;
            (Some(it.estimate), Some([it.low, it.high]), *is_paired, None)
        }
        Ratio::Unknown(reason) => (None, None, false, Some(*reason)),
    };
    let unit = output::unit_suffix(metric);
    json!({
        "cell": pair.cell.id.to_string(),
        "engine": pair.cell.physics.engine.word(),
        "factors": levels_json(&pair.cell.factors),
        "metric": metric,
        format!("mean_a{unit}"): pair.before,
        format!("mean_b{unit}"): pair.after,
        "ratio": ratio,
        "ratio_interval_95": interval,
        "is_paired": paired,
        "outcome": outcome.word(),
        "reason": reason,
    })
}

fn text(pairs: &[Pair<'_>], outcomes: &[Outcome], args: &CompareArgs) -> String {
    let unit = Unit::of_metric(&args.by);
    let has_interval = pairs.iter().any(|pair| matches!(pair.ratio, Ratio::Measured { .. }));
    let interval = if has_interval { "95 %" } else { "" };
    let mut rows = vec![["levels", "A", "B", "B / A", interval, ""].map(str::to_owned).to_vec()];
    for (pair, outcome) in pairs.iter().zip(outcomes) {
        let levels = format!("{} {}", pair.cell.physics.engine, levels_text(&pair.cell.factors, " "));
        let shown = |mean: Option<f64>| mean.map_or_else(|| "-".to_owned(), |mean| unit.text(mean));
        let (ratio, interval) = match &pair.ratio {
            Ratio::Identical => ("1".to_owned(), "identical".to_owned()),
            Ratio::Measured { comparison, .. } => {
                let it = comparison.interval;
                (format!("{:.4}", it.estimate), format!("{:.4} to {:.4}", it.low, it.high))
            }
            Ratio::Unknown(reason) => ("-".to_owned(), (*reason).to_owned()),
        };
        let word = outcome.word().to_owned();
        rows.push(vec![levels, shown(pair.before), shown(pair.after), ratio, interval, word]);
    }
    let count = |wanted: Outcome| outcomes.iter().filter(|it| **it == wanted).count();
    format!(
        "{}{} against {} by {}: {} cells worse, {} better, {} the same, {} unknown\n",
        output::table(&rows),
        args.after.display(),
        args.before.display(),
        args.by,
        count(Outcome::Worse),
        count(Outcome::Better),
        count(Outcome::Same),
        count(Outcome::Unknown)
    )
}
