//! Verdicts of the claims of an experiment.

use std::fmt;

use super::evidence::{Evidence, examine};
use super::grammar::{Expression, Predicate};
use super::{Missing, Scope};
use crate::cell::{Cell, EngineKind, levels_text};
use crate::experiment::Claim;
use crate::record::Status;
use crate::results::{Results, Selection};
use crate::statistics::{Interval, holm};

/// Number of repetitions above which a verdict does not say how many would decide it.
const IMPRACTICAL: u32 = 100_000;

/// Verdict of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The measurements show that the claim is true.
    Holds,
    /// The measurements show that the claim is false.
    Fails,
    /// The measurements do not decide the claim.
    Undecided {
        /// Number of repetitions, those measured included, that would probably decide the claim.
        needs: u32,
    },
    /// The measurements that the claim needs do not exist.
    Missing,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("holds"),
            Self::Fails => f.write_str("fails"),
            Self::Undecided { needs } if *needs > IMPRACTICAL => {
                f.write_str("undecided (no difference in sight)")
            }
            Self::Undecided { needs } => write!(f, "undecided (needs about {needs} runs)"),
            Self::Missing => f.write_str("not measured"),
        }
    }
}

/// A claim with its verdict for one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Short name of the claim.
    pub id: String,
    /// The sentence.
    pub says: String,
    /// Engine of the measurements.
    pub engine: EngineKind,
    /// The verdict.
    pub verdict: Verdict,
    /// Left side of the predicate minus the right side, or their ratio, with a 95 % interval.
    pub estimate: Option<Interval>,
    /// True if `estimate` is a ratio, false if it is a difference.
    pub is_ratio: bool,
    /// p value for the null hypothesis that the claim is false, corrected for all claims (Holm).
    pub p: Option<f64>,
    /// Number of repetitions used.
    pub repetitions: u32,
    /// True if all repetitions gave one result, so that there is no interval.
    pub nothing_random: bool,
    /// Variance of the paired differences divided by that of unpaired ones: below 1, common seeds
    /// make the comparison sharper. `None` if one side does not vary.
    pub pairing: Option<f64>,
    /// Reason for which the claim is not measured, if it is not.
    pub reason: Option<String>,
    /// Points of a homework for the claim, which is to hold.
    pub points: Option<u32>,
}

impl Judgement {
    /// Returns the points reached: all or none.
    pub fn reached(&self) -> Option<u32> {
        self.points.map(|points| if self.verdict == Verdict::Holds { points } else { 0 })
    }
}

/// Judges the claims that are made for an engine. `level` returns the probability of any false
/// verdict among them after a number of repetitions, usually 0.05.
pub fn judge(
    claims: &[Claim],
    results: &Results,
    engine: EngineKind,
    level: &dyn Fn(u32) -> f64,
) -> Vec<Judgement> {
    let scope = Scope { results, engine, levels: Selection::default() };
    let made = claims.iter().filter(|claim| claim.engines.is_empty() || claim.engines.contains(&engine));
    let examined: Vec<_> =
        made.map(|claim| (claim, examine(&scope, &claim.predicate, claim.margin))).collect();
    let p = |side: fn(&Evidence) -> f64| {
        holm(&examined.iter().map(|(_, it)| it.as_ref().map_or(1.0, side)).collect::<Vec<_>>())
    };
    let (p_for, p_against) = (p(|it| it.p_for), p(|it| it.p_against));
    let judged = examined.iter().zip(p_for.into_iter().zip(p_against));
    judged
        .map(|((claim, evidence), (p_for, p_against))| {
            verdict(claim, results, engine, evidence, [p_for, p_against], level)
        })
        .collect()
}

fn verdict(
    claim: &Claim,
    results: &Results,
    engine: EngineKind,
    evidence: &Result<Evidence, Missing>,
    [p_for, p_against]: [f64; 2],
    level: &dyn Fn(u32) -> f64,
) -> Judgement {
    let unmeasured = Judgement {
        id: claim.id.clone(),
        says: claim.says.clone(),
        engine,
        verdict: Verdict::Missing,
        estimate: None,
        is_ratio: false,
        p: None,
        repetitions: 0,
        nothing_random: false,
        pairing: None,
        reason: None,
        points: claim.points,
    };
    let evidence = match evidence {
        Ok(evidence) => evidence,
        Err(missing) => {
            let unusable = claim.cells(results, engine).into_iter().find_map(|cell| unusable(results, cell));
            let reason = unusable.unwrap_or_else(|| missing.to_string());
            return Judgement { reason: Some(reason), ..unmeasured };
        }
    };
    let alpha = level(evidence.repetitions);
    let verdict = if p_for <= alpha {
        Verdict::Holds
    } else if p_against <= alpha {
        Verdict::Fails
    } else {
        Verdict::Undecided { needs: evidence.needs.max(evidence.repetitions + 1) }
    };
    Judgement {
        verdict,
        estimate: evidence.estimate,
        is_ratio: evidence.is_ratio,
        p: Some(p_for),
        repetitions: evidence.repetitions,
        nothing_random: evidence.nothing_random,
        pairing: evidence.pairing,
        ..unmeasured
    }
}

/// Returns why a cell has no valid repetition, although it was run.
fn unusable(results: &Results, cell: &Cell) -> Option<String> {
    let records = results.records.get(&cell.id).filter(|records| !records.is_empty())?;
    if records.values().any(|record| record.status == Status::Ok) {
        return None;
    }
    let failed = records.values().find_map(|record| match &record.status {
        Status::Failed(reason) => Some(reason),
        Status::Ok | Status::HostLimited => None,
    });
    let (levels, count) = (levels_text(&cell.factors, ", "), records.len());
    Some(match failed {
        Some(reason) => format!("every repetition of cell [{levels}] failed ({count}): {reason}"),
        None => {
            format!("this host was too slow for the path in every repetition of cell [{levels}] ({count})")
        }
    })
}

impl Claim {
    /// Returns the cells of an engine whose measurements the claim uses.
    pub fn cells<'a>(&self, results: &'a Results, engine: EngineKind) -> Vec<&'a Cell> {
        let scope = Scope { results, engine, levels: Selection::default() };
        let mut cells = Vec::new();
        collect(&scope, &self.predicate, &mut cells);
        cells
    }

    /// Returns why an effect of the claim cannot be computed from the cells, if it cannot.
    pub(crate) fn confounded(&self, results: &Results, engine: EngineKind) -> Option<String> {
        let mut scope = Scope { results, engine, levels: Selection::default() };
        let mut predicate = &self.predicate;
        while let Predicate::All(selection, inner) = predicate {
            scope = scope.within(selection);
            predicate = inner;
        }
        let Predicate::Compare(left, _, right) = predicate else { return None };
        let operands = [left, right].into_iter().flat_map(Expression::operands);
        let missing = operands.filter_map(|it| match it {
            Expression::Effect(metric, factors) => scope.sides(metric, factors).err(),
            _ => None,
        });
        missing.filter(|it| matches!(it, Missing::Unmatched(_))).map(|it| it.to_string()).next()
    }
}

fn collect<'a>(scope: &Scope<'a>, predicate: &Predicate, cells: &mut Vec<&'a Cell>) {
    match predicate {
        Predicate::Compare(left, _, right) => {
            scope.cells_of(left, cells);
            scope.cells_of(right, cells);
        }
        Predicate::Monotone(metric, ..) => cells.extend(scope.cells(&metric.selection)),
        Predicate::All(selection, inner) => collect(&scope.within(selection), inner, cells),
    }
}

#[cfg(test)]
mod tests {
    use rdt_emulator::child_seed;
    use rdt_emulator::spec::PathSpec;

    use super::super::parse;
    use super::*;
    use crate::cell::Physics;
    use crate::experiment::Place;
    use crate::flow::Flow;
    use crate::record::Record;
    use crate::statistics::{normal_quantile, spent_level};

    /// Results of two cells, `sack` off and on, whose goodput is normal around a mean.
    fn results(means: [f64; 2], deviation: f64, reps: u32, seed: u64) -> Results {
        let mut results = Results::default();
        for (i, level) in ["off", "on"].into_iter().enumerate() {
            let physics = Physics {
                engine: EngineKind::Virtual,
                duration: None,
                links: vec![PathSpec::default()],
                flows: vec![Flow { initial_window: Some(i.try_into().expect("small")), ..Flow::new("a") }],
                engine_words: Vec::new(),
            };
            let cell = Cell::new(vec![("sack".to_owned(), level.to_owned())], physics);
            for rep in 0..reps {
                #[allow(clippy::cast_precision_loss, reason = "a random number of 53 bits")]
                let uniform = ((child_seed(child_seed(seed, i as u64), rep.into()) >> 11) as f64 + 0.5)
                    / (1_u64 << 53) as f64;
                let goodput = means[i] + deviation * normal_quantile(uniform);
                let hash = Some(rep.into());
                let record = Record { hash, ..Record::of(&cell, rep, "a.goodput", goodput) };
                results.records.entry(cell.id).or_default().insert(rep, record);
            }
            results.cells.push(cell);
        }
        results
    }

    fn claim(that: &str, margin: Option<f64>) -> Claim {
        Claim {
            id: "c".to_owned(),
            says: that.to_owned(),
            that: that.to_owned(),
            predicate: parse(that).expect("a predicate"),
            margin,
            engines: Vec::new(),
            points: None,
            place: Place::default(),
        }
    }

    fn verdict_of(that: &str, margin: Option<f64>, results: &Results) -> Verdict {
        judge(&[claim(that, margin)], results, EngineKind::Virtual, &|_| 0.05)[0].verdict
    }

    #[test]
    fn all_compares_cells_with_another_level() {
        let results = results([100.0, 110.0], 1.0, 10, 3);
        let claim = claim("all[sack=on]: goodput > 1.05 * goodput[sack=off]", None);
        assert_eq!(claim.cells(&results, EngineKind::Virtual).len(), 2);
        let scope = Scope { results: &results, engine: EngineKind::Virtual, levels: Selection::default() };
        let evidence = examine(&scope, &claim.predicate, None).expect("results");
        let ratio = evidence.estimate.expect("ten repetitions").estimate;
        assert!((ratio * 1.05 / 1.1 - 1.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn clear_differences_are_decided() {
        let results = results([100.0, 120.0], 5.0, 10, 1);
        assert_eq!(verdict_of("goodput[sack=on] > goodput[sack=off]", None, &results), Verdict::Holds);
        assert_eq!(verdict_of("goodput[sack=on] < goodput[sack=off]", None, &results), Verdict::Fails);
        assert_eq!(verdict_of("effect(goodput, sack) within 10% of 1.2", None, &results), Verdict::Holds);
        assert_eq!(verdict_of("monotone(goodput, sack, up)", None, &results), Verdict::Holds);
        assert_eq!(verdict_of("monotone(goodput, sack, flat 2%)", None, &results), Verdict::Fails);
        assert_eq!(verdict_of("all: goodput > 80", None, &results), Verdict::Holds);
        assert_eq!(verdict_of("all: goodput > 110", None, &results), Verdict::Fails);
        assert_eq!(verdict_of("q50(goodput[sack=on]) > 105", None, &results), Verdict::Holds);
    }

    #[test]
    fn equality_needs_a_narrow_interval() {
        let narrow = results([100.0, 100.1], 1.0, 40, 2);
        let that = "goodput[sack=on] > goodput[sack=off]";
        assert_eq!(verdict_of(that, Some(0.03), &narrow), Verdict::Holds);
        let wide = results([100.0, 100.1], 20.0, 10, 2);
        assert!(matches!(verdict_of(that, Some(0.03), &wide), Verdict::Undecided { needs } if needs > 10));
    }

    #[test]
    fn equal_runs_are_decided_without_an_interval() {
        let results = results([100.0, 120.0], 0.0, 2, 3);
        let judged =
            judge(&[claim("goodput[sack=on] > 119", None)], &results, EngineKind::Virtual, &|_| 0.05);
        assert!(judged[0].nothing_random && judged[0].verdict == Verdict::Holds, "{judged:?}");
    }

    #[test]
    fn equal_sides_without_spread_are_neither_less_nor_more() {
        let results = results([100.0, 100.0], 0.0, 2, 3);
        for that in ["goodput[sack=on] > goodput[sack=off]", "goodput[sack=on] < 100"] {
            assert_eq!(verdict_of(that, None, &results), Verdict::Fails, "{that}");
        }
        assert_eq!(verdict_of("goodput[sack=on] within 1% of 100", None, &results), Verdict::Holds);
    }

    #[test]
    fn a_single_run_decides_nothing() {
        let that = "goodput[sack=on] > goodput[sack=off]";
        assert_eq!(
            verdict_of(that, None, &results([100.0, 120.0], 0.0, 1, 3)),
            Verdict::Undecided { needs: 2 }
        );
    }

    #[test]
    fn claims_about_nothing_are_not_measured() {
        let results = results([1.0, 2.0], 0.1, 5, 4);
        for that in ["goodput[sack=maybe] > 1", "jitter > 1"] {
            let judged = judge(&[claim(that, None)], &results, EngineKind::Virtual, &|_| 0.05);
            assert!(judged[0].verdict == Verdict::Missing && judged[0].reason.is_some(), "{judged:?}");
        }
        assert_eq!(verdict_of("goodput > 0", None, &Results::default()), Verdict::Missing);
    }

    #[test]
    fn cells_without_valid_repetitions_name_the_cause() {
        let mut results = results([1.0, 2.0], 0.1, 3, 4);
        let cell = results.cells[1].id;
        let of_cell = |results: &mut Results, status: &Status| {
            results
                .records
                .get_mut(&cell)
                .expect("records")
                .values_mut()
                .for_each(|it| it.status = status.clone());
            let judged =
                judge(&[claim("goodput[sack=on] > 1", None)], results, EngineKind::Virtual, &|_| 0.05);
            judged[0].reason.clone().expect("a reason")
        };
        let reason = of_cell(&mut results, &Status::HostLimited);
        assert!(
            reason.ends_with("too slow for the path in every repetition of cell [sack=on] (3)"),
            "{reason}"
        );
        let reason = of_cell(&mut results, &Status::Failed("no route".to_owned()));
        assert!(reason.ends_with("failed (3): no route"), "{reason}");
    }

    #[test]
    fn null_experiments_hold_rarely() {
        let families = 2000;
        let that = ["goodput[sack=on] > goodput[sack=off]", "goodput[sack=on] < goodput[sack=off]"];
        let wrong = (0..families).filter(|&seed| {
            let results = results([100.0, 100.0], 5.0, 12, 1000 + seed);
            let claims = that.map(|that| claim(that, None));
            let judged = judge(&claims, &results, EngineKind::Virtual, &|_| 0.05);
            judged.iter().any(|it| it.verdict == Verdict::Holds)
        });
        let wrong = wrong.count();
        assert!(wrong <= 129, "{wrong} of {families} families: 5 %, and three standard deviations");
    }

    /// Judged after 10, 20, 40 and 80 repetitions, at the level of each round.
    #[test]
    fn null_experiments_hold_rarely_over_all_rounds() {
        let (families, looks) = (400, [0, 10, 20, 40, 80]);
        let that = ["goodput[sack=on] > goodput[sack=off]", "goodput[sack=on] < goodput[sack=off]"];
        let holds = |seed: &u64| {
            looks.windows(2).any(|look| {
                let level = spent_level(0.05, look[0], look[1], 80);
                let results = results([100.0, 100.0], 5.0, look[1], 50_000 + seed);
                let claims = that.map(|that| claim(that, None));
                let judged = judge(&claims, &results, EngineKind::Virtual, &|_| level);
                judged.iter().any(|it| it.verdict == Verdict::Holds)
            })
        };
        let wrong = (0..families).filter(holds).count();
        assert!(wrong <= 33, "{wrong} of {families} families: 5 %, and three standard deviations");
    }

    #[test]
    fn proposed_runs_decide_a_claim() {
        let that = "goodput[sack=on] > goodput[sack=off]";
        let (mut undecided, mut decided) = (0, 0);
        for seed in 0..300 {
            let Verdict::Undecided { needs } =
                verdict_of(that, None, &results([100.0, 103.0], 6.0, 10, seed))
            else {
                continue;
            };
            // A first estimate near zero proposes an impractical number of runs.
            if needs > 400 {
                continue;
            }
            undecided += 1;
            let later = verdict_of(that, None, &results([100.0, 103.0], 6.0, needs, seed));
            decided += u32::from(later == Verdict::Holds);
        }
        assert!(undecided > 50 && decided * 10 >= undecided * 8, "{decided} of {undecided}");
    }
}
