//! Commands and exit codes.

use clap::{Parser, Subcommand};
use rdt_program::{ENVIRONMENT, VERSION};

use super::claims::ClaimsArgs;
use super::compare::CompareArgs;
use super::doctor::DoctorArgs;
use super::import::ImportArgs;
use super::list::{ListArgs, PlanArgs, ShowArgs};
use super::merge::MergeArgs;
use super::report::{ExportArgs, LimitsArgs, ReportArgs};
use super::run::RunArgs;
use super::scale::ScaleArgs;
use super::status::StatusArgs;
use super::sweep::SweepArgs;
use super::trace::TraceArgs;

const WORDS: &str = "\
Words:
  experiment   TOML file with a path, flows, factors and claims; an ID names one of the program
  factor       setting that takes several levels
  cell         one combination of levels with one engine
  repetition   one run of a cell with one seed
  engine       virtual, packets in virtual time, on any host; kernel, real, command in real time
  results      'run -o DIR' writes those of the experiment NAME into the folder DIR/NAME";

const EXIT_CODES: &str = "\
Exit codes (with several of 1 to 4, the first of 2, 1, 3, 4):
  0    success
  1    a claim fails, an expected value that must be met is not, or compare finds worse results
  2    repetitions failed
  3    repetitions are missing, or a claim or such an expected value was not measured
  4    a claim is undecided (only with --strict)
  64   wrong arguments or experiment file
  65   results that do not fit together
  66   a file or folder cannot be read, or has no results
  69   this host or program cannot run the engine or write the format
  73   a folder or file cannot be created
  74   results or the standard output cannot be written
  130  stopped by Ctrl-C or SIGTERM; finished repetitions are kept";

const EXAMPLES: &str = "\
Examples:
  rdt-lab list                          the experiments of the program
  rdt-lab run 000-A                     run one in virtual time
  rdt-lab show 000-A > mine.toml        copy it, to change it
  rdt-lab plan mine.toml                cells, repetitions, and how long they take
  rdt-lab run mine.toml -o results      run it; the same command again goes on where it stopped
  rdt-lab claims results/000-a --json   the verdicts
  rdt-lab report results --text         means and series as text
  rdt-lab export results/000-a --svg    figures for a paper";

const SCHEMA_HELP: &str = "\
Examples:
  rdt-lab schema > rdt-lab.schema.json
  rdt-lab schema | jq '.[\"$defs\"].claims'";

/// Runs network experiments that are written down, and says whether their claims hold
#[derive(Debug, Parser)]
#[command(name = "rdt-lab", version = VERSION, after_help = format!("{WORDS}\n\n{EXIT_CODES}\n\n{ENVIRONMENT}\n\n{EXAMPLES}"))]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the experiments of the program
    List(ListArgs),
    /// Print the files of experiments
    Show(ShowArgs),
    /// Print the cells of experiments, and how long they take, without running anything
    Plan(PlanArgs),
    /// Run the missing repetitions of experiments, judge their claims, and write a report
    Run(RunArgs),
    /// Judge the claims of results without running anything
    Claims(ClaimsArgs),
    /// Print what kept each flow from sending faster, and the number that would lift this limit
    Limits(LimitsArgs),
    /// Print what is done, missing or failed, and the line that runs what is missing
    Status(StatusArgs),
    /// Compare two folders of results cell by cell, and fail with code 1 if the second is worse
    Compare(CompareArgs),
    /// Run all combinations of some settings, without a file
    Sweep(SweepArgs),
    /// Print what this host can run, and the remedy for what it cannot
    Doctor(DoctorArgs),
    /// Print the job script or manifest that runs an experiment in shards
    Scale(ScaleArgs),
    /// Write the report on results without running anything
    Report(ReportArgs),
    /// Write the figures of results as files, or print the repetitions as rows
    Export(ExportArgs),
    /// Run flows or programs for the engines of real time, which start this command
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Load(LoadArgs),
    /// Join the results of shards or hosts in one folder, and check that they fit together
    Merge(MergeArgs),
    /// Print the JSON schema of everything that --json prints, and of journals
    #[command(after_help = SCHEMA_HELP)]
    Schema,
    /// Analyse a table of published or other foreign results as a factorial design
    Import(ImportArgs),
    /// Analyse the TCP connections of a capture
    Trace(TraceArgs),
}

/// Arguments of the hidden `load` command.
#[cfg(target_os = "linux")]
#[derive(Debug, clap::Args)]
pub(super) struct LoadArgs {
    /// File with the request of the engine
    #[arg(value_name = "FILE", required_unless_present_any = ["try_only", "exec"])]
    pub(super) file: Option<std::path::PathBuf>,
    /// Only hold the network of the far end
    #[arg(long)]
    pub(super) far: bool,
    /// Do nothing, to try whether the program starts
    #[arg(long = "try")]
    pub(super) try_only: bool,
    /// Become this command line of a shell, which ends with the process that started it
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    pub(super) exec: Option<std::ffi::OsString>,
    /// Run the command line beside this process, and write the seconds that it took to FILE
    #[arg(long, value_name = "FILE", requires = "exec")]
    pub(super) time_to: Option<std::path::PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }

    /// Returns every command that users see, and the program itself.
    fn commands() -> Vec<clap::Command> {
        let program = Args::command();
        let own = program.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        own.chain([program.clone()]).collect()
    }

    #[test]
    fn help_of_every_command_ends_with_examples() {
        for command in commands() {
            let name = command.get_name();
            let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = end.rsplit_once("Examples:\n").unwrap_or_else(|| panic!("{name}: {end}"));
            assert!(examples.lines().all(|line| line.starts_with("  rdt-lab ")), "{name}: {examples}");
            // Longer lines would be wrapped.
            assert!(end.lines().all(|line| line.chars().count() <= 100), "{name}: {end}");
        }
    }

    #[test]
    fn every_argument_has_help() {
        for command in commands() {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
