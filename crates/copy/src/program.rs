//! The program `rdt-copy`.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | arguments | `args.rs` | command line |
//! | location | `location.rs` | SRC and DEST: paths of this host, ssh hosts, tickets |
//! | connect | `connect.rs` | the connection of a copy, opened or accepted |
//! | ssh | `ssh.rs` | ssh as a child process, the ticket that it carries |
//! | server | `server.rs` | `--server`: the far side of a copy by ssh |
//! | serve | `serve.rs` | `--serve DIR`: clients with tickets or keys |
//! | paced | `paced.rs` | `--max-rate` |
//! | report | `report.rs` | remarks, summary |
//! | JSON | `json.rs` | events of `--json` |
//! | progress | `progress.rs` | bar on a terminal |
//! | printable | `printable.rs` | text of other users and hosts for a terminal |
//! | failure | `failure.rs` | errors and their exit codes |

mod args;
mod connect;
mod failure;
mod json;
mod location;
mod paced;
mod printable;
mod progress;
mod report;
mod serve;
mod server;
mod ssh;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use rdt_endpoint::tokio::Endpoint;
use rdt_program::exit::{INCOMPLETE, UNAVAILABLE};
use rdt_program::files::raise_descriptor_limit;
use rdt_program::{Failure, TaskStop, help_as_option, rejection, talk};
use rdt_trust::serving::LINGER;
use tokio::time::timeout;

use crate::session::{pull, pull_unconfirmed, push};
use crate::{DestinationOptions, Existing, Request, SourceOptions};
use args::{Arguments, OutputArgs};
use connect::Session;
use failure::{interrupted, of_copy};
use location::{Plan, doubt};
use paced::Paced;
use report::Report;
use ssh::Ssh;

/// Application's code in a CLOSE: the program was stopped. `docs/PROGRAMS.md` lists it.
const STOPPED: u32 = 1;
/// Application's code in a CLOSE: the copy has failed at the server, and the text says why.
const COPY_FAILED: u32 = 2;
/// Below this number of cores, one thread serves the network of a copy without output, and leaves
/// the other core to the thread of the files. Its effect on the speed was not measured apart from
/// other changes: `docs/measurements/2026-11-26-copy.md`.
const MIN_CORES: usize = 4;

/// Returns the command line of `rdt-copy`, for manual pages and completions.
pub fn command_line() -> clap::Command {
    Arguments::command()
}

/// Runs `rdt-copy` with these arguments, of which the first is the program's name.
pub fn rdt_copy(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = Arguments::try_parse_from(help_as_option(args));
    let reject = |error: &_| rejection(error, &Arguments::command());
    rdt_program::main("rdt-copy", args, reject, |args| Ok(run(&args)))
}

fn run(args: &Arguments) -> u8 {
    let report = Report::new(&args.output, args.serve.serve.is_some());
    let failure = match dispatch(args, &report) {
        Ok(()) => None,
        // The client at the other side of ssh says why.
        Err(failure) if args.server && failure.is_interrupted() => return failure.code(),
        Err(failure) => Some(failure),
    };
    let code = failure.as_ref().map_or(0, Failure::code);
    match report.summarize(code, failure.as_ref()) {
        Err(error) => {
            let failure = Failure::stdout(error);
            talk(&format!("rdt-copy: {failure}"));
            if code == 0 { failure.code() } else { code }
        }
        Ok(()) => code,
    }
}

fn dispatch(args: &Arguments, report: &Report) -> Result<(), Failure> {
    raise_descriptor_limit();
    let stop = TaskStop::at_interrupt();
    let stop = stop.map_err(|error| Failure::system("no handler of Ctrl-C")(std::io::Error::other(error)))?;
    let is_small = std::thread::available_parallelism().is_ok_and(|cores| cores.get() < MIN_CORES);
    let mut builder = if is_small && is_silent(args) {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build().map_err(Failure::system("cannot start threads"))?;
    let result = runtime.block_on(async {
        match &args.serve.serve {
            _ if args.server => server::server(args, report, &stop).await,
            Some(folder) => serve::serve(args, folder, report, &stop).await,
            None => copy(args, report, &stop).await,
        }
    });
    // A read of the standard input or of a slow disk must not delay the end.
    runtime.shutdown_background();
    result
}

/// Returns true if the program prints nothing while it copies files. Otherwise a slow reader of its
/// output, such as a full pipe or a stopped terminal, can hold up the thread that prints. If that
/// thread also served the network, the peer would give up a connection that does not answer.
fn is_silent(args: &Arguments) -> bool {
    let OutputArgs { quiet, json } = args.output;
    let has_lines = json || args.destination.dry_run;
    let has_remarks = args.serve.serve.is_some() || std::io::stderr().is_terminal();
    args.server || (!has_lines && (quiet || !has_remarks))
}

/// Copies in the direction that the arguments give.
async fn copy(args: &Arguments, report: &Report, stop: &TaskStop) -> Result<(), Failure> {
    let plan = Plan::parse(&args.paths)?;
    let doubts = args.source.exclude.iter().filter_map(|pattern| doubt(pattern, &plan.sources));
    doubts.for_each(|line| report.remark(&line));
    let session = tokio::select! {
        session = connect::open(args, &plan.far, report) => session?,
        () = stop.wait() => return Err(interrupted()),
    };
    let Session { endpoint, stream, name, dialer, mut ssh } = session;
    report.connected(&name, stream.peer_addr());
    let (is_push, by_ssh) = (plan.is_push, ssh.is_some());
    let request = request(args, plan);
    stream.set_nodelay(true);
    let observer = Arc::new(report.clone());
    let result = {
        let stream = Paced::new(stream, args.path.max_rate);
        let copied = async {
            if is_push {
                push(stream, request, observer).await
            } else if by_ssh {
                // The end of ssh ends the far side.
                pull_unconfirmed(stream, request, observer).await
            } else {
                pull(stream, request, observer).await
            }
        };
        let far_end = async {
            match &mut ssh {
                Some(ssh) => ssh.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            copied = copied => copied.map_err(|error| of_copy(error, &name, dialer.as_ref())),
            failure = far_end => Err(failure),
            () = stop.wait() => Err(interrupted()),
        }
    };
    let result = result.map_err(|failure| if stop.is_set() { interrupted() } else { failure });
    match &result {
        // This side knows that the copy is complete, and its last packets have left. The far side
        // waits for them if they are lost.
        Ok(_) => ssh.into_iter().for_each(Ssh::leave),
        Err(failure) => stop_far_side(failure, &endpoint, ssh).await,
    }
    if result?.is_complete() { Ok(()) } else { Err(Failure::new(INCOMPLETE, "some files were not copied")) }
}

/// Tells the far side that the copy has failed, and waits until it knows.
async fn stop_far_side(failure: &Failure, endpoint: &Endpoint, ssh: Option<Ssh>) {
    endpoint.close(STOPPED, "rdt-copy was stopped there");
    // Without ssh, the far side was killed, or ends by itself: it need not confirm the end.
    if failure.code() != UNAVAILABLE {
        let _ = timeout(LINGER, endpoint.wait_idle()).await;
    }
    if let Some(ssh) = ssh {
        ssh.finish().await;
    }
}

fn request(args: &Arguments, plan: Plan) -> Request {
    let existing = match (args.destination.overwrite, args.destination.keep_both) {
        (true, _) => Existing::Overwrite,
        (_, true) => Existing::KeepBoth,
        _ => Existing::Refuse,
    };
    // An empty path of the other side is the folder where it begins.
    let named = |path: PathBuf| if path.as_os_str().is_empty() { ".".into() } else { path };
    let Plan { is_push, sources, destination: dest, .. } = plan;
    let (sources, dest) =
        if is_push { (sources, named(dest)) } else { (sources.into_iter().map(named).collect(), dest) };
    let args::SourceArgs { follow, compress: compression, .. } = args.source;
    let source = SourceOptions { follow, excludes: args.source.exclude.clone(), compression };
    let args::DestinationArgs { checksum, sync, special_modes, dry_run, .. } = args.destination;
    let destination = DestinationOptions { existing, checksum, sync, special_modes, dry_run };
    Request { sources, dest, source, destination }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silent_copies_share_the_network_thread() {
        for (line, expected) in [
            ("--server", true),
            ("-q a host:", true),
            ("-q --serve d", true),
            ("--serve d", false),
            ("-q --json a host:", false),
            ("-q --dry-run a host:", false),
        ] {
            let words = std::iter::once("rdt-copy").chain(line.split_whitespace());
            assert_eq!(is_silent(&Arguments::try_parse_from(words).unwrap()), expected, "{line}");
        }
    }
}
