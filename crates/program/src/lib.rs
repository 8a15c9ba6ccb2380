//! Internal part of rdt: what its programs share.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | console | `console.rs` | result lines on the standard output, and the first write error |
//! | failure, `main` | `failure.rs` | exit code and sentence of a program that fails; its frame |
//! | files | `files.rs` | output files that only their owner may read; the limit on open files |
//! | host and port | `host_port.rs` | `name:port` on command lines, resolution of names |
//! | JSON | `json.rs` | version, times and seeds of the JSON output |
//! | log | `log.rs` | the log of what the system refused, filtered by `RDT_LOG` |
//! | memory | `memory.rs` | memory of the host and of this process |
//! | metrics | `metrics.rs` | Prometheus metrics over HTTP |
//! | output | `output.rs` | remarks, results, events of `--json`, limit on lines that peers cause |
//! | progress | `progress.rs` | whether a bar can be drawn; rates and times in words |
//! | printer | `printer.rs` | a thread that prints, so that a slow reader delays nothing else |
//! | signals | `signals.rs` | Ctrl-C and termination; flags that end threads and tasks |
//! | standard streams | `standard.rs` | which of them were closed at the start |
//! | threads | `threads.rs` | worker threads that start together or not at all |
//! | time of day | `time.rs` | RFC 3339, also in local time for logs |

pub mod console;
mod failure;
pub mod files;
pub mod host_port;
pub mod json;
mod log;
pub mod memory;
pub mod metrics;
mod output;
mod printer;
pub mod progress;
pub mod signals;
pub mod standard;
pub mod threads;
pub mod time;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
pub use console::{Console, talk, talk_in_background};
pub use failure::{Failure, STDOUT, main, rejection};
pub use log::{ENVIRONMENT, start as start_logging};
pub use output::{Output, Remarks};
pub use printer::Printer;
pub use rdt_udp::Shown;
pub use rdt_udp::clock::unix_time_s;
pub use signals::Stop;
#[cfg(feature = "tokio")]
pub use signals::TaskStop;

/// Exit codes of the programs; those from 64 on are of `sysexits.h`.
pub mod exit {
    /// A name has no address.
    pub const NO_SUCH_HOST: u8 = 3;
    /// The system refuses to send.
    pub const FAILED_SEND: u8 = 4;
    /// The peer does not answer.
    pub const TIMEOUT: u8 = 5;
    /// The system refuses to receive.
    pub const FAILED_RECV: u8 = 6;
    /// The peer refused or closed the connection.
    pub const PEER_CLOSED: u8 = 8;
    /// Some files were not copied. rsync has the same code.
    pub const INCOMPLETE: u8 = 23;
    /// Wrong arguments.
    pub const USAGE: u8 = 64;
    /// The input cannot be read.
    pub const NO_INPUT: u8 = 66;
    /// A socket, thread, memory or permission is not available.
    pub const UNAVAILABLE: u8 = 69;
    /// A system call failed after the start.
    pub const OS: u8 = 71;
    /// An output file cannot be created.
    pub const CANNOT_CREATE: u8 = 73;
    /// The output is incomplete.
    pub const IO: u8 = 74;
    /// A peer showed another key than before.
    pub const CHANGED_KEY: u8 = 76;
    /// The peer does not admit this user, or a ticket has expired.
    pub const NO_PERMISSION: u8 = 77;
    /// The emulated path needs a higher rate than was measured on this host (calibration).
    pub const CONFIG: u8 = 78;
    /// A command exists and cannot be run.
    pub const NOT_RUN: u8 = 126;
    /// A command does not exist.
    pub const NOT_FOUND: u8 = 127;
    /// Added to the number of the signal that ended a program.
    pub const SIGNAL: u8 = 128;
    /// Ended by Ctrl-C.
    pub const INTERRUPTED: u8 = SIGNAL + 2;
}

/// Version of all programs, with the commit where it is known: `0.1.0+1a2b3c4d`.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("RDT_COMMIT"));

/// Prints the help if the command line has no subcommand. Returns false for another error.
pub fn help_without_command(error: &clap::Error) -> bool {
    let is_missing = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_missing {
        // Fails only if the standard error is closed.
        let _ = error.print();
    }
    is_missing
}

/// Returns the message of an argument error in one line, without the usage text. Names the argument
/// that is spelled nearly the same.
pub fn argument_error(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let sentence = lines.join(" ").trim_start_matches("error: ").to_string();
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    match kinds.iter().find_map(|kind| nearest(error.get(*kind)?)) {
        Some(nearest) => format!("{sentence}: is it {nearest}?"),
        None => sentence,
    }
}

/// Returns [`argument_error`] for a program with subcommands. Names the one that is spelled nearly
/// the same, also if two letters are swapped.
pub fn command_error(error: &clap::Error, program: &clap::Command) -> String {
    match nearest_command(error, program) {
        Some((word, nearest)) => format!("unrecognized subcommand '{word}': is it {nearest}?"),
        None => argument_error(error),
    }
}

fn nearest_command<'a>(error: &'a clap::Error, program: &'a clap::Command) -> Option<(&'a str, &'a str)> {
    let ContextValue::String(word) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    let names = program.get_subcommands().filter(|it| !it.is_hide_set()).map(clap::Command::get_name);
    let (distance, nearest) = names.map(|name| (strsim::osa_distance(word, name), name)).min()?;
    (distance <= (nearest.len() / 2).min(2)).then_some((word, nearest))
}

/// Returns the arguments of a program without subcommands, with `--help` for `help` alone, as other
/// programs take it. The first argument is the program's name.
pub fn help_as_option(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<_> = args.into_iter().collect();
    if args.len() == 2 && args[1] == "help" {
        args[1] = "--help".into();
    }
    args
}

/// Returns the best suggestion.
fn nearest(suggested: &ContextValue) -> Option<&str> {
    match suggested {
        ContextValue::String(name) => Some(name),
        // In ascending order of similarity.
        ContextValue::Strings(names) => names.last().map(String::as_str),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_subcommand_gets_nearest() {
        let names = ["run", "report", "set", "sweep"].map(clap::Command::new);
        let hidden = clap::Command::new("rum").hide(true);
        let program = clap::Command::new("x").subcommand_required(true).subcommands(names).subcommand(hidden);
        for (word, expected) in [
            ("rnu", "unrecognized subcommand 'rnu': is it run?"),
            ("urn", "unrecognized subcommand 'urn': is it run?"),
            ("rum2", "unrecognized subcommand 'rum2'"),
            ("sewep", "unrecognized subcommand 'sewep': is it sweep?"),
            ("reports", "unrecognized subcommand 'reports': is it report?"),
            ("go", "unrecognized subcommand 'go'"),
        ] {
            let error = program.clone().try_get_matches_from(["x", word]).unwrap_err();
            assert_eq!(command_error(&error, &program), expected);
        }
    }

    #[test]
    fn help_alone_is_an_option() {
        let read = |words: &[&str]| help_as_option(words.iter().map(OsString::from));
        assert_eq!(read(&["x", "help"]), ["x", "--help"]);
        assert_eq!(read(&["x", "help", "y"]), ["x", "help", "y"]);
        assert_eq!(read(&["x"]), ["x"]);
    }
}
