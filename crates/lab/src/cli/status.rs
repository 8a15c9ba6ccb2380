//! `rdt-lab status`: what is done, missing or failed, and the line that runs what is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::failure::{Failure, INCOMPLETE};
use super::folder::{of_experiment, read_folder};
use super::load::{Loaded, load, results_in};
use super::output;
use super::shards::{self, MAX_SHARDS};
use crate::cell::{Cell, CellId, levels_json, levels_text};
use crate::experiment::Until;
use crate::journal::Store;
use crate::results::Results;
use crate::run::Targets;

/// Limit on the incomplete cells that are named.
const MAX_NAMED_CELLS: usize = 5;

const HELP: &str = "\
With the file of a changed experiment it prints what a run would keep and what it would run
again. A run repeats failed repetitions only in real time: in virtual time they would fail
again.

Exit codes: 0 nothing is missing; 3 repetitions are missing.

Examples:
  rdt-lab status results                   the state of all experiments in a folder
  rdt-lab status results/mine --shards 16  the missing shards of 16, and the line that runs them
  rdt-lab status mine.toml -o results      what 'rdt-lab run mine.toml -o results' would run";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct StatusArgs {
    /// Folders of results, folders of such folders, or experiments that are to be run
    #[arg(value_name = "DIR|ID|FILE", required = true)]
    of: Vec<PathBuf>,
    /// Folder that has the results of experiments given as ID or FILE
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
    /// Name the missing shards of N [default: the number of shards of the runs so far, if any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHARDS)))]
    shards: Option<u32>,
    /// Print JSON, one object for each experiment
    #[arg(long)]
    json: bool,
}

/// State of one folder of results.
struct State {
    loaded: Loaded,
    results: Results,
    folder: PathBuf,
    /// Remarks about torn lines of journals.
    torn: Vec<String>,
    /// Number of cells that have results and are not in the plan.
    dropped: usize,
    /// Number of shards, and those with missing repetitions.
    shards: Option<(u32, Vec<u32>)>,
}

/// Repetitions that the rounds so far ask for.
struct Wanted<'a> {
    targets: Targets<'a>,
    /// Number of the round, from 1, where repetitions go on until claims are decided.
    round: Option<u32>,
}

pub(super) fn status(args: &StatusArgs) -> Result<u8, Failure> {
    let mut incomplete = false;
    let mut states = Vec::new();
    for of in &args.of {
        if of.is_dir() {
            for folder in results_in(of)? {
                states.push(State::of_folder(folder)?);
            }
        } else {
            states.push(State::of_experiment(of, &args.output)?);
        }
    }
    for mut state in states {
        let wanted = Wanted::of(&state.loaded, &state.results);
        let lacks = |cell: CellId| wanted.targets.lacking(cell, &state.results);
        let plan = &state.loaded.plan;
        let missing: Vec<(&Cell, u32)> =
            plan.distinct().map(|cell| (cell, lacks(cell.id))).filter(|(_, lacks)| *lacks > 0).collect();
        state.shards = args.shards.or_else(|| shards::shards_of(&state.folder)).map(|count| {
            let shards = (0..).zip(plan.shards(count));
            let wanting = shards.filter(|(_, cells)| cells.iter().any(|cell| lacks(cell.id) > 0));
            (count, wanting.map(|(index, _)| index).collect())
        });
        incomplete |= !missing.is_empty();
        if args.json {
            output::json(&state.object(&wanted, &missing))?;
        } else {
            output::text(&state.text(&wanted, &missing))?;
        }
    }
    Ok(if incomplete { INCOMPLETE } else { 0 })
}

impl<'a> Wanted<'a> {
    /// Replays the rounds whose repetitions are complete.
    fn of(loaded: &'a Loaded, results: &Results) -> Self {
        let mut targets = Targets::new(&loaded.plan, &loaded.experiment.claims);
        let cells: Vec<&Cell> = loaded.plan.distinct().collect();
        let mut round = 1;
        while targets.raise(&cells, results) {
            round += 1;
        }
        Self { targets, round: (loaded.plan.repeats.until == Until::Claims).then_some(round) }
    }
}

impl State {
    fn of_folder(folder: PathBuf) -> Result<Self, Failure> {
        let (loaded, results, torn) = read_folder(&folder)?;
        Ok(Self { loaded, results, folder, torn, dropped: 0, shards: None })
    }

    /// Returns the state of an experiment that is to be run into a folder of `output`.
    fn of_experiment(of: &Path, output: &Path) -> Result<Self, Failure> {
        let name = of.display().to_string();
        let folder = output.join(load(&name, &[])?.experiment.name);
        let store = Store::read(std::slice::from_ref(&folder))?;
        let there: BTreeSet<CellId> = store.records().map(|record| record.cell).collect();
        let torn = store.remarks();
        let (loaded, results) = of_experiment(&name, &folder, store)?;
        let planned: BTreeSet<CellId> = loaded.plan.distinct().map(|cell| cell.id).collect();
        let dropped = there.difference(&planned).count();
        Ok(Self { loaded, results, folder, torn, dropped, shards: None })
    }

    /// Returns the number of repetitions of a cell that were run, valid or not.
    fn done(&self, cell: CellId) -> usize {
        self.results.records.get(&cell).map_or(0, std::collections::BTreeMap::len)
    }

    /// Returns the line for a shell that runs the missing shards.
    fn resume(&self) -> Option<String> {
        let (count, shards) = self.shards.as_ref()?;
        let name = &self.loaded.experiment.name;
        if shards.is_empty() { None } else { shards::resume(&self.folder, name, shards, *count) }
    }

    fn object(&self, wanted: &Wanted<'_>, missing: &[(&Cell, u32)]) -> Value {
        let cell = |(cell, lacks): &(&Cell, u32)| {
            json!({
                "cell": cell.id.to_string(),
                "engine": cell.physics.engine.word(),
                "factors": levels_json(&cell.factors),
                "repetitions": self.done(cell.id),
                "missing": lacks,
            })
        };
        let repetitions: usize = self.loaded.plan.distinct().map(|cell| self.done(cell.id)).sum();
        let (failed, host_limited) = self.results.unusable();
        json!({
            "experiment": self.loaded.experiment.name,
            "cells": self.loaded.plan.distinct().count(),
            "repetitions": repetitions,
            "failed": failed,
            "host_limited": host_limited,
            "missing": missing.iter().map(|(_, lacks)| u64::from(*lacks)).sum::<u64>(),
            "incomplete_cells": missing.iter().map(cell).collect::<Vec<_>>(),
            "dropped_cells": self.dropped,
            "round": wanted.round,
            "missing_shards": self.shards.as_ref().map(|(_, shards)| shards),
            "resume": self.resume(),
            "torn": self.torn,
        })
    }

    fn text(&self, wanted: &Wanted<'_>, missing: &[(&Cell, u32)]) -> String {
        let cells: Vec<CellId> = self.loaded.plan.distinct().map(|cell| cell.id).collect();
        let done: usize = cells.iter().map(|cell| self.done(*cell)).sum();
        let lacks: u64 = missing.iter().map(|(_, lacks)| u64::from(*lacks)).sum();
        let mut lines = vec![format!(
            "{}: {} cells, {done} repetitions done, {lacks} missing",
            self.loaded.experiment.name,
            cells.len()
        )];
        let fresh = missing.iter().filter(|(cell, _)| self.done(cell.id) == 0).count();
        if fresh > 0 && (done > 0 || self.dropped > 0) {
            lines.push(format!("{fresh} cells have no results: new, changed, or not reached yet"));
        }
        if self.dropped > 0 {
            let folder = self.folder.display();
            lines.push(format!("{} cells of {folder} are not in the file; their results stay", self.dropped));
        }
        if let (Some(round @ 2..), false) = (wanted.round, missing.is_empty()) {
            let cells = missing.len();
            lines.push(format!("claims are undecided: round {round} repeats {cells} cells that they name"));
        }
        for (cell, lacks) in missing.iter().take(MAX_NAMED_CELLS) {
            let levels = levels_text(&cell.factors, ", ");
            lines.push(format!("missing: {lacks} of {} [{levels}]", cell.physics.engine));
        }
        if missing.len() > MAX_NAMED_CELLS {
            lines.push(format!("and {} cells more", missing.len() - MAX_NAMED_CELLS));
        }
        lines.extend(self.results.remarks());
        lines.extend(self.torn.iter().cloned());
        if let Some((count, shards)) = self.shards.as_ref().filter(|(_, shards)| !shards.is_empty()) {
            let list = shards.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let line = self.resume().map_or_else(String::new, |line| format!(":\n  $ {line}"));
            lines.push(format!("missing shards of {count}: {list}{line}"));
        }
        lines.join("\n  ") + "\n"
    }
}
