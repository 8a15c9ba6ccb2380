//! Campaign: runs the repetitions of a plan that a folder of results lacks, as many as the
//! experiment asks for.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | campaign | `run.rs` | rounds of repetitions until nothing is missing |
//! | siblings | `siblings.rs` | repetitions of equal cells that other experiments have run |
//! | targets | `targets.rs` | number of repetitions that each cell needs next |
//! | host | `host.rs` | lock between runs, and the load of other programs |
//! | pool | `pool.rs` | threads that run repetitions |
//! | progress | `progress.rs` | estimate of the time that is left |

pub(crate) mod host;
mod pool;
mod progress;
mod siblings;
mod targets;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rdt_emulator::child_seed;
use rdt_program::Stop;
use rdt_udp::clock;

use crate::cell::{Cell, CellId, PHYSICS_VERSION};
use crate::engine::{EngineError, engine};
use crate::experiment::{Experiment, Factor, KeepSeries};
use crate::journal::{Durability, JournalWriter, Store, StoreError, write_series};
use crate::plan::Plan;
use crate::record::{Record, Series, Status};
use crate::results::Results;

use host::HeldRates;
use pool::Task;
pub use progress::Progress;
pub use siblings::EXPERIMENT_FILE;
use siblings::Siblings;
pub use targets::{Targets, too_wide};

/// Folder of captures in a folder of results.
const CAPTURES_FOLDER: &str = "captures";

/// Experiment to run, with the folder of its results.
#[derive(Debug)]
pub struct Campaign<'a> {
    /// Experiment to run.
    pub experiment: &'a Experiment,
    /// Plan of the experiment with the engines to run.
    pub plan: &'a Plan,
    /// Folder of results.
    pub folder: &'a Path,
    /// Folders of results of other experiments, whose repetitions of equal cells count.
    pub siblings: &'a [PathBuf],
    /// Number of threads for engines of virtual time.
    pub threads: usize,
    /// Shard to run: index from 0, and number of shards. `None`: the whole plan.
    pub shard: Option<(u32, u32)>,
    /// Name of this host, for the journal.
    pub host: String,
}

/// Limit on the repetitions that one round asks for; each takes 40 bytes of memory.
const MAX_TASKS: u64 = 10_000_000;

/// Error that ends a campaign.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record has another seed than the plan gives.
    #[error(
        "{}, line {line}: repetition {rep} of cell {cell} has the seed {found}, but this experiment gives it {wanted}; \
         keep results of different seeds in separate folders", .file.display()
    )]
    Seed {
        /// The journal file.
        file: PathBuf,
        /// Number of the line.
        line: usize,
        /// The cell.
        cell: CellId,
        /// Number of the repetition.
        rep: u32,
        /// Seed of the record.
        found: u64,
        /// Seed of the plan.
        wanted: u64,
    },
    /// The list of repetitions would fill the memory.
    #[error(
        "{0} repetitions in one run are more than {MAX_TASKS}: lower least or most in [repeats], or run it in shards"
    )]
    TooMany(u64),
    /// A folder or file cannot be created.
    #[error("cannot create results in {}: {}", .0.display(), .1)]
    Create(PathBuf, io::Error),
    /// Results cannot be written.
    #[error("cannot write results to {}: {}; what was finished before is kept", .0.display(), .1)]
    Write(PathBuf, io::Error),
    /// The engine cannot run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Result of a campaign.
#[derive(Debug)]
pub struct Finished {
    /// All results of the plan, also those of earlier runs.
    pub results: Results,
    /// Number of repetitions that this run added.
    pub ran: u64,
    /// Number of repetitions that are still missing: the campaign was stopped, or runs one shard.
    pub missing: u64,
    /// Sentences about torn lines of the journals, and about repetitions that are not valid.
    pub remarks: Vec<String>,
}

/// Files and progress of a campaign that has something to run.
struct Running {
    writer: JournalWriter,
    siblings: Siblings,
    progress: Progress,
    held_rates: HeldRates,
}

impl Campaign<'_> {
    /// Runs the missing repetitions, and in real time those that failed. Calls `show` after each.
    /// If `stop` is set, no further repetition starts.
    ///
    /// # Errors
    /// An engine cannot run, or results cannot be read or written. What is in the journal stays.
    pub fn run(&self, stop: &Stop, mut show: impl FnMut(&Progress)) -> Result<Finished, CampaignError> {
        std::fs::create_dir_all(self.folder)
            .map_err(|error| CampaignError::Create(self.folder.to_owned(), error))?;
        let store = Store::read(&[self.folder.to_owned()])?;
        let mut remarks = store.remarks();
        let mut results = self.results(store)?;
        let mine = self.cells();
        for cell in &mine {
            results.forget_failures(cell);
            // Fails before anything runs if an engine cannot run.
            engine(cell.physics.engine)?.check(cell)?;
        }
        let mut targets = Targets::new(self.plan, &self.experiment.claims);
        let mut running: Option<Running> = None;
        loop {
            let wanted: u64 = mine.iter().map(|cell| u64::from(targets.of(cell.id))).sum();
            if wanted > MAX_TASKS {
                return Err(CampaignError::TooMany(wanted));
            }
            let tasks = self.missing(&mine, &targets, &results);
            if stop.is_set() || tasks.is_empty() && !targets.raise(&mine, &results) {
                break;
            }
            if tasks.is_empty() {
                continue;
            }
            let running = match &mut running {
                Some(running) => running,
                none => none.insert(self.begin(&mine)?),
            };
            self.run_tasks(tasks, running, &mut results, stop, &mut show)?;
        }
        let missing = self.plan.distinct().map(|cell| u64::from(targets.lacking(cell.id, &results))).sum();
        let name = &self.experiment.name;
        let told = results.remarks().into_iter().chain(too_wide(&self.plan.repeats.until, &results));
        remarks.extend(told.map(|remark| format!("{name}: {remark}")));
        let ran = running.map_or(0, |running| running.progress.done);
        Ok(Finished { results, ran, missing, remarks })
    }

    /// Creates the journal file of this run, and reads what other experiments have run.
    fn begin(&self, mine: &[&Cell]) -> Result<Running, CampaignError> {
        let durable = if mine.iter().all(|cell| cell.physics.engine.is_virtual()) {
            Durability::Batched
        } else {
            Durability::EachLine
        };
        let writer = JournalWriter::create(self.folder, &self.host, durable)
            .map_err(|error| CampaignError::Create(self.folder.to_owned(), error))?;
        let siblings = Siblings::read(self.siblings, self.experiment, mine);
        let progress = Progress::new(clock::now(), self.threads);
        Ok(Running { writer, siblings, progress, held_rates: HeldRates::default() })
    }

    fn run_tasks(
        &self,
        tasks: Vec<Task<'_>>,
        running: &mut Running,
        results: &mut Results,
        stop: &Stop,
        show: &mut impl FnMut(&Progress),
    ) -> Result<(), CampaignError> {
        let Running { writer, siblings, progress, held_rates } = running;
        let mut keep = |record, series: Series| self.keep(record, &series, writer, results);
        let (shared, tasks) = siblings.divide(tasks, self.experiment, |rep| self.keeps(rep));
        for task in &tasks {
            let estimated = self.plan.cost(task.cell).seconds();
            progress.want(task.cell.id, estimated, task.cell.physics.engine.is_virtual());
        }
        let kept = shared.into_iter().try_for_each(|(record, series)| keep(record, series));
        let written = kept.and_then(|()| {
            self.run_all(&tasks, held_rates, stop, |record, series, took| {
                progress.finish(record.cell, took);
                keep(record, series)?;
                show(progress);
                Ok(())
            })
        });
        let synced = written.and_then(|()| writer.sync());
        synced.map_err(|error| CampaignError::Write(writer.path().to_owned(), error))
    }

    /// Writes a result to the journal, and adds it to the results.
    fn keep(
        &self,
        record: Record,
        series: &Series,
        writer: &mut JournalWriter,
        results: &mut Results,
    ) -> io::Result<()> {
        if self.keeps(record.rep) && record.status == Status::Ok {
            write_series(self.folder, record.cell, record.rep, series)?;
        }
        writer.append(&record)?;
        results.records.entry(record.cell).or_default().insert(record.rep, record);
        Ok(())
    }

    /// Returns the results of the plan that a store has, with the series in the folder.
    pub fn results(&self, store: Store) -> Result<Results, CampaignError> {
        self.check_seeds(&store)?;
        let folder = Some(self.folder.to_owned());
        let names = |factor: &Factor| factor.levels.iter().map(|level| level.name.clone()).collect();
        let levels = self.experiment.factors.iter().map(|it| (it.name.clone(), names(it))).collect();
        let mut results = Results { cells: self.plan.cells.clone(), folder, levels, ..Results::default() };
        results.records.extend(self.plan.distinct().map(|cell| (cell.id, BTreeMap::new())));
        for record in store.into_records() {
            if let Some(reps) = results.records.get_mut(&record.cell) {
                reps.insert(record.rep, record);
            }
        }
        Ok(results)
    }

    /// Fails if a record of the plan's cells has another seed than the plan gives it.
    pub fn check_seeds(&self, store: &Store) -> Result<(), CampaignError> {
        for cell in self.plan.distinct() {
            for record in store.of_cell(cell.id) {
                let (found, wanted) = (record.seed, self.plan.seed(cell, record.rep));
                if found != wanted {
                    let (file, line) = store.place(cell.id, record.rep).unwrap_or((self.folder, 0));
                    let (file, cell, rep) = (file.to_owned(), cell.id, record.rep);
                    return Err(CampaignError::Seed { file, line, cell, rep, found, wanted });
                }
            }
        }
        Ok(())
    }

    /// Returns the distinct cells of this shard.
    fn cells(&self) -> Vec<&Cell> {
        match self.shard {
            Some((index, count)) => self.plan.shard(index, count),
            None => self.plan.distinct().collect(),
        }
    }

    fn keeps(&self, rep: u32) -> bool {
        match self.experiment.measure.keep_series {
            KeepSeries::None => false,
            KeepSeries::First => rep == 0,
            KeepSeries::All => true,
        }
    }

    /// Returns the file for the capture of a repetition, if the experiment captures and keeps it.
    fn capture_file(&self, task: &Task<'_>) -> Option<PathBuf> {
        let captures = self.experiment.measure.capture && !task.cell.physics.engine.is_virtual();
        let folder = self.folder.join(CAPTURES_FOLDER);
        // If there is no folder, the engine reports that it cannot create the file.
        (captures && self.keeps(task.rep)).then(|| {
            let _ = std::fs::create_dir_all(&folder);
            folder.join(format!("{}-{}.pcapng", task.cell.id, task.rep))
        })
    }

    /// Returns the repetitions that the targets ask for and the results lack, in blocks.
    fn missing<'a>(&self, cells: &[&'a Cell], targets: &Targets<'_>, results: &Results) -> Vec<Task<'a>> {
        let mut tasks = Vec::new();
        for cell in cells {
            let reps = targets.missing(cell.id, results);
            tasks.extend(reps.map(|rep| Task { cell, rep, seed: self.plan.seed(cell, rep) }));
        }
        // In real time a block has every cell once, in an order drawn from the seeds, so that a
        // slow drift of the host affects all cells alike.
        tasks.sort_by_cached_key(|task| (task.rep, task.place_in_block()));
        tasks
    }
}

impl Task<'_> {
    /// Returns the order of a task in its block: drawn in real time, 0 in virtual time.
    fn place_in_block(&self) -> u64 {
        if self.cell.physics.engine.is_virtual() {
            return 0;
        }
        let (half, _) = self.cell.id.0.split_at(8);
        let cell = half.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        child_seed(cell, self.seed)
    }

    /// Returns the record of this task without its result.
    fn record(&self, campaign: &Campaign<'_>) -> Record {
        Record {
            cell: self.cell.id,
            rep: self.rep,
            seed: self.seed,
            engine: self.cell.physics.engine,
            physics: PHYSICS_VERSION,
            experiment: campaign.experiment.name.clone(),
            factors: self.cell.factors.clone(),
            metrics: BTreeMap::new(),
            hash: None,
            status: Status::Ok,
            block: (!self.cell.physics.engine.is_virtual()).then_some(self.rep),
            wall_ms: 0,
            tool: rdt_program::VERSION.to_owned(),
            host: campaign.host.clone(),
        }
    }
}
