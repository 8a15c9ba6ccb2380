//! Internal part of rdt: the program `rdt-emu`, an emulated link for any program.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | arguments | `args.rs` | command line |
//! | path | `path.rs` | options that describe the path |
//! | paths | `paths.rs` | one path for all packets, or one for each client |
//! | destinations | `destinations.rs` | paths by destination: `--to`, description files; `check` |
//! | port | `port.rs` | one end of a path, where real packets enter and leave; their buffers |
//! | relay, observer | `relay.rs` | loop in real time: a path between two ports; its events |
//! | account | `account.rs`, `accounts.rs` | counters of a relay, by direction |
//! | control socket | `control_socket.rs` | `--control` and `set`: path changes (Unix) |
//! | waiter | `waiter.rs` | waiting for a packet, a deadline or the end |
//! | report | `report.rs`, `json.rs` | account as text, and as JSON |
//! | JSON stream | `json_stream.rs` | account as JSON lines while packets pass |
//! | metrics | `metrics.rs` | Prometheus metrics of the proxy |
//! | capture | `capture/` | all packets in a file for Wireshark |
//! | output | `output.rs` | options of reports and captures |
//! | host | `host.rs` | warnings that this host was too slow |
//! | calibration | `calibration.rs` | rates that this host was measured to carry |
//! | `proxy` | `proxy/` | UDP proxy for many clients |
//! | `sim` | `sim/` | schedule of packets over a path in virtual time |
//! | `calibrate` | `calibrate/` | measures what this host can emulate (Linux) |
//! | `run` | `run/` | command in a network namespace behind a TUN pair (Linux) |

mod account;
mod accounts;
mod args;
#[cfg(target_os = "linux")]
mod calibrate;
mod calibration;
mod capture;
#[cfg(unix)]
mod control_socket;
mod destinations;
mod host;
mod internet;
mod json;
mod json_stream;
mod metrics;
mod output;
mod path;
mod paths;
mod port;
mod proxy;
mod relay;
mod report;
#[cfg(target_os = "linux")]
mod run;
mod sim;
mod waiter;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use rdt_program::signals::survive_file_size_limit;
use rdt_program::{Failure, Printer, STDOUT};

#[cfg(target_os = "linux")]
pub use calibrate::holds;
pub use host::BLAME as HOST_BLAME;
#[cfg(target_os = "linux")]
pub use run::Netlink;

use crate::args::{Args, Command};

/// Returns the command line of `rdt-emu`, for manual pages and completions.
pub fn command_line() -> clap::Command {
    Args::command()
}

/// Runs `rdt-emu` with these arguments, of which the first is the program's name.
pub fn rdt_emu(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    survive_file_size_limit();
    let arguments: Vec<_> = args.into_iter().collect();
    let reject =
        |error: &_| Failure::usage(format_args!("{}; see --help", args::sentence(error, &arguments)));
    rdt_program::main("rdt-emu", Args::try_parse_from(&arguments), reject, |args| dispatch(args.command))
}

fn dispatch(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Proxy(args) => proxy::proxy(&args),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(&args),
        #[cfg(unix)]
        Command::Set(args) => control_socket::set(&args),
        Command::Sim(args) => sim::sim(&args),
        Command::Check(args) => destinations::check(&args),
        #[cfg(target_os = "linux")]
        Command::Inside(args) => Ok(run::inside(&args)),
        #[cfg(target_os = "linux")]
        Command::Calibrate(args) => calibrate::calibrate(&args),
        #[cfg(target_os = "linux")]
        Command::Flood(args) => {
            calibrate::load_generator::command(args)?;
            Ok(0)
        }
        #[cfg(not(target_os = "linux"))]
        Command::Run(_) => Err(Failure::unavailable(
            "network namespaces exist on Linux only; `rdt-emu proxy` needs none".to_owned(),
        )),
    }
}

/// Prints a line to the standard error, after the program's name.
fn talk(line: &str) {
    rdt_program::talk(&format!("rdt-emu: {line}"));
}

/// Limit on the warnings that wait for a slow reader. The final report has the counts of all.
const WARNING_QUEUE: usize = 64;

/// Starts a thread that prints warnings, so that a slow reader delays no packet.
fn stderr_log() -> Result<Printer, Failure> {
    let print = |line: &str| {
        talk(line);
        Ok(())
    };
    Printer::spawn(WARNING_QUEUE, print).map_err(Failure::system("cannot start a thread"))
}

fn tell(line: &str) -> Result<(), Failure> {
    use std::io::Write as _;

    let mut out = rdt_program::standard::stdout();
    Failure::writing(STDOUT, out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()))
}
