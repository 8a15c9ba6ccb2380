//! Internal part of rdt: the program `rdt-tunnel`, which carries TCP connections of any program
//! over encrypted rdt connections. Each TCP connection has an rdt connection of its own; all share
//! one UDP socket.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | arguments | `args.rs` | command line |
//! | serve | `serve.rs` | accepting rdt connections, connecting to the target |
//! | connect, stdio | `connect.rs` | accepting TCP connections; standard input and output |
//! | link | `link.rs` | connections from this side to one peer: addresses, keys, cookies |
//! | session | `session.rs` | one connection until its end; resets in both directions |
//! | copy | `copy.rs` | both directions of a session, half-close |
//! | protocol | `protocol.rs` | first byte of a stream, codes of CLOSE |
//! | report | `report.rs` | remarks, JSON, counters |
#![forbid(unsafe_code)]

mod args;
mod connect;
mod copy;
mod link;
mod protocol;
mod report;
mod serve;
mod session;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use rdt_program::exit::{CANNOT_CREATE, INTERRUPTED};
use rdt_program::{Console, Failure, Remarks, TaskStop, rejection};

use crate::args::{Arguments, Command, KeyArgs, OutputArgs, SecretArgs};
use crate::report::Report;

/// Returns the command line of `rdt-tunnel`, for manual pages and completions.
pub fn command_line() -> clap::Command {
    Arguments::command()
}

/// Runs `rdt-tunnel` with these arguments, of which the first is the program's name.
pub fn rdt_tunnel(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let reject = |error: &_| rejection(error, &Arguments::command());
    rdt_program::main("rdt-tunnel", Arguments::try_parse_from(args), reject, |args| Ok(run(&args.command)))
}

fn run(command: &Command) -> u8 {
    let console = Console::in_background().unwrap_or_default();
    let quiet = OutputArgs { quiet: true, json: false };
    let output = match command {
        Command::Serve(args) => &args.output,
        Command::Connect(args) => &args.output,
        Command::Stdio(args) => &OutputArgs { quiet: args.quiet, json: false },
        Command::Key(_) | Command::Secret(_) => &quiet,
    };
    let report = Report::new(console, output, Remarks::in_background());
    let code = match dispatch(command, &report) {
        Ok(0) => 0,
        Ok(_) => INTERRUPTED,
        Err(failure) => {
            if let Some(sentence) = failure.sentence() {
                report.fail(sentence);
            }
            failure.code()
        }
    };
    match report.summary(code) {
        Err(error) => {
            let failure = Failure::stdout(error);
            report.fail(&failure.to_string());
            if code == 0 { failure.code() } else { code }
        }
        Ok(()) => code,
    }
}

/// Runs a command. Returns the number of sessions that were open when it was stopped.
fn dispatch(command: &Command, report: &Report) -> Result<usize, Failure> {
    match command {
        Command::Key(args) => print_key(args, report).map(|()| 0),
        Command::Secret(args) => make_secret(args).map(|()| 0),
        Command::Serve(args) => until_stopped(async |stop| serve::serve(args, report, stop).await),
        Command::Connect(args) => until_stopped(async |stop| connect::connect(args, report, stop).await),
        Command::Stdio(args) => until_stopped(async |stop| connect::stdio(args, report, stop).await),
    }
}

fn until_stopped(run: impl AsyncFnOnce(&TaskStop) -> Result<usize, Failure>) -> Result<usize, Failure> {
    let stop = TaskStop::at_interrupt();
    let stop = stop.map_err(|error| Failure::system("no handler of Ctrl-C")(std::io::Error::other(error)))?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().map_err(Failure::system("cannot start threads"))?;
    let result = runtime.block_on(run(&stop));
    // A read of the standard input cannot be cancelled, and must not delay the end.
    runtime.shutdown_background();
    result
}

fn print_key(args: &KeyArgs, report: &Report) -> Result<(), Failure> {
    let key = rdt_trust::identity(args.identity.as_deref(), &report.surroundings())?.public();
    report.result(&key.to_string(), || serde_json::Value::Null);
    Ok(())
}

fn make_secret(args: &SecretArgs) -> Result<(), Failure> {
    let mut entropy = rdt_trust::os_entropy().map_err(Failure::system("no random numbers"))?;
    rdt_trust::create_secret(&args.file, &mut entropy)
        .map_err(|error| Failure::new(CANNOT_CREATE, format_args!("cannot make the secret: {error}")))?;
    Ok(())
}
