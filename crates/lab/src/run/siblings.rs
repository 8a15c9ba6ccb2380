//! Results of other experiments in the same output folder. Cells with equal physics have equal
//! identities, so a repetition that one experiment has run counts for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Task;
use crate::cell::{Cell, CellId, PHYSICS_VERSION};
use crate::experiment::Experiment;
use crate::journal::{lines_of_cells, read_series};
use crate::record::{Record, Series, Status};

/// Name of the experiment file in a folder of results.
pub const EXPERIMENT_FILE: &str = "experiment.toml";

/// Valid repetitions of some cells in other folders of results.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    records: BTreeMap<(CellId, u32), (PathBuf, Record)>,
}

impl Siblings {
    /// Reads the repetitions of `cells` from the folders of experiments that record the same
    /// metrics. A folder or line that cannot be read gives none: its repetitions run again.
    pub(super) fn read(folders: &[PathBuf], experiment: &Experiment, cells: &[&Cell]) -> Self {
        let cells: BTreeSet<CellId> = cells.iter().map(|cell| cell.id).collect();
        let mut records = BTreeMap::new();
        for folder in folders.iter().filter(|folder| records_the_same(folder, experiment)) {
            let lines = lines_of_cells(folder, &cells).unwrap_or_default();
            let valid = |it: &Record| it.status == Status::Ok && it.physics == PHYSICS_VERSION;
            for record in lines.into_iter().filter(valid) {
                records.entry((record.cell, record.rep)).or_insert_with(|| (folder.clone(), record));
            }
        }
        Self { records }
    }

    /// Returns the results of tasks that a sibling has run with the same seed, as those of this
    /// experiment, and the other tasks. If series are kept, the sibling must have kept them.
    pub(super) fn divide<'a>(
        &self,
        tasks: Vec<Task<'a>>,
        experiment: &Experiment,
        keeps: impl Fn(u32) -> bool,
    ) -> (Vec<(Record, Series)>, Vec<Task<'a>>) {
        let (mut shared, mut rest) = (Vec::new(), Vec::new());
        for task in tasks {
            let there = self.records.get(&(task.cell.id, task.rep));
            let found = there.filter(|(_, record)| record.seed == task.seed).and_then(|(folder, record)| {
                let of_sibling = || read_series(folder, task.cell.id, task.rep).ok().flatten();
                let series = if keeps(task.rep) { of_sibling()? } else { Series::default() };
                Some((record.clone(), series))
            });
            let Some((record, series)) = found else {
                rest.push(task);
                continue;
            };
            let (experiment, factors) = (experiment.name.clone(), task.cell.factors.clone());
            shared.push((Record { experiment, factors, ..record }, series));
        }
        (shared, rest)
    }
}

/// True if the experiment of a folder of results cuts off the same warm-up and records the same
/// series. Metrics depend on these, but a cell's identity does not.
fn records_the_same(folder: &Path, experiment: &Experiment) -> bool {
    let text = fs::read_to_string(folder.join(EXPERIMENT_FILE)).ok();
    let other = text.and_then(|text| Experiment::from_toml(&text).ok());
    other.is_some_and(|other| other.measure == experiment.measure)
}
