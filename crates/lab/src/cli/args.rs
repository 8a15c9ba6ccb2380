//! Arguments and help.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::compare::CompareArgs;
use super::doctor::DoctorArgs;
use super::import::ImportArgs;
use super::merge::MergeArgs;
use super::rows::Form;
use super::scale::ScaleArgs;
use super::status::StatusArgs;
use super::sweep::SweepArgs;
use super::trace::TraceArgs;
use crate::cell::EngineKind;

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    a claim fails, or compare finds worse results
  2    some repetitions failed
  3    repetitions are missing
  4    a claim is undecided (with --strict)
  64   wrong arguments or experiment file
  65   results that do not fit together
  66   a file cannot be read
  69   this host or program cannot run the engine
  73   a folder or file cannot be created
  74   results cannot be written
  130  stopped; what is done is kept";

const EXAMPLES: &str = "\
Examples:
  rdt-lab list                          the experiments of the program
  rdt-lab run 000-A                     run one in virtual time
  rdt-lab show 000-A > mine.toml        copy it, to change it
  rdt-lab plan mine.toml                what it would run, and how long that takes
  rdt-lab run mine.toml -o results      run it; the same command again goes on where it stopped
  rdt-lab claims results/mine --json    the verdicts
  rdt-lab report results --text         means and series as text
  rdt-lab export results/mine --svg     figures for a paper";

/// Runs network experiments that are written down, and says whether their claims hold.
#[derive(Debug, Parser)]
#[command(name = "rdt-lab", version, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the experiments of the program
    List(ListArgs),
    /// Print the file of an experiment
    Show(ShowArgs),
    /// Print the cells of an experiment without running it
    Plan(PlanArgs),
    /// Run what is missing of an experiment, and judge its claims
    Run(RunArgs),
    /// Judge the claims of results without running anything
    Claims(ClaimsArgs),
    /// Print which limit binds each flow, and the number that would lift it
    Limits(LimitsArgs),
    /// Print what is done, what is missing, and the line that runs it
    Status(StatusArgs),
    /// Compare two folders of results cell by cell, and fail with code 1 if the second is worse
    Compare(CompareArgs),
    /// Run a grid without a file
    Sweep(SweepArgs),
    /// Print what this machine can run, and the remedy for what it cannot
    Doctor(DoctorArgs),
    /// Print the job script or manifest that runs an experiment in shards
    Scale(ScaleArgs),
    /// Write the report of results without running anything
    Report(ReportArgs),
    /// Write the figures of results as files, or print the repetitions as rows
    Export(ExportArgs),
    /// Runs flows or programs for the engines of real time, which start it.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Load(LoadArgs),
    /// Join the results of shards or hosts in one folder, and check that they fit together
    Merge(MergeArgs),
    /// Print the JSON schema of everything that --json prints, and of journals
    Schema,
    /// Analyse a table of foreign results as a factorial
    Import(ImportArgs),
    /// Analyse the TCP connections of a capture
    Trace(TraceArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Only experiments of this document: 000
    #[arg(long, value_name = "NUMBER")]
    pub(super) seed_doc: Option<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Identity of an experiment: 000-A
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct PlanArgs {
    /// Identity of an experiment, or its file
    #[arg(value_name = "ID|FILE", required_unless_present = "all")]
    pub(super) experiment: Option<String>,
    /// All experiments of the program, a line for each
    #[arg(long, conflicts_with = "experiment")]
    pub(super) all: bool,
    /// Only these engines: virtual,packets
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = engine)]
    pub(super) engine: Vec<EngineKind>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct RunArgs {
    /// Identities of experiments, or their files
    #[arg(value_name = "ID|FILE", required_unless_present = "all")]
    pub(super) experiments: Vec<String>,
    /// Run all experiments of the program
    #[arg(long, conflicts_with = "experiments")]
    pub(super) all: bool,
    /// Only these engines [default: those of the experiment that run in virtual time, or all if
    /// none does]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = engine)]
    pub(super) engine: Vec<EngineKind>,
    /// Run this program as {client} of experiments with a table [command]: './a.out --fast'
    #[arg(long, value_name = "COMMAND", conflicts_with = "all")]
    pub(super) client: Option<String>,
    /// Draw the seed from the bytes of FILE, which the experiment does not show
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub(super) seed_file: Option<PathBuf>,
    /// Run exactly N repetitions of each cell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "quick")]
    pub(super) repeats: Option<u32>,
    /// Run three repetitions of each cell
    #[arg(long)]
    pub(super) quick: bool,
    /// Threads for virtual time [default: one for each core]
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) jobs: Option<u16>,
    /// Run part I of N of the cells, from 0: 3/16
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(super) shard: Option<(u32, u32)>,
    /// Folder of results; each experiment has its own folder in it [default: results]
    #[arg(short, long, value_name = "DIR", default_value = "results", hide_default_value = true)]
    pub(super) output: PathBuf,
    /// Print no verdicts and write no report
    #[arg(long)]
    pub(super) only_run: bool,
    /// Fail with code 4 if a claim is undecided
    #[arg(long)]
    pub(super) strict: bool,
    /// Print the verdicts as JSON, one object a line
    #[arg(long)]
    pub(super) json: bool,
    /// Do not print progress
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Print each verdict and expected value, as `claims` does
    #[arg(long, short, conflicts_with = "json")]
    pub(super) verbose: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ClaimsArgs {
    /// Folders of results of one experiment each
    #[arg(value_name = "DIR", required = true)]
    pub(super) folders: Vec<PathBuf>,
    /// Fail with code 4 if a claim is undecided
    #[arg(long)]
    pub(super) strict: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct LimitsArgs {
    /// Folders of results
    #[arg(value_name = "DIR", required = true)]
    pub(super) folders: Vec<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Folders of results
    #[arg(value_name = "DIR", required = true)]
    pub(super) folders: Vec<PathBuf>,
    /// File of the report [default: report.html in the first folder]
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    pub(super) output: Option<PathBuf>,
    /// Print the report as text instead
    #[arg(long)]
    pub(super) text: bool,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct ExportArgs {
    /// Folders of results
    #[arg(value_name = "DIR", required = true)]
    pub(super) folders: Vec<PathBuf>,
    /// Folder of the files [default: figures]
    #[arg(short, long, value_name = "DIR", default_value = "figures", hide_default_value = true)]
    pub(super) output: PathBuf,
    /// Print one row for each repetition, with its levels and metrics, instead of figures
    #[arg(long, value_name = "FORM", conflicts_with_all = ["svg", "csv", "gnuplot", "xplot"])]
    pub(super) rows: Option<Form>,
    /// Only pictures
    #[arg(long)]
    pub(super) svg: bool,
    /// Only data as CSV
    #[arg(long)]
    pub(super) csv: bool,
    /// Only commands and data for gnuplot
    #[arg(long)]
    pub(super) gnuplot: bool,
    /// Only files for xplot
    #[arg(long)]
    pub(super) xplot: bool,
}

/// Arguments of the hidden `load` command.
#[cfg(target_os = "linux")]
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// Request of the engine
    #[arg(value_name = "FILE", required_unless_present_any = ["try_only", "exec"])]
    pub(super) file: Option<PathBuf>,
    /// Only hold the network of the far end
    #[arg(long)]
    pub(super) far: bool,
    /// Do nothing
    #[arg(long = "try")]
    pub(super) try_only: bool,
    /// Become this command line of a shell, which ends with the process that started it
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    pub(super) exec: Option<std::ffi::OsString>,
    /// Run the command line beside this process, and write the seconds that it took to FILE
    #[arg(long, value_name = "FILE", requires = "exec")]
    pub(super) time_to: Option<PathBuf>,
}

pub(super) fn engine(text: &str) -> Result<EngineKind, String> {
    text.parse().map_err(|()| {
        let words = EngineKind::ALL.map(EngineKind::word).join(", ");
        format!("there is no engine '{text}': choose one of {words}")
    })
}

/// Limit on the number of shards.
pub(super) const MAX_SHARDS: u32 = 10_000;

/// Parses `I/N`.
fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts =
        text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    parts.filter(|(index, count)| index < count && *count <= MAX_SHARDS).ok_or_else(|| {
        format!("'{text}' is not a part and a number of parts up to {MAX_SHARDS}, such as 0/4 or 3/4")
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn shards_count_from_zero() {
        assert_eq!(shard("3/4"), Ok((3, 4)));
        for wrong in ["4/4", "1", "a/b", "-1/4", "0/0", "0/4000000000"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
