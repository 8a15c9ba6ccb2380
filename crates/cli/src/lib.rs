//! The programs `rdt-send` and `rdt-recv`: arguments, lines, files and exit codes around rdt's machines.
//! Everything that moves data is in the other crates.

mod args;
mod console;
mod crew;
mod exit;
mod interrupt;
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
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RDT_LOG").unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let args = match A::try_parse_from(args) {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            console::talk(&format!("{program}: {}; see --help", sentence(&error)));
            return ExitCode::from(exit::USAGE);
        }
        Err(help) => {
            // Nothing can be told if the terminal is gone.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    interrupt::survive_size_limit();
    match command(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(sentence) = failure.sentence() {
                console::talk(&format!("{program}: {sentence}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

/// What is wrong with the arguments, in one line: without the usage, which is no help to find it.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").to_string()
}
