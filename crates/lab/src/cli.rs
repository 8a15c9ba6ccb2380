//! Commands of `rdt-lab`. Data goes to the standard output, all else to the standard error.
//!
//! | file | owns |
//! |---|---|
//! | `args.rs` | list of commands, help of the program |
//! | `failure.rs` | errors and exit codes |
//! | `load.rs` | experiments from files and from the program, folders of results |
//! | `output.rs` | the standard output |
//! | `files.rs` | files of reports and figures |
//! | `folder.rs` | one folder of results |
//! | `page.rs` | the report on folders of results |
//! | `shards.rs` | names and number of shards, the line that runs missing ones |
//! | `shell.rs` | words and programs of a shell |
//! | `list.rs` | `list`, `show`, `plan` |
//! | `run.rs` | `run` |
//! | `homework.rs` | programs of students, secret seeds, points |
//! | `claims.rs` | `claims` |
//! | `verdicts.rs` | verdicts of an experiment, and their exit code |
//! | `expected.rs` | expected values beside measured ones |
//! | `report.rs` | `report`, `limits`, `export` |
//! | `rows.rs` | `export --rows`, and columns of all tables of repetitions |
//! | `parquet.rs` | `export --parquet` (feature `parquet`) |
//! | `status.rs` | `status` |
//! | `scale.rs` | `scale` |
//! | `merge.rs` | `merge` |
//! | `compare.rs` | `compare` |
//! | `sweep.rs` | `sweep` |
//! | `trace.rs` | `trace` |
//! | `import.rs` | `import` |
//! | `doctor.rs` | `doctor` |

mod args;
mod claims;
mod compare;
mod doctor;
mod expected;
mod failure;
mod files;
mod folder;
mod homework;
mod import;
mod list;
mod load;
mod merge;
mod output;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
mod rows;
mod run;
mod scale;
mod shards;
mod shell;
mod status;
mod sweep;
mod trace;
mod verdicts;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Args, Command};
use failure::Failure;

/// JSON schema of the output and of journals.
const SCHEMA: &str = include_str!("../assets/schema.json");

/// Returns the command line of `rdt-lab`, for manual pages and completions.
pub fn command_line() -> clap::Command {
    Args::command()
}

/// Runs `rdt-lab` with these arguments, of which the first is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    #[cfg(target_os = "linux")]
    match &args[..] {
        [name, ..] if name == EMULATOR => return emulator(args),
        [_, load, option, arguments @ ..] if load == "load" && option == "--emulator" => {
            return emulator(std::iter::once(EMULATOR.into()).chain(arguments.iter().cloned()).collect());
        }
        [_, command, ..] if command == FLOOD => return emulator(args),
        _ => {}
    }
    rdt_program::start_logging("rdt-lab");
    rdt_program::signals::survive_file_size_limit();
    #[cfg(target_os = "linux")]
    if let Ok(program) = std::env::current_exe() {
        crate::engine::use_program(program);
    }
    let result = match Args::try_parse_from(args) {
        Ok(args) => dispatch(args.command),
        Err(error) if rdt_program::help_without_command(&error) => Ok(rdt_program::exit::USAGE),
        Err(error) if error.use_stderr() => Err(Failure::Usage(format!(
            "{}; see --help",
            rdt_program::command_error(&error, &Args::command())
        ))),
        Err(help) => output::text(&help.to_string()).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            talk(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

/// First argument with which this program is `rdt-emu`, for the paths of engines of real time.
#[cfg(target_os = "linux")]
const EMULATOR: &str = "rdt-emu";
/// Hidden command of `rdt-emu`, which sends or receives the load of a trial of this host.
#[cfg(target_os = "linux")]
const FLOOD: &str = "flood";

#[cfg(target_os = "linux")]
fn emulator(args: Vec<OsString>) -> ExitCode {
    if args.get(1).is_some_and(|command| command == "run") {
        // The path of a repetition must not outlive a campaign that is killed.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
    rdt_emu::rdt_emu(args)
}

/// Runs the hidden `load` command, and exits without waiting for the threads of flows.
#[cfg(target_os = "linux")]
fn load_flows(args: &args::LoadArgs) -> Result<u8, Failure> {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match (&args.exec, &args.time_to) {
        (Some(line), Some(file)) => return timed(line, file),
        (Some(line), None) => {
            use std::os::unix::process::CommandExt as _;
            let error = std::process::Command::new("sh").arg("-c").arg(line).exec();
            return Err(Failure::Usage(format!("no shell: {error}")));
        }
        (None, _) => {}
    }
    let Some(file) = &args.file else { return Ok(0) };
    if args.far {
        crate::load::far(file)?;
        return Ok(0);
    }
    let counts = crate::load::run(file)?;
    output::print(&counts).map_err(Failure::Output)?;
    std::process::exit(0)
}

/// Runs a command line, writes the seconds that it took to a file, and returns its exit code.
#[cfg(target_os = "linux")]
fn timed(line: &OsString, file: &std::path::Path) -> Result<u8, Failure> {
    use std::os::unix::process::ExitStatusExt as _;
    let failed = |error: std::io::Error| Failure::Usage(format!("cannot start the program: {error}"));
    let begin = rdt_udp::clock::now();
    let program = std::env::current_exe().map_err(failed)?;
    let status = std::process::Command::new(program).args(["load", "--exec"]).arg(line).status();
    let status = status.map_err(failed)?;
    let seconds = rdt_udp::clock::now().duration_since(begin).as_secs_f64();
    std::fs::write(file, seconds.to_string()).map_err(|error| Failure::Create(file.to_owned(), error))?;
    let signal = || i32::from(rdt_program::exit::SIGNAL) + status.signal().unwrap_or(0);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX))
}

fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::List(args) => list::list(&args),
        Command::Show(args) => list::show(&args),
        Command::Plan(args) => list::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Claims(args) => claims::claims(&args),
        Command::Limits(args) => report::limits(&args),
        Command::Status(args) => status::status(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Scale(args) => scale::scale(&args),
        Command::Report(args) => report::report(&args),
        Command::Export(args) => match args.rows {
            Some(form) => rows::print(&args.folders, form),
            None => report::export(&args),
        },
        #[cfg(target_os = "linux")]
        Command::Load(args) => load_flows(&args),
        Command::Import(args) => import::import(&args),
        Command::Schema => output::text(SCHEMA).map(|()| 0),
        Command::Trace(args) => trace::trace(&args),
        Command::Merge(args) => merge::merge(&args),
    }
}

/// Prints remarks, each on a line of the standard error.
fn talk_all(remarks: &[String]) {
    for remark in remarks {
        talk(remark);
    }
}

/// Prints a line on the standard error, after the program's name.
fn talk(line: &str) {
    rdt_program::talk(&format!("rdt-lab: {line}"));
}
