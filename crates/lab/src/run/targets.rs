//! Number of repetitions that each cell needs next. Without claims, a cell's target depends on its
//! own repetitions alone, so that shards agree.

use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{Cell, CellId};
use crate::claim::{Claim, Verdict, judge};
use crate::experiment::Until;
use crate::plan::Plan;
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

    /// Raises the targets of cells whose repetitions do not suffice. Returns false if all suffice.
    /// A shard decides no claims, because they need the cells of others.
    pub(super) fn raise(&mut self, cells: &[&Cell], results: &Results, is_shard: bool) -> bool {
        let wanting: BTreeSet<CellId> = match &self.plan.repeats.until {
            Until::Least => BTreeSet::new(),
            Until::Width { share, of } => {
                cells.iter().filter(|cell| !narrow(cell, results, of, *share)).map(|cell| cell.id).collect()
            }
            Until::Claims if is_shard => BTreeSet::new(),
            Until::Claims => self.undecided(cells, results),
        };
        let mut raised = false;
        let plan = self.plan;
        for cell in plan.distinct().filter(|cell| wanting.contains(&cell.id)) {
            // Equal repetitions say that further ones would be equal too.
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

    fn next(&self, now: u32, (least, most): (u32, u32)) -> Option<u32> {
        if self.plan.repeats.until == Until::Claims {
            // The number of repetitions doubles from round to round, so that few tests share the
            // error probability.
            (now < most).then(|| now.saturating_mul(2).clamp(1, most))
        } else {
            next_look(now, least, most)
        }
    }

    /// Returns the cells that an undecided claim names.
    fn undecided(&self, cells: &[&Cell], results: &Results) -> BTreeSet<CellId> {
        let engines: BTreeSet<_> = cells.iter().map(|cell| cell.physics.engine).collect();
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

/// True if the interval of a cell's mean is at most the given share of the mean on either side.
fn narrow(cell: &Cell, results: &Results, metric: &str, share: f64) -> bool {
    let values: Vec<f64> =
        results.valid_repetitions(cell.id).filter_map(|rep| results.metric(cell, metric, rep)).collect();
    t_interval(&values, 0.95).is_some_and(|it| it.half_width() <= share * it.estimate.abs())
}
