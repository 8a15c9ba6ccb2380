//! Results in memory: cells with their records, and the selection of cells by levels.

use std::collections::BTreeMap;

use crate::cell::{Cell, CellId, EngineKind};
use crate::record::{Record, Series, Status};

/// Cells of one experiment, with what was measured. Engines are never pooled.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// Cells in the order of the plan.
    pub cells: Vec<Cell>,
    /// Records of each cell, by the number of the repetition.
    pub records: BTreeMap<CellId, BTreeMap<u32, Record>>,
    /// Series of the repetitions that keep them.
    pub series: BTreeMap<(CellId, u32), Series>,
}

/// Levels that a cell must have: `[sack=on, initial-window=1]`. Factors that are not named may
/// have any level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection(pub Vec<(String, String)>);

impl Selection {
    /// True if `cell` has all these levels.
    pub fn matches(&self, cell: &Cell) -> bool {
        self.0.iter().all(|(factor, level)| cell.level(factor) == Some(level))
    }
}

impl Results {
    /// Returns the cells of an engine that a selection matches, in the order of the plan.
    pub fn cells<'a>(
        &'a self,
        engine: EngineKind,
        selection: &'a Selection,
    ) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.physics.engine == engine && selection.matches(cell))
    }

    /// Returns number of the repetition and value of a metric, for the valid repetitions of a cell
    /// that have this metric.
    pub fn values(&self, cell: CellId, metric: &str) -> Vec<(u32, f64)> {
        let records = self.records.get(&cell).into_iter().flatten();
        records
            .filter(|(_, record)| record.status == Status::Ok)
            .filter_map(|(rep, record)| Some((*rep, *record.metrics.get(metric)?)))
            .collect()
    }

    /// Returns the numbers of the valid repetitions of a cell, ascending.
    pub fn valid_repetitions(&self, cell: CellId) -> impl Iterator<Item = u32> + '_ {
        let records = self.records.get(&cell).into_iter().flatten();
        records.filter(|(_, record)| record.status == Status::Ok).map(|(rep, _)| *rep)
    }

    /// Returns a metric of a repetition. A name without a flow is that of the only flow, or of the
    /// run. If all repetitions of the cell are one run, further ones would have the same value.
    pub fn metric(&self, cell: &Cell, name: &str, rep: u32) -> Option<f64> {
        let records = self.records.get(&cell.id)?;
        let one_run = || records.values().next().filter(|_| self.is_one_run(cell.id));
        let metrics = &records.get(&rep).or_else(one_run)?.metrics;
        let of_flow = || match cell.physics.flows.as_slice() {
            [flow] => metrics.get(&format!("{}.{name}", flow.name)),
            _ => None,
        };
        metrics.get(name).or_else(of_flow).copied()
    }

    /// True if a cell has at least two valid repetitions in virtual time, all with the same
    /// metrics: nothing in it is random, and an interval would mislead. Hashes of events differ
    /// even then, because packets contain identifiers that are drawn from the seed.
    pub fn is_one_run(&self, cell: CellId) -> bool {
        let records = self.records.get(&cell).into_iter().flatten().map(|(_, record)| record);
        let mut valid = records.filter(|r| r.status == Status::Ok && r.engine.is_virtual()).peekable();
        let Some(first) = valid.next() else { return false };
        valid.peek().is_some() && valid.all(|record| record.metrics == first.metrics)
    }
}
