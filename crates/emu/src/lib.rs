//! `rdt-emu`: the project's link for any program.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | arguments | `args.rs` | what the user types |
//! | path | `path.rs` | the options that describe the path |
//! | paths | `paths.rs` | one path for all packets, or one for each client's |
//! | port | `port.rs` | one end of the path, where packets of the real world come and go; the buffers they use |
//! | tap | `tap.rs` | who watches the packets |
//! | relay | `relay.rs` | the loop in real time: a path between two ports |
//! | wait | `wait.rs`, `wait/vigil.rs` | looking or sleeping until a packet, a deadline or the end |
//! | report | `report.rs`, `json.rs` | the account in words, and as JSON |
//! | live account | `live.rs` | the account as lines of JSON, while packets come and go |
//! | capture | `capture/` | every packet in a file for Wireshark |
//! | output | `output.rs` | the options for these, what is told at the end |
//! | host | `host.rs` | whether this machine kept up |
//! | failure | `failure.rs` | why the program ends with a number of its own |
//! | calibration | `calibration.rs` | what this host was found to hold, and whether a path asks for more |
//! | `proxy` | `proxy/` | a UDP proxy for many clients |
//! | `sim` | `sim/` | what a path does to a schedule of packets, in virtual time |
//! | `calibrate` | `calibrate/` | what this host can emulate (Linux) |
//! | `run` | `run/` | a command in a network namespace behind a TUN pair (Linux) |

mod args;
#[cfg(target_os = "linux")]
mod calibrate;
mod calibration;
pub mod capture;
mod failure;
mod host;
pub mod json;
pub mod live;
mod output;
mod path;
pub mod paths;
pub mod port;
mod proxy;
pub mod relay;
pub mod report;
#[cfg(target_os = "linux")]
mod run;
mod sim;
pub mod tap;
pub mod wait;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rdt_program::signals::survive_file_size_limit;
use rdt_program::{Printer, start_logging};

use crate::args::{Args, Command};
use crate::failure::Failure;

/// What the standard output is called.
const STDOUT: &str = "the standard output";

/// Runs `rdt-emu` with these arguments, the program's name first.
pub fn rdt_emu(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    survive_file_size_limit();
    start_logging();
    let arguments: Vec<_> = args.into_iter().collect();
    let result = match Args::try_parse_from(&arguments) {
        Ok(args) => dispatch(args.command),
        Err(error) if error.use_stderr() => {
            Err(Failure::Usage(format!("{}; see --help", args::sentence(&error, &arguments))))
        }
        Err(help) => Failure::writing(STDOUT, help.print()).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            talk(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

/// The exit code of the command.
fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Proxy(args) => proxy::proxy(&args),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(&args),
        Command::Sim(args) => sim::sim(&args),
        #[cfg(target_os = "linux")]
        Command::Inside(args) => Ok(run::inside(&args)),
        #[cfg(target_os = "linux")]
        Command::Calibrate(args) => calibrate::calibrate(&args),
        #[cfg(target_os = "linux")]
        Command::Flood(args) => {
            calibrate::flood::command(args)?;
            Ok(0)
        }
        #[cfg(not(target_os = "linux"))]
        Command::Run(_) => Err(Failure::Forbidden(
            "network namespaces exist on Linux only; `rdt-emu proxy` needs none".to_owned(),
        )),
    }
}

/// Prints a line to the standard error, after the program's name.
fn talk(line: &str) {
    rdt_program::talk(&format!("rdt-emu: {line}"));
}

/// Warnings that may wait for a slow reader. More are dropped: the account at the end has the numbers.
const WARNING_QUEUE: usize = 64;

/// Starts a thread that prints warnings while packets pass, so that a reader that pauses delays no packet.
fn stderr_log() -> Result<Printer, Failure> {
    let print = |line: &str| {
        talk(line);
        Ok(())
    };
    Printer::spawn(WARNING_QUEUE, print).map_err(Failure::system("cannot start a thread"))
}

/// Prints a line to the standard output.
#[cfg(target_os = "linux")]
fn tell(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    Failure::writing(STDOUT, writeln!(out, "{line}").and_then(|()| out.flush()))
}
