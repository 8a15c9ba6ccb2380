//! `rdt-lab sweep`: a full factorial from the command line.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use super::folder::{keep_experiment, nearest_metric, of_folder};
use super::output;
use super::run::{RunArgs, run};
use crate::cell::{Cell, EngineKind, hex, levels_json};
use crate::experiment::Experiment;
use crate::report::scale::Unit;
use crate::results::Results;
use crate::run::EXPERIMENT_FILE;
use crate::statistics::{Interval, mean, t_interval};

/// Words of the path unless the sweep sets them.
const DEFAULT_PATH: [(&str, &str); 3] = [("rtt", "20ms"), ("rate", "8mbit"), ("queue", "50p")];
/// Duration of a repetition, unless the flow has a number of bytes.
const DEFAULT_DURATION: &str = "10s";

const HELP: &str = "\
Runs every combination of the levels on one flow over one path, and prints mean and 95 %
interval of the metric. Words and units are those of experiment files (docs/LAB.md for flows,
docs/PATHS.md for paths); the flow has the name a, so flow.cc means flow.a.cc. Defaults: a TCP
flow of 10 s; a path with 8 Mbit/s, a round-trip time of 20 ms and a queue of 50 packets.

Examples:
  rdt-lab sweep path.rate=1mbit,8mbit flow.cc=reno,cubic
  rdt-lab sweep flow.receiver.window=16kib,64kib path.rtt=2ms,80ms --flow cc=cubic --path loss=0.1%
  rdt-lab sweep flow.initial-window=1,4,10 --flow bytes=100kb --by completion
  rdt-lab sweep path.rate=1mbit,8mbit --show > grid.toml";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct SweepArgs {
    /// Factors with their levels, such as path.rate=1mbit,8mbit
    #[arg(value_name = "WORD=LEVELS", required = true, value_parser = setting)]
    factors: Vec<(String, String)>,
    /// Words of the path with one value, such as loss=0.1%,rtt=50ms
    #[arg(long, value_name = "WORD=VALUE", value_delimiter = ',', value_parser = setting)]
    path: Vec<(String, String)>,
    /// Words of the flow with one value, such as cc=cubic,bytes=1mb
    #[arg(long, value_name = "WORD=VALUE", value_delimiter = ',', value_parser = setting)]
    flow: Vec<(String, String)>,
    /// Duration of a repetition, such as 10s or 500ms [default: 10s, or the end of the flow if it
    /// has bytes or stop]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<String>,
    /// Metric to print, such as goodput, completion or retransmitted
    #[arg(long, value_name = "METRIC", default_value = "goodput")]
    by: String,
    /// Engine: virtual, packets, kernel or real
    #[arg(long, value_name = "NAME", default_value = "virtual", value_parser = super::load::engine)]
    engine: EngineKind,
    /// Repetitions of each cell, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeats: u32,
    /// Threads for engines of virtual time, 1 to 1024 [default: one for each core]
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Folder for results; each sweep has its own folder in it
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
    /// Print the sweep as an experiment file, and run nothing
    #[arg(long)]
    show: bool,
    /// Print JSON, one object for each cell
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Parses `WORD=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match text.split_once('=') {
        Some((word, value)) if !word.is_empty() && !value.is_empty() && word.chars().all(is_word) => {
            Ok((word.to_owned(), value.to_owned()))
        }
        _ => Err(format!("'{text}' is not a word with its values: write one such as path.rate=1mbit,8mbit")),
    }
}

pub(super) fn sweep(args: &SweepArgs) -> Result<u8, Failure> {
    let text = file(args);
    let experiment = Experiment::from_toml(&text)
        .map_err(|error| Failure::Usage(format!("the sweep as a file: {error}")))?;
    if args.show {
        output::text(&text)?;
        return Ok(0);
    }
    let folder = args.output.join(&experiment.name);
    keep_experiment(&folder, &experiment)?;
    let code = run(&RunArgs {
        experiments: vec![folder.join(EXPERIMENT_FILE).display().to_string()],
        engine: vec![args.engine],
        jobs: args.jobs,
        output: args.output.clone(),
        only_run: true,
        quiet: args.quiet,
        ..RunArgs::default()
    })?;
    let (_, results) = of_folder(&folder)?;
    if code == 0 && results.cells.iter().all(|cell| results.values(cell, &args.by).is_empty()) {
        let nearest = nearest_metric(&args.by, &results);
        return Err(Failure::Usage(format!("no cell has the metric '{}'; {nearest}", args.by)));
    }
    print(args, &results)?;
    if !args.json {
        output::text(&format!("The sweep as a file: {}\n", folder.join(EXPERIMENT_FILE).display()))?;
    }
    Ok(code)
}

/// Returns the text of the experiment file. The name of the experiment has a hash of its content,
/// so that different sweeps have different folders.
fn file(args: &SweepArgs) -> String {
    let of_flow = |word: &str| {
        word.strip_prefix("flow.").map(|rest| rest.strip_prefix("a.").unwrap_or(rest).to_owned())
    };
    let swept = |word: &str| args.factors.iter().any(|(factor, _)| factor == word);
    let mut body = format!("engine = {}\n", quoted(args.engine.word()));
    let is_end = |word: &str| word == "bytes" || word == "stop";
    let ends = args.flow.iter().any(|(word, _)| is_end(word))
        || args.factors.iter().any(|(word, _)| word == "for" || of_flow(word).is_some_and(|it| is_end(&it)));
    match &args.duration {
        Some(duration) => put(&mut body, "for", duration),
        None if !ends => put(&mut body, "for", DEFAULT_DURATION),
        None => {}
    }
    body += "\n[path]\n";
    for (word, value) in DEFAULT_PATH {
        let is_set = args.path.iter().any(|(path, _)| path == word) || swept(&format!("path.{word}"));
        if !is_set {
            put(&mut body, word, value);
        }
    }
    for (word, value) in &args.path {
        put(&mut body, word, value);
    }
    body += "\n[[flow]]\nname = \"a\"\n";
    if !args.flow.iter().any(|(word, _)| word == "kind") {
        put(&mut body, "kind", "tcp");
    }
    for (word, value) in &args.flow {
        put(&mut body, word, value);
    }
    body += "\n[factors]\n";
    for (word, levels) in &args.factors {
        let word = of_flow(word).map_or_else(|| word.clone(), |rest| format!("flow.a.{rest}"));
        let levels: Vec<String> = levels.split(',').map(|level| quoted(level.trim())).collect();
        let _ = writeln!(body, "{word} = [{}]", levels.join(", "));
    }
    let repeats = args.repeats;
    let _ = write!(body, "\n[repeats]\nleast = {repeats}\nmost = {repeats}\nuntil = \"least\"\n");
    let digest = Sha256::digest(body.as_bytes());
    let words: Vec<&str> = args.factors.iter().map(|(word, _)| word.as_str()).collect();
    format!(
        "schema = 1\nname = \"sweep-{}\"\ntitle = {}\n{body}",
        hex(&digest[..4]),
        quoted(&format!("Sweep over {}", words.join(", ")))
    )
}

/// Adds a line with a word and its value.
fn put(body: &mut String, word: &str, value: &str) {
    let _ = writeln!(body, "{word} = {}", quoted(value));
}

/// Returns a TOML string. JSON escapes are TOML escapes.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn print(args: &SweepArgs, results: &Results) -> Result<(), Failure> {
    let unit = Unit::of_metric(&args.by);
    let suffix = output::unit_suffix(&args.by);
    let names = results.cells.first().map_or(&[][..], |cell| cell.factors.as_slice());
    let mut heading: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
    let interval = |cell: &Cell| {
        let has = !results.is_one_run(cell.id) && results.missing(cell, &args.by).0 == 0;
        t_interval(&results.values(cell, &args.by), 0.95).filter(|_| has)
    };
    let has_intervals = results.cells.iter().any(|cell| interval(cell).is_some());
    heading.push(args.by.clone());
    heading.extend(has_intervals.then(|| "95 %".to_owned()));
    heading.push("repetitions".to_owned());
    let mut rows = vec![heading];
    for cell in &results.cells {
        let values = results.values(cell, &args.by);
        let (missing, all) = results.missing(cell, &args.by);
        // A mean over those that have the metric would mislead.
        let mean = mean(&values).filter(|_| missing == 0);
        let interval = interval(cell);
        if args.json {
            output::json(&json!({
                "cell": cell.id.to_string(),
                "engine": cell.physics.engine.word(),
                "factors": levels_json(&cell.factors),
                "metric": args.by,
                format!("mean{suffix}"): mean,
                format!("interval_95{suffix}"): interval.map(|it| [it.low, it.high]),
                "repetitions": all,
                "without_value": missing,
            }))?;
        }
        let mut row: Vec<String> = cell.factors.iter().map(|(_, level)| level.clone()).collect();
        row.push(match mean {
            Some(mean) => unit.text(mean),
            None if all == 0 => "-".to_owned(),
            None => format!("missing in {missing} of {all}"),
        });
        let ends = |it: Interval| format!("{} to {}", unit.text(it.low), unit.text(it.high));
        row.extend(has_intervals.then(|| interval.map_or_else(|| "-".to_owned(), ends)));
        let equal = if results.is_one_run(cell.id) { ", equal: nothing is random" } else { "" };
        row.push(format!("{all}{equal}"));
        rows.push(row);
    }
    if args.json { Ok(()) } else { output::text(&output::table(&rows)) }
}
