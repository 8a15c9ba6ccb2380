//! Evidence for and against a predicate.

use rdt_emulator::child_seed;

use super::grammar::{Direction, Expression, Metric, Predicate, Relation};
use super::{Missing, Scope};
use crate::results::Selection;
use crate::statistics::{
    Interval, beyond, count_of, equivalent, mean, pairing_gain, runs_to_decide, standard_deviation,
    t_quantile,
};

/// Resamples for expressions without a value in a single repetition, such as quantiles.
const RESAMPLES: u64 = 1000;

/// Evidence of the repetitions for and against a predicate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evidence {
    /// p value of the test whose null hypothesis is that the predicate is false.
    pub(super) p_for: f64,
    /// p value of the test whose null hypothesis is that the predicate is true.
    pub(super) p_against: f64,
    /// Left side of the comparison minus the right side, or their ratio, with a 95 % interval.
    pub(super) estimate: Option<Interval>,
    /// True if `estimate` is a ratio, false if it is a difference.
    pub(super) is_ratio: bool,
    pub(super) repetitions: u32,
    /// Number of repetitions that would probably decide the predicate; `u32::MAX` if none would.
    pub(super) needs: u32,
    /// True if all repetitions gave one result, so that there is no interval.
    pub(super) nothing_random: bool,
    /// Variance of the paired differences divided by that of differences between unpaired
    /// repetitions. `None` if one side does not vary.
    pub(super) pairing: Option<f64>,
}

pub(super) fn examine(
    scope: &Scope<'_>,
    predicate: &Predicate,
    margin: Option<f64>,
) -> Result<Evidence, Missing> {
    match predicate {
        Predicate::Compare(left, relation, right) => {
            let relation = margin.map_or(*relation, Relation::WithinFraction);
            compare(scope, left, relation, right)
        }
        Predicate::Monotone(metric, factor, direction) => monotone(scope, metric, factor, *direction),
        Predicate::All(selection, inner) => {
            let cells = scope.selected(selection)?;
            let each = cells
                .iter()
                .map(|cell| examine(&scope.within(&Selection(cell.factors.clone())), inner, margin));
            together(each.collect::<Result<_, _>>()?)
        }
    }
}

/// Combines the evidence of parts that must all hold: the weakest evidence for them, and the
/// strongest against one of them, corrected for their number.
fn together(parts: Vec<Evidence>) -> Result<Evidence, Missing> {
    let count = count_of(parts.len());
    let against = parts.iter().map(|it| it.p_against).fold(1.0, f64::min);
    let needs = parts.iter().map(|it| it.needs).max().unwrap_or(0);
    let nothing_random = parts.iter().all(|it| it.nothing_random);
    let weakest = parts.into_iter().max_by(|a, b| a.p_for.total_cmp(&b.p_for));
    let weakest = weakest.ok_or_else(|| Missing::Cells("all".to_owned()))?;
    Ok(Evidence { p_against: (against * count).min(1.0), needs, nothing_random, ..weakest })
}

fn monotone(
    scope: &Scope<'_>,
    metric: &Metric,
    factor: &str,
    direction: Direction,
) -> Result<Evidence, Missing> {
    let mut levels: Vec<String> = Vec::new();
    for cell in scope.cells(&metric.selection) {
        let Some(level) = cell.level(factor) else { return Err(Missing::Cells(factor.to_owned())) };
        if !levels.iter().any(|known| known == level) {
            levels.push(level.to_owned());
        }
    }
    levels.sort_by_key(|level| scope.results.place_of_level(factor, level));
    let at = |level: &String| {
        let mut selection = metric.selection.clone();
        selection.0.push((factor.to_owned(), level.clone()));
        Expression::Metric(Metric { name: metric.name.clone(), selection })
    };
    let relation = match direction {
        Direction::Up => Relation::More,
        Direction::Down => Relation::Less,
        Direction::Flat(by) => Relation::WithinFraction(by),
    };
    if levels.len() < 2 {
        return Err(Missing::Cells(format!("a second level of {factor}")));
    }
    let steps = levels.windows(2).map(|pair| compare(scope, &at(&pair[1]), relation, &at(&pair[0])));
    together(steps.collect::<Result<_, _>>()?)
}

/// Difference of the two sides of a comparison, estimated from the repetitions.
struct Difference {
    estimate: f64,
    standard_error: f64,
    degrees: f64,
    is_ratio: bool,
    repetitions: u32,
    pairing: Option<f64>,
}

fn compare(
    scope: &Scope<'_>,
    left: &Expression,
    relation: Relation,
    right: &Expression,
) -> Result<Evidence, Missing> {
    let difference = difference(scope, left, right, matches!(relation, Relation::WithinAmount(_)))?;
    let Difference { estimate, standard_error, degrees, is_ratio, repetitions, pairing } = difference;
    if repetitions < 2 {
        return Ok(single_run(is_ratio, repetitions, pairing));
    }
    let above = |bound: f64| beyond(estimate - bound, standard_error, degrees);
    let below = |bound: f64| beyond(bound - estimate, standard_error, degrees);
    let (p_for, p_against, distance) = match relation {
        Relation::More => (above(0.0), below(0.0), estimate.abs()),
        Relation::Less => (below(0.0), above(0.0), estimate.abs()),
        Relation::WithinFraction(_) | Relation::WithinAmount(_) => {
            let [low, high] = match relation {
                Relation::WithinFraction(by) if is_ratio => [(-by.min(1.0)).ln_1p(), by.ln_1p()],
                Relation::WithinFraction(by) => {
                    let margin = by * scope.value(right, &scope.repetitions(&[left, right]))?.abs();
                    [-margin, margin]
                }
                Relation::WithinAmount(by) => [-by, by],
                Relation::Less | Relation::More => [0.0; 2],
            };
            let p_for = equivalent(estimate, standard_error, degrees, [low, high]);
            (p_for, above(high).min(below(low)), (high - estimate).min(estimate - low).abs())
        }
    };
    // Without spread the answer is certain, and equal sides are neither less nor more.
    let p_against = if standard_error == 0.0 { 1.0 - p_for } else { p_against };
    let half = if standard_error > 0.0 { t_quantile(0.975, degrees) * standard_error } else { 0.0 };
    let interval = Interval { estimate, low: estimate - half, high: estimate + half };
    let interval = if is_ratio { interval.map(f64::exp) } else { interval };
    Ok(Evidence {
        p_for,
        p_against,
        estimate: Some(interval),
        is_ratio,
        repetitions,
        needs: runs_to_decide(repetitions, distance / standard_error),
        nothing_random: standard_error == 0.0,
        pairing: pairing.filter(|_| standard_error > 0.0),
    })
}

/// Returns the evidence of a single run, which shows no spread.
const fn single_run(is_ratio: bool, repetitions: u32, pairing: Option<f64>) -> Evidence {
    Evidence {
        p_for: 1.0,
        p_against: 1.0,
        estimate: None,
        is_ratio,
        repetitions,
        needs: 2,
        nothing_random: false,
        pairing,
    }
}

/// Returns the difference of both sides: of their logarithms if both are positive in every
/// repetition and `absolute` is false.
fn difference(
    scope: &Scope<'_>,
    left: &Expression,
    right: &Expression,
    absolute: bool,
) -> Result<Difference, Missing> {
    let reps = scope.repetitions(&[left, right]);
    let repetitions = u32::try_from(reps.len()).unwrap_or(u32::MAX);
    let both = |reps: &[u32]| Ok((scope.value(left, reps)?, scope.value(right, reps)?));
    let overall = both(&reps)?;
    let whole = reps.len() < 2 || needs_all(left) || needs_all(right);
    let pairs: Vec<(f64, f64)> = if whole {
        resamples(&reps).iter().map(|reps| both(reps)).collect::<Result<_, _>>()?
    } else {
        reps.iter().map(|rep| both(&[*rep])).collect::<Result<_, _>>()?
    };
    let positive = |(a, b): &(f64, f64)| *a > 0.0 && *b > 0.0;
    let is_ratio = !absolute && pairs.iter().chain([&overall]).all(positive);
    let one = |(a, b): &(f64, f64)| if is_ratio { (a / b).ln() } else { a - b };
    let differences: Vec<f64> = pairs.iter().map(one).collect();
    let deviation = standard_deviation(&differences).unwrap_or(0.0);
    // Rounding of equal results is no spread.
    let negligible = deviation <= 1e-12 * overall.0.abs().max(overall.1.abs()).max(1.0);
    let standard_error = match (negligible, whole) {
        (true, _) => 0.0,
        (false, true) => deviation,
        (false, false) => deviation / count_of(differences.len()).sqrt(),
    };
    let estimate = if whole { one(&overall) } else { mean(&differences).unwrap_or_else(|| one(&overall)) };
    let degrees = f64::from(repetitions.max(2) - 1);
    let side = |(a, b): &(f64, f64)| if is_ratio { (a.ln(), b.ln()) } else { (*a, *b) };
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(side).unzip();
    // A side with rounding errors only, such as a number, has nothing to be paired with.
    let varies = |side: &[f64]| standard_deviation(side).is_some_and(|it| it > deviation * 1e-9);
    let pairing = pairing_gain(&a, &b).filter(|_| !whole && varies(&a) && varies(&b));
    Ok(Difference { estimate, standard_error, degrees, is_ratio, repetitions, pairing })
}

/// True if an expression has no value in a single repetition.
pub(super) fn needs_all(expression: &Expression) -> bool {
    expression.operands().iter().any(|it| matches!(it, Expression::Quantile(..)))
}

/// Returns resampled lists of repetitions, or the list itself if it has fewer than two.
pub(super) fn resamples(reps: &[u32]) -> Vec<Vec<u32>> {
    let n = reps.len() as u64;
    if n < 2 {
        return vec![reps.to_vec()];
    }
    let draw = |resample: u64, i: u64| {
        let index = (u128::from(child_seed(child_seed(0, resample), i)) * u128::from(n)) >> 64;
        reps[usize::try_from(index).unwrap_or(0)]
    };
    (0..RESAMPLES).map(|resample| (0..n).map(|i| draw(resample, i)).collect()).collect()
}
