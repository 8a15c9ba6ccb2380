//! `rdt-lab merge`: one folder from the folders of several shards or hosts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::failure::Failure;
use super::folder::{campaign, keep_experiment};
use super::load::{Loaded, load, results_in};
use super::{output, talk_all};
use crate::cell::CellId;
use crate::journal::{JOURNAL_FOLDER, Store, copy_series, encode, write_whole};
use crate::record::Record;
use crate::run::EXPERIMENT_FILE;

/// Name of the journal file that a merge writes.
const MERGED: &str = "merged.ndjson";

const HELP: &str = "\
The merged journal has one line for each repetition, sorted by cell and repetition. A second merge
into the same folder adds to it. Results of other cells, seeds or physics are refused, and so are
different results of one repetition (code 65). With --canonical, equal repetitions give equal
bytes, whatever the hosts, threads and shards were.

Examples:
  rdt-lab merge host-a/results host-b/results -o all   results of two hosts
  rdt-lab merge results --canonical -o one             one journal, to compare bytes";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct MergeArgs {
    /// Folders of results, or folders of such folders
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Folder for the merged results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Leave out what differs between runs: wall times, program versions, names of hosts
    #[arg(long)]
    canonical: bool,
    /// Print JSON, one object for each experiment
    #[arg(long)]
    json: bool,
}

pub(super) fn merge(args: &MergeArgs) -> Result<u8, Failure> {
    for (name, sources) in groups(&args.folders)? {
        one(&sources, &args.output.join(name), args)?;
    }
    Ok(0)
}

/// Returns folders of results of single experiments by their place in the merged folder: empty for
/// a folder that was given itself, else the name of the experiment's folder.
fn groups(folders: &[PathBuf]) -> Result<BTreeMap<PathBuf, Vec<PathBuf>>, Failure> {
    let mut groups: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for folder in folders {
        for found in results_in(folder)? {
            let is_given = found == *folder;
            let place = found.file_name().filter(|_| !is_given).map(PathBuf::from).unwrap_or_default();
            groups.entry(place).or_default().push(found);
        }
    }
    Ok(groups)
}

/// Merges the folders of one experiment.
fn one(sources: &[PathBuf], target: &Path, args: &MergeArgs) -> Result<(), Failure> {
    refuse_other_journals(target)?;
    let earlier = target.to_owned();
    let is_there = target.join(JOURNAL_FOLDER).join(MERGED).exists() && !sources.contains(&earlier);
    let all = [sources, if is_there { std::slice::from_ref(&earlier) } else { &[] }].concat();
    let loaded = same_experiment(&all)?;
    let store = Store::read(&all)?;
    campaign(&loaded, &sources[0]).check_seeds(&store)?;
    let before = if is_there { Store::read(&all[sources.len()..])?.records().count() } else { 0 };
    talk_all(&store.remarks());
    write(&store, target, args.canonical).map_err(|error| Failure::Write(target.to_owned(), error))?;
    keep_experiment(target, &loaded.experiment)?;
    let cells = loaded.plan.distinct().count();
    let repetitions = store.records().count();
    let (name, duplicates) = (&loaded.experiment.name, store.duplicates());
    if args.json {
        return output::json(&json!({
            "experiment": name,
            "folders": sources.iter().map(|it| it.display().to_string()).collect::<Vec<_>>(),
            "output": target.display().to_string(),
            "cells": cells,
            "repetitions": repetitions,
            "repetitions_before": before,
            "duplicates": duplicates,
            "torn": store.remarks(),
        }));
    }
    let there = if is_there { format!(" and {before} that were there") } else { String::new() };
    output::text(&format!(
        "{name}: {repetitions} repetitions of {cells} cells from {} folders{there}, {duplicates} of them twice; merged in {}\n",
        sources.len(),
        target.display()
    ))
}

/// Fails if the folder has other journals than a merged one: they would count as results too.
fn refuse_other_journals(target: &Path) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(target.join(JOURNAL_FOLDER)) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.path().extension().is_some_and(|it| it == "ndjson") && entry.file_name() != MERGED {
            return Err(Failure::Data(format!(
                "{} is the journal of a run, so {} has other results: name a new folder with -o",
                entry.path().display(),
                target.display()
            )));
        }
    }
    Ok(())
}

/// Returns the experiment of all sources. Their titles, figures and claims may differ, but neither
/// their cells nor their seeds.
fn same_experiment(sources: &[PathBuf]) -> Result<Loaded, Failure> {
    let file = |folder: &Path| folder.join(EXPERIMENT_FILE);
    let read = |folder: &Path| load(&file(folder).display().to_string(), &[]);
    let mut sources = sources.iter();
    let Some(first) = sources.next() else { return Err(Failure::Data("no folder is named".to_owned())) };
    let loaded = read(first)?;
    for source in sources {
        let other = read(source)?;
        if other.experiment.text == loaded.experiment.text {
            continue;
        }
        let seeds = |it: &Loaded| -> BTreeMap<CellId, u64> {
            it.plan.distinct().map(|cell| (cell.id, it.plan.seed(cell, 0))).collect()
        };
        let (ours, theirs) = (seeds(&loaded), seeds(&other));
        if ours != theirs {
            let what = if ours.keys().eq(theirs.keys()) { "seeds" } else { "cells" };
            return Err(Failure::Data(format!(
                "{} and {} have different {what}: merge results of one experiment only",
                file(first).display(),
                file(source).display()
            )));
        }
    }
    Ok(loaded)
}

/// Writes the journal and copies the series. The journal appears whole or not at all.
fn write(store: &Store, target: &Path, canonical: bool) -> std::io::Result<()> {
    let folder = target.join(JOURNAL_FOLDER);
    fs::create_dir_all(&folder)?;
    write_whole(&folder.join(MERGED), |file| write_lines(store, target, file, canonical))
}

fn write_lines(store: &Store, target: &Path, file: &Path, canonical: bool) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(fs::File::create(file)?);
    for record in store.records() {
        // A journal is two levels below the folder of results.
        let place = store.place(record.cell, record.rep);
        let source = place.and_then(|(journal, _)| journal.parent()?.parent());
        if let Some(source) = source.filter(|source| *source != target) {
            copy_series(source, target, record.cell, record.rep)?;
        }
        let line = if canonical {
            encode(&Record { wall_ms: 0, tool: String::new(), host: String::new(), ..record.clone() })
        } else {
            encode(record)
        };
        out.write_all(line.as_bytes())?;
    }
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()
}
