//! Commands of `rdt-lab`. Data goes to the standard output, all else to the standard error.
//!
//! | file | owns |
//! |---|---|
//! | `args.rs` | arguments and help |
//! | `failure.rs` | errors and exit codes |
//! | `load.rs` | experiments from files and from the program |
//! | `output.rs` | the standard output |
//! | `list.rs` | `list`, `show`, `plan` |
//! | `report.rs` | `report`, `export` |
//! | `run.rs` | `run` |
//! | `expected.rs` | expected values beside measured ones |
//! | `verdicts.rs` | `claims`, `status`, and the text at the end of `run` |

mod args;
mod expected;
mod failure;
mod list;
mod load;
mod output;
mod report;
mod run;
mod verdicts;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use failure::Failure;

/// Runs `rdt-lab` with these arguments, of which the first is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    rdt_program::signals::survive_file_size_limit();
    let result = match Args::try_parse_from(args) {
        Ok(args) => dispatch(args.command),
        Err(error) if error.use_stderr() => {
            Err(Failure::Usage(format!("{}; see --help", rdt_program::argument_error(&error))))
        }
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

fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::List(args) => list::list(&args),
        Command::Show(args) => list::show(&args),
        Command::Plan(args) => list::plan(&args),
        Command::Run(args) => run::run(&args),
        Command::Claims(args) => verdicts::claims(&args),
        Command::Status(args) => verdicts::status(&args),
        Command::Report(args) => report::report(&args),
        Command::Export(args) => report::export(&args),
    }
}

/// Prints a line to the standard error, after the program's name.
fn talk(line: &str) {
    rdt_program::talk(&format!("rdt-lab: {line}"));
}
