//! The programs `rdt-send` and `rdt-recv`: arguments, output, files and exit codes. The protocol,
//! the sockets and the event loop are in other crates.
//!
//! | folder | contents |
//! |---|---|
//! | `args/` | command lines, read into typed values |
//! | `compare.rs` | `rdt-send compare` |
//! | `send/` | `rdt-send`: configuration, data source, transfer, embedded receiver |
//! | `recv/` | `rdt-recv`: threads, application, store |
//! | `kernel/` | `--wire tcp` and `--wire udp`, on Linux |
//! | `output/` | status lines, logs, summaries |

mod args;
mod compare;
mod exit;
mod kernel;
/// All output of the programs except errors, as text and as JSON.
mod output {
    pub(crate) mod counters;
    pub(crate) mod format;
    pub(crate) mod limit;
    pub(crate) mod log;
    pub(crate) mod packet_log;
    pub(crate) mod receiver_report;
    pub(crate) mod rtt_histogram;
    pub(crate) mod sockets;
    pub(crate) mod status;
    pub(crate) mod summary;
}
mod recv;
mod resources;
mod send;
mod socket;

use args::{RecvArgs, SendArgs};
use compare::CompareArgs;
pub use exit::Failure;
pub use resources::processor_time;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use rdt_program::signals::survive_file_size_limit;
use rdt_program::{start_logging, talk};

/// Returns the command lines of `rdt-send` and `rdt-recv`, for manual pages and completions.
pub fn command_lines() -> [clap::Command; 2] {
    [SendArgs::command(), RecvArgs::command()]
}

/// Runs `rdt-send` with these arguments.
pub fn rdt_send(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    match compare::arguments(&args) {
        Some(args) => run("rdt-send", CompareArgs::try_parse_from(args), compare::command),
        None => run("rdt-send", SendArgs::read(args), send::command),
    }
}

/// Runs `rdt-recv` with these arguments.
pub fn rdt_recv(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run("rdt-recv", RecvArgs::read(args), recv::command)
}

fn run<A>(program: &str, args: Result<A, clap::Error>, command: fn(&A) -> Result<(), Failure>) -> ExitCode {
    start_logging();
    let args = match args {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            let (sentence, code) = args::rejection(&error);
            talk(&format!("{program}: {sentence}"));
            return ExitCode::from(code);
        }
        Err(help) => {
            // Fails only if the standard output is closed.
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
