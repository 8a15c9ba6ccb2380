//! Folder of results of one experiment: what it has, and the files that describe it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::failure::Failure;
use super::files::write;
use super::load::{Loaded, load, results_in};
use super::talk_all;
use crate::experiment::{Experiment, suggest};
use crate::journal::Store;
use crate::plan::Plan;
use crate::results::Results;
use crate::run::{Campaign, EXPERIMENT_FILE};

/// File with the cells of an experiment, one a line, in its folder of results.
const PLAN_FILE: &str = "plan.ndjson";

/// Returns the experiment of a folder of results with the engines of its results, the results, and
/// remarks about torn lines.
pub(super) fn read_folder(folder: &Path) -> Result<(Loaded, Results, Vec<String>), Failure> {
    let within = results_in(folder)?;
    if within != [folder] {
        return Err(Failure::Usage(format!(
            "{} has results of several experiments: name one of its folders, such as {}",
            folder.display(),
            within[0].display()
        )));
    }
    let file = folder.join(EXPERIMENT_FILE);
    let store = Store::read(&[folder.to_owned()])?;
    let remarks = store.remarks();
    let (loaded, results) = of_experiment(&file.display().to_string(), folder, store)?;
    Ok((loaded, results, remarks))
}

/// Returns the experiment and the results of a folder, and prints remarks about torn lines.
pub(super) fn of_folder(folder: &Path) -> Result<(Loaded, Results), Failure> {
    let (loaded, results, remarks) = read_folder(folder)?;
    talk_all(&remarks);
    Ok((loaded, results))
}

/// Returns an experiment with the engines of the results in a store, and these results. Without
/// results the engines are those of virtual time.
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
        folder,
        siblings: &[],
        threads: 1,
        shard: None,
        host: String::new(),
    }
}

/// Returns the end of a sentence about an unknown metric: the nearest one, or all.
pub(super) fn nearest_metric(name: &str, results: &Results) -> String {
    let metrics: BTreeSet<&str> = results
        .records
        .values()
        .flatten()
        .flat_map(|(_, record)| record.metrics.keys())
        .map(String::as_str)
        .collect();
    suggest(name, metrics)
}

/// Writes the experiment's file and the list of its cells into its folder of results, unless they
/// are there.
pub(super) fn keep_experiment(folder: &Path, experiment: &Experiment) -> Result<(), Failure> {
    let plan = Plan::new(experiment, &[]).map_err(|error| Failure::Usage(error.to_string()))?;
    fs::create_dir_all(folder).map_err(|error| Failure::Create(folder.to_owned(), error))?;
    for (name, text) in [(PLAN_FILE, &plan.to_ndjson()), (EXPERIMENT_FILE, &experiment.text)] {
        let path = folder.join(name);
        if !fs::read_to_string(&path).is_ok_and(|there| there == *text) {
            write(&path, text)?;
        }
    }
    Ok(())
}
