//! Targets: the number of repetitions that each cell needs next. A target depends on the
//! repetitions of earlier rounds alone, whatever later ones exist, so that interrupted runs and
//! shards agree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, CellId, levels_text};
use crate::claim::{Verdict, judge};
use crate::experiment::{Claim, Until};
use crate::plan::Plan;
use crate::record::Record;
use crate::report::scale::significant;
use crate::results::Results;
use crate::statistics::{next_look, t_interval};

/// Targets of all cells of a plan.
#[derive(Debug)]
pub struct Targets<'a> {
    plan: &'a Plan,
    claims: &'a [Claim],
    by_cell: BTreeMap<CellId, u32>,
}

impl<'a> Targets<'a> {
    /// Creates the targets of a first round: the least number of repetitions for every cell.
    pub fn new(plan: &'a Plan, claims: &'a [Claim]) -> Self {
        let by_cell = plan.distinct().map(|cell| (cell.id, plan.least(cell))).collect();
        Self { plan, claims, by_cell }
    }

    /// Returns the number of repetitions that a cell should have.
    pub fn of(&self, cell: CellId) -> u32 {
        self.by_cell.get(&cell).copied().unwrap_or(0)
    }

    /// Returns the repetitions that a cell lacks for its target.
    pub(super) fn missing(&self, cell: CellId, results: &Results) -> impl Iterator<Item = u32> {
        let there = results.records.get(&cell);
        (0..self.of(cell)).filter(move |rep| there.is_none_or(|reps| !reps.contains_key(rep)))
    }

    /// Returns the number of repetitions that a cell lacks for its target.
    pub fn lacking(&self, cell: CellId, results: &Results) -> u32 {
        u32::try_from(self.missing(cell, results).count()).unwrap_or(u32::MAX)
    }

    /// Raises the targets of those of `cells` that have all their repetitions, if these do not
    /// suffice. Returns false if no target changes. Claims are judged only when every cell of the
    /// plan is complete, so a shard waits here until the others have finished the round.
    pub fn raise(&mut self, cells: &[&Cell], results: &Results) -> bool {
        let results = self.rounds_so_far(results);
        let complete = |cell: &Cell| self.lacking(cell.id, &results) == 0;
        let wanting: BTreeSet<CellId> = match &self.plan.repeats.until {
            Until::Least => return false,
            Until::Width { share, of } => {
                let wide = |cell: &&&Cell| complete(cell) && !is_narrow(cell, &results, of, *share);
                cells.iter().filter(wide).map(|cell| cell.id).collect()
            }
            Until::Claims if !self.plan.distinct().all(complete) => return false,
            Until::Claims => self.undecided(&results),
        };
        let mut raised = false;
        let plan = self.plan;
        for cell in plan.distinct().filter(|cell| wanting.contains(&cell.id)) {
            // Further repetitions would be equal too.
            if results.is_one_run(cell.id) {
                continue;
            }
            let now = self.of(cell.id);
            if let Some(next) = self.next(now, plan.repeats.range(cell.physics.engine)) {
                self.by_cell.insert(cell.id, next);
                raised = true;
            }
        }
        raised
    }

    /// Returns the results without repetitions beyond the targets.
    fn rounds_so_far<'r>(&self, results: &'r Results) -> Cow<'r, Results> {
        let later = |(cell, reps): (&CellId, &BTreeMap<u32, Record>)| {
            reps.last_key_value().is_some_and(|(rep, _)| *rep >= self.of(*cell))
        };
        if self.plan.repeats.until == Until::Least || !results.records.iter().any(later) {
            return Cow::Borrowed(results);
        }
        let early = |(cell, reps): (&CellId, &BTreeMap<u32, Record>)| {
            let reps = reps.range(..self.of(*cell)).map(|(rep, record)| (*rep, record.clone()));
            (*cell, reps.collect())
        };
        let records = results.records.iter().map(early).collect();
        let (cells, levels) = (results.cells.clone(), results.levels.clone());
        Cow::Owned(Results { cells, levels, records, ..Results::default() })
    }

    fn next(&self, now: u32, (least, most): (u32, u32)) -> Option<u32> {
        if self.plan.repeats.until == Until::Claims {
            // The number doubles each round, so that few tests share the error probability.
            (now < most).then(|| now.saturating_mul(2).clamp(1, most))
        } else {
            next_look(now, least, most)
        }
    }

    /// Returns the cells that an undecided claim names.
    fn undecided(&self, results: &Results) -> BTreeSet<CellId> {
        let engines: BTreeSet<_> = self.plan.distinct().map(|cell| cell.physics.engine).collect();
        let mut wanting = BTreeSet::new();
        for engine in engines {
            let judged = judge(self.claims, results, engine, &|reps| self.plan.level(engine, reps));
            let undecided = judged.iter().filter(|it| matches!(it.verdict, Verdict::Undecided { .. }));
            for judgement in undecided {
                let claim = self.claims.iter().find(|claim| claim.id == judgement.id);
                let named = claim.map_or_else(Vec::new, |claim| claim.cells(results, engine));
                wanting.extend(named.into_iter().map(|cell| cell.id));
            }
        }
        wanting
    }
}

/// True if the half-width of the 95 % interval of a cell's mean is at most `share` of the mean. A
/// metric that some repetitions lack has no mean.
fn is_narrow(cell: &Cell, results: &Results, metric: &str, share: f64) -> bool {
    results.missing(cell, metric).0 == 0
        && t_interval(&results.values(cell, metric), 0.95)
            .is_some_and(|it| it.half_width() <= share * it.estimate.abs())
}

/// Returns a sentence about the cells whose repetitions end before the interval of a mean is as
/// narrow as the experiment asks for. `None` if there are none.
pub fn too_wide(until: &Until, results: &Results) -> Option<String> {
    let Until::Width { share, of } = until else { return None };
    let is_wide = |cell: &&Cell| !results.is_one_run(cell.id) && !is_narrow(cell, results, of, *share);
    let wide: Vec<&Cell> = results.cells.iter().filter(is_wide).collect();
    let half = |cell: &Cell| {
        let interval = t_interval(&results.values(cell, of), 0.95)?;
        let half = interval.half_width() / interval.estimate.abs();
        (results.missing(cell, of).0 == 0 && half.is_finite()).then_some(half)
    };
    let first = wide.iter().max_by(|a, b| half(a).unwrap_or(0.0).total_cmp(&half(b).unwrap_or(0.0)))?;
    let (missing, all) = results.missing(first, of);
    let told = match half(first) {
        Some(half) => format!("{} % after {all} repetitions", significant(half * 100.0, 3)),
        None if missing > 0 => format!("no mean, because {missing} of {all} repetitions lack the metric"),
        None => format!("no interval after {all} repetitions"),
    };
    Some(format!(
        "In {} of {} cells the 95 % interval of {of} did not get within {} % of its mean; the widest is {} [{}]: {told}",
        wide.len(),
        results.cells.len(),
        significant(share * 100.0, 3),
        first.physics.engine,
        levels_text(&first.factors, ", "),
    ))
}
