//! `rdt-lab run`.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rdt_program::Stop;
use rdt_program::exit::INTERRUPTED;
use rdt_udp::clock;

use super::args::RunArgs;
use super::failure::{CELLS_FAILED, Failure, INCOMPLETE};
use super::load::{Loaded, parse, text};
use super::verdicts::Detail;
use super::{homework, report, scale, talk, verdicts};
use crate::cell::EngineKind;
use crate::experiment::{Until, builtin};
use crate::report::sentences;
use crate::run::{Campaign, EXPERIMENT_FILE, Finished, Progress};

/// Repetitions of each cell with `--quick`.
const QUICK: u32 = 3;
/// Time between lines of progress where there is no terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Time between estimates of the time left on a terminal.
const BAR_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let stop = Stop::default();
    stop.on_interrupt();
    let names: Vec<String> = if args.all {
        builtin().iter().map(|builtin| builtin.id.to_owned()).collect()
    } else {
        args.experiments.clone()
    };
    // Errors of any file are told before anything runs.
    let mut loaded = Vec::new();
    for name in &names {
        loaded.extend(chosen(name, args)?);
    }
    if loaded.is_empty() {
        return Err(Failure::Usage(
            "none of these experiments has such an engine; 'rdt-lab list' names them".to_owned(),
        ));
    }
    let (mut worst, started) = (0, clock::now());
    let detail = match (args.json, args.verbose, loaded.len()) {
        (true, ..) => Detail::Json,
        (_, true, _) => Detail::All,
        (.., 1) => Detail::None,
        _ => Detail::Line,
    };
    for loaded in &loaded {
        let code = one(loaded, args, detail, &stop)?;
        if stop.is_set() {
            talk("stopped; what is done is kept, and the same command goes on: nothing of it runs twice");
            return Ok(INTERRUPTED);
        }
        // Failed cells are worse than a claim that fails, which is worse than missing cells.
        worst = [CELLS_FAILED, 1, INCOMPLETE, 4, 0]
            .into_iter()
            .find(|it| *it == code || *it == worst)
            .unwrap_or(0);
    }
    if !args.only_run && args.shard.is_none() {
        let took = clock::now().duration_since(started);
        let folders: Vec<_> = loaded.iter().map(|it| args.output.join(&it.experiment.name)).collect();
        let path = args.output.join(report::REPORT_FILE);
        let report = report::page(&folders, &path)?;
        if !args.json {
            let place = path.display().to_string();
            super::output::text(&sentences(&report.sections, took, &place))?;
        }
    }
    Ok(worst)
}

/// Loads an experiment with the engines asked for. `None` if it has none of them and all
/// experiments are run.
fn chosen(name: &str, args: &RunArgs) -> Result<Option<Loaded>, Failure> {
    let (name, text) = text(name)?;
    let text = homework::given(&name, text, args)?;
    let whole = parse(&name, &text, &[])?;
    let has = |engine: &EngineKind| whole.experiment.engines.contains(engine);
    let mut engines: Vec<EngineKind> = if args.engine.is_empty() {
        let all = &whole.experiment.engines;
        let in_virtual: Vec<_> = all.iter().copied().filter(|engine| engine.is_virtual()).collect();
        // An experiment that is named, and runs in real time alone, is meant to.
        if in_virtual.is_empty() && !args.all { all.clone() } else { in_virtual }
    } else if args.all || args.experiments.len() > 1 {
        args.engine.iter().copied().filter(has).collect()
    } else {
        args.engine.clone()
    };
    engines.dedup();
    if engines.is_empty() {
        let words =
            whole.experiment.engines.iter().map(|engine| engine.word()).collect::<Vec<_>>().join(", ");
        talk(&format!("{name}: not run, it needs the engine {words}"));
        return Ok(None);
    }
    let mut loaded = parse(&name, &text, &engines)?;
    if let Some(repeats) = args.repeats.or(args.quick.then_some(QUICK)) {
        loaded.plan.repeats.least = repeats;
        loaded.plan.repeats.most = repeats;
        loaded.plan.repeats.until = Until::Least;
        loaded.plan.repeats.fixed.clear();
    }
    Ok(Some(loaded))
}

fn one(loaded: &Loaded, args: &RunArgs, detail: Detail, stop: &Stop) -> Result<u8, Failure> {
    let folder = args.output.join(&loaded.experiment.name);
    keep_file(&folder, &loaded.experiment.text)?;
    if let Some((_, count)) = args.shard {
        scale::agree_on_shards(&folder, count)?;
    }
    let campaign = Campaign {
        experiment: &loaded.experiment,
        plan: &loaded.plan,
        claims: &loaded.claims,
        folder: &folder,
        siblings: &siblings(&args.output, &folder),
        threads: args.jobs.map_or_else(cores, usize::from),
        shard: args.shard,
        host: host(),
    };
    let started = clock::now();
    let mut progress = Display::new(&loaded.experiment.name, args.quiet, started);
    let finished = campaign.run(stop, |now| progress.show(now))?;
    progress.finish();
    for remark in &finished.remarks {
        talk(remark);
    }
    if stop.is_set() {
        return Ok(INTERRUPTED);
    }
    let elapsed = clock::now().duration_since(started);
    let code = if args.only_run || args.shard.is_some() {
        talk(&format!(
            "{}: {} repetitions run in {:.1} s",
            loaded.experiment.name,
            finished.ran,
            elapsed.as_secs_f64()
        ));
        0
    } else {
        verdicts::print(
            loaded,
            &finished.results,
            detail,
            args.strict,
            &summary(&finished, &folder, elapsed),
        )?
    };
    Ok(match (finished.failed, finished.missing, args.shard) {
        (1.., ..) => CELLS_FAILED,
        (0, 1.., None) if code == 0 => INCOMPLETE,
        _ => code,
    })
}

/// Returns the other folders of results in the output folder, in alphabetical order.
fn siblings(output: &Path, own: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(output).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path != own && path.join(EXPERIMENT_FILE).is_file()).collect();
    folders.sort();
    folders
}

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

/// Writes the experiment's file into its folder of results, unless it is there.
pub(super) fn keep_file(folder: &Path, text: &str) -> Result<(), Failure> {
    let path = folder.join(EXPERIMENT_FILE);
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| Failure::Create(folder.to_owned(), error))?;
    let unfinished = folder.join(format!("{EXPERIMENT_FILE}.{}", std::process::id()));
    let written = fs::write(&unfinished, text).and_then(|()| fs::rename(&unfinished, &path));
    written.map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        Failure::Create(path, error)
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the name of this host, for the journal.
fn host() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    return std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".to_owned());
}

/// Returns a time in words: `40 s`, `12 min`, `3 h 20 min`.
fn hours(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6_000 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Progress on the standard error: a bar on a terminal, else a line each 10 s.
struct Display {
    name: String,
    bar: Option<ProgressBar>,
    is_quiet: bool,
    told: Instant,
}

impl Display {
    fn new(name: &str, is_quiet: bool, started: Instant) -> Self {
        let bar = (!is_quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(4));
            let template = "{prefix} {bar:30} {pos}/{len} repetitions{msg}";
            // The template is fixed, and the test of this module reads it.
            bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_prefix(name.to_owned());
            bar
        });
        Self { name: name.to_owned(), bar, is_quiet, told: started }
    }

    fn show(&mut self, now: &Progress) {
        let time = clock::now();
        if let Some(bar) = &self.bar {
            bar.set_length(now.wanted);
            bar.set_position(now.done);
        }
        let interval = if self.bar.is_some() { BAR_INTERVAL } else { PROGRESS_INTERVAL };
        if self.is_quiet || time.duration_since(self.told) < interval {
            return;
        }
        self.told = time;
        let left = now.left(time).map_or_else(String::new, |left| format!(", about {} left", hours(left)));
        match &self.bar {
            Some(bar) => bar.set_message(left),
            None => talk(&format!("{}: {} of {} repetitions{left}", self.name, now.done, now.wanted)),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
