//! Targets: the number of repetitions that each cell needs next. A target depends on the
//! repetitions of earlier rounds alone, whatever later ones exist, so that interrupted runs and
//! shards agree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, CellId};
use crate::claim::{Verdict, judge};
use crate::experiment::{Claim, Until};
use crate::plan::Plan;
use crate::record::Record;
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
                let wide = |cell: &&&Cell| complete(cell) && !narrow(cell, &results, of, *share);
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
        Cow::Owned(Results { cells: results.cells.clone(), records, ..Results::default() })
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

/// True if the half-width of the 95 % interval of a cell's mean is at most `share` of the mean.
fn narrow(cell: &Cell, results: &Results, metric: &str, share: f64) -> bool {
    t_interval(&results.values(cell, metric), 0.95)
        .is_some_and(|it| it.half_width() <= share * it.estimate.abs())
}
