//! `rdt-lab run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rdt_program::exit::INTERRUPTED;
use rdt_program::json::EventStamp;
use rdt_program::{Stop, progress};
use rdt_udp::clock;
use serde_json::json;

use super::failure::{Failure, INCOMPLETE, gravest};
use super::folder::keep_experiment;
use super::load::{Loaded, parse, text};
use super::page::{REPORT_FILE, page};
use super::shards::agree_on_shards;
use super::verdicts::{Detail, code_of_repetitions};
use super::{homework, output, talk, talk_all, verdicts};
use crate::cell::EngineKind;
use crate::experiment::{Until, builtin};
use crate::report::sentences;
use crate::run::host::cores;
use crate::run::{Campaign, EXPERIMENT_FILE, Finished, Progress};

/// Repetitions of each cell with `--quick`.
const QUICK_REPEATS: u32 = 3;
/// Interval between lines or events of progress where there is no terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between estimates of the time left on a terminal.
const BAR_INTERVAL: Duration = Duration::from_millis(500);

const HELP: &str = "\
Results of the experiment NAME go to the folder DIR/NAME, the report on all to DIR/report.html.
The same command again runs only what is missing; in real time it also repeats what failed.
Engines of real time run only if they are named, or if a named experiment has no other.

Exit codes: 0 all claims hold; 1 a claim fails, or an expected value that must be met is not;
2 repetitions failed; 3 a claim, or such a value, was not measured; 4 a claim is undecided (only
with --strict); 130 stopped by Ctrl-C or SIGTERM. 'rdt-lab --help' has all.

Examples:
  rdt-lab run 000-A                              one experiment in virtual time
  rdt-lab run mine.toml --engine kernel -v       with TCP of the kernel; prints each verdict
  rdt-lab run --all --engine virtual,packets     everything that needs no real time
  rdt-lab run grid.toml --shard 3/16 -o /shared  the fourth of 16 shards
  rdt-lab run homework.toml --client 'python3 client.py' --seed-file ~/secret";

#[derive(Debug, Default, clap::Args)]
#[command(after_help = HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct RunArgs {
    /// Identities of experiments, as 'rdt-lab list' prints them, or files
    #[arg(value_name = "ID|FILE", required_unless_present = "all")]
    pub(super) experiments: Vec<String>,
    /// Run all experiments of the program
    #[arg(long, conflicts_with = "experiments")]
    pub(super) all: bool,
    /// Run only with these engines, such as virtual,packets [default: those of the experiment in
    /// virtual time; if it has none, all of its engines, but not with --all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = super::load::engine)]
    pub(super) engine: Vec<EngineKind>,
    /// Command line for {client} in the table [command] of the experiment, such as './a.out
    /// --fast'. If a file that it names changes, its repetitions run again
    #[arg(long, value_name = "COMMAND", conflicts_with = "all")]
    pub(super) client: Option<String>,
    /// Take the seed of the experiment from the bytes of FILE, which students do not have, instead
    /// of from the table [design]
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub(super) seed_file: Option<PathBuf>,
    /// Run exactly N repetitions of each cell, 1 to 100000 [default: as the table [repeats] says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "quick")]
    pub(super) repeats: Option<u32>,
    /// Run three repetitions of each cell
    #[arg(long)]
    pub(super) quick: bool,
    /// Threads for engines of virtual time, 1 to 1024 [default: one for each core]
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Run shard I, from 0, of N: 0/16 to 15/16. A shard has whole cells; implies --only-run
    #[arg(long, value_name = "I/N", value_parser = super::shards::shard)]
    pub(super) shard: Option<(u32, u32)>,
    /// Folder for results; each experiment has its own folder in it
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    pub(super) output: PathBuf,
    /// Judge no claims and write no report
    #[arg(long)]
    pub(super) only_run: bool,
    /// Fail with code 4 if a claim is undecided
    #[arg(long)]
    pub(super) strict: bool,
    /// Print the verdicts as JSON, one object a line; before them the progress, unless --quiet
    #[arg(long)]
    pub(super) json: bool,
    /// Print no progress
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Print each verdict and expected value, as 'rdt-lab claims' does
    #[arg(long, short, conflicts_with = "json")]
    pub(super) verbose: bool,
}

pub(super) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let stop = Stop::default();
    stop.on_interrupt();
    let names: Vec<String> = if args.all {
        builtin().iter().map(|builtin| builtin.id.to_owned()).collect()
    } else {
        args.experiments.clone()
    };
    // Loads all files first, so that an error in one ends the command before anything runs.
    let mut loaded = Vec::new();
    for name in &names {
        loaded.extend(chosen(name, args)?);
    }
    if loaded.is_empty() {
        return Err(Failure::no_engine());
    }
    let (mut worst, started) = (0, clock::now());
    let detail = match (args.json, args.verbose, loaded.len()) {
        (true, ..) => Detail::Json,
        (_, true, _) => Detail::All,
        // The sentences at the end have the verdicts of a single experiment.
        (.., 1) => Detail::Points,
        _ => Detail::Line,
    };
    for loaded in &loaded {
        let code = one(loaded, args, detail, &stop)?;
        if stop.is_set() {
            talk("stopped; what is done is kept, and the same command goes on: nothing of it runs twice");
            return Ok(INTERRUPTED);
        }
        worst = gravest(worst, code);
    }
    if !args.only_run && args.shard.is_none() {
        let took = clock::now().duration_since(started);
        let folders: Vec<_> = loaded.iter().map(|it| args.output.join(&it.experiment.name)).collect();
        let sections = page(&args.output, &folders)?;
        if !args.json {
            let place = args.output.join(REPORT_FILE).display().to_string();
            output::text(&sentences(&sections, took, &place))?;
        }
    }
    Ok(worst)
}

/// Loads an experiment with the engines asked for. Of several experiments, `None` for one that has
/// none of these engines.
fn chosen(name: &str, args: &RunArgs) -> Result<Option<Loaded>, Failure> {
    let (name, text) = text(name)?;
    let text = homework::given(&name, text, args.client.as_deref(), args.seed_file.as_deref())?;
    let whole = parse(&name, &text, &[])?;
    let has = |engine: &EngineKind| whole.experiment.engines.contains(engine);
    let engines: Vec<EngineKind> = if args.engine.is_empty() {
        let all = &whole.experiment.engines;
        let in_virtual: Vec<_> = all.iter().copied().filter(|engine| engine.is_virtual()).collect();
        // With --all, nothing runs in real time unless its engine is named.
        if in_virtual.is_empty() && !args.all { all.clone() } else { in_virtual }
    } else if args.all || args.experiments.len() > 1 {
        args.engine.iter().copied().filter(has).collect()
    } else {
        args.engine.clone()
    };
    if engines.is_empty() {
        let words =
            whole.experiment.engines.iter().map(|engine| engine.word()).collect::<Vec<_>>().join(", ");
        talk(&format!("{name}: not run, its engines are {words}; name one with --engine"));
        return Ok(None);
    }
    let mut loaded = parse(&name, &text, &engines)?;
    if let Some(repeats) = args.repeats.or(args.quick.then_some(QUICK_REPEATS)) {
        loaded.plan.repeats.least = repeats;
        loaded.plan.repeats.most = repeats;
        loaded.plan.repeats.until = Until::Least;
        loaded.plan.repeats.fixed.clear();
    }
    Ok(Some(loaded))
}

/// Runs one experiment and judges its claims. Returns the exit code.
fn one(loaded: &Loaded, args: &RunArgs, detail: Detail, stop: &Stop) -> Result<u8, Failure> {
    let folder = args.output.join(&loaded.experiment.name);
    keep_experiment(&folder, &loaded.experiment)?;
    if let Some((_, count)) = args.shard {
        agree_on_shards(&folder, count)?;
    }
    let campaign = Campaign {
        experiment: &loaded.experiment,
        plan: &loaded.plan,
        folder: &folder,
        siblings: &siblings(&args.output, &folder),
        threads: args.jobs.map_or_else(cores, usize::from),
        shard: args.shard,
        host: host(),
    };
    let started = clock::now();
    let mut progress = Display::new(&loaded.experiment.name, args, started);
    let finished = campaign.run(stop, |now| progress.show(now))?;
    progress.finish(&finished, stop)?;
    talk_all(&finished.remarks);
    if stop.is_set() {
        return Ok(INTERRUPTED);
    }
    let elapsed = clock::now().duration_since(started);
    let mut code = code_of_repetitions(&finished.results);
    if args.only_run || args.shard.is_some() {
        talk(&format!(
            "{}: {} repetitions run in {:.1} s",
            loaded.experiment.name,
            finished.ran,
            elapsed.as_secs_f64()
        ));
    } else {
        let summary = summary(&finished, &folder, elapsed);
        code = gravest(code, verdicts::print(loaded, &finished.results, detail, args.strict, &summary)?);
    }
    // What other shards have to run is not missing here.
    let is_incomplete = finished.missing > 0 && args.shard.is_none();
    Ok(if is_incomplete { gravest(code, INCOMPLETE) } else { code })
}

/// Returns the other folders of results in the output folder, in alphabetical order.
fn siblings(output: &Path, own: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path != own && path.join(EXPERIMENT_FILE).is_file()).collect();
    folders.sort();
    folders
}

/// Returns the numbers of cells and repetitions, for the end of a line.
fn summary(finished: &Finished, folder: &Path, elapsed: Duration) -> String {
    let all: usize = finished.results.records.values().map(std::collections::BTreeMap::len).sum();
    let cells = finished.results.records.len();
    let seconds = elapsed.as_secs_f64();
    let before = all as u64 - finished.ran.min(all as u64);
    let there = if before > 0 { format!(", {before} were there") } else { String::new() };
    format!(
        "{cells} cells, {all} repetitions ({} run in {seconds:.1} s{there}); results in {}",
        finished.ran,
        folder.display()
    )
}

/// Returns the name of this host, for the journal.
fn host() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    return std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".to_owned());
}

/// Progress: a bar on a terminal, else a line each 10 s on the standard error. With `--json` the
/// lines are events on the standard output.
struct Display<'a> {
    name: &'a str,
    args: &'a RunArgs,
    bar: Option<ProgressBar>,
    stamp: EventStamp,
    /// Time of the latest line or estimate. `None` before the first event.
    told: Option<Instant>,
}

impl<'a> Display<'a> {
    fn new(name: &'a str, args: &'a RunArgs, started: Instant) -> Self {
        let bar = (!args.quiet && progress::can_draw()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(4));
            let template = "{prefix} {bar:30} {pos}/{len} repetitions{msg}";
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_prefix(name.to_owned());
            bar
        });
        // The first event comes with the first repetition: it shows what is to be done.
        let told = (!args.json).then_some(started);
        Self { name, args, bar, stamp: EventStamp::new(started), told }
    }

    fn show(&mut self, now: &Progress) {
        let time = clock::now();
        if let Some(bar) = &self.bar {
            bar.set_length(now.wanted);
            bar.set_position(now.done);
        }
        let interval = if self.bar.is_some() && !self.args.json { BAR_INTERVAL } else { PROGRESS_INTERVAL };
        if self.args.quiet || self.told.is_some_and(|told| time.duration_since(told) < interval) {
            return;
        }
        self.told = Some(time);
        let left = now.left(time);
        if self.args.json {
            // If nothing can be printed, the verdicts cannot either, and are an error.
            let _ = output::json(&self.stamp.at(
                time,
                json!({
                    "event": "progress",
                    "experiment": self.name,
                    "done": now.done,
                    "wanted": now.wanted,
                    "left_s": left.map(|left| left.as_secs_f64()),
                }),
            ));
        }
        let left = left.map_or_else(String::new, |left| format!(", about {} left", progress::time(left)));
        match &self.bar {
            Some(bar) => bar.set_message(left),
            None if self.args.json => {}
            None => talk(&format!("{}: {} of {} repetitions{left}", self.name, now.done, now.wanted)),
        }
    }

    fn finish(&self, finished: &Finished, stop: &Stop) -> Result<(), Failure> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if !self.args.json || self.args.quiet {
            return Ok(());
        }
        let (failed, host_limited) = finished.results.unusable();
        output::json(&self.stamp.now(json!({
            "event": if stop.is_set() { "stopped" } else { "finished" },
            "experiment": self.name,
            "ran": finished.ran,
            "missing": finished.missing,
            "failed": failed,
            "host_limited": host_limited,
        })))
    }
}
