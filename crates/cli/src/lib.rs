//! The programs `rdt-send` and `rdt-recv`: arguments, lines, files and exit codes around rdt's machines.
//! Everything that moves data is in the other crates.

mod args;
mod exit;
mod output;
mod recv;
mod resources;
mod send;
mod socket;

pub use args::{RecvArgs, SendArgs};
pub use exit::Failure;
pub use resources::processor_time;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use rdt_program::signals::survive_file_size_limit;
use rdt_program::{argument_error, start_logging, talk};

/// Runs `rdt-send` with these arguments.
pub fn rdt_send(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run("rdt-send", args, send::command)
}

/// Runs `rdt-recv` with these arguments.
pub fn rdt_recv(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run("rdt-recv", args, recv::command)
}

fn run<A: Parser>(
    program: &str,
    args: impl IntoIterator<Item = OsString>,
    command: fn(&A) -> Result<(), Failure>,
) -> ExitCode {
    start_logging();
    let args = match A::try_parse_from(args) {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            talk(&format!("{program}: {}; see --help", argument_error(&error)));
            return ExitCode::from(rdt_program::exit::USAGE);
        }
        Err(help) => {
            // Nothing can be told if the terminal is gone.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    survive_file_size_limit();
    match command(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(sentence) = failure.sentence() {
                talk(&format!("{program}: {sentence}"));
            }
            ExitCode::from(failure.code())
        }
    }
}
