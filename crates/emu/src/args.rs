//! Command-line arguments of `rdt-emu`.

#![allow(clippy::doc_markdown, reason = "the comments are the text of --help, where $RDT_PEER is not code")]

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use rdt_emulator::parse_duration;

#[cfg(target_os = "linux")]
use crate::calibrate::{CalibrateArgs, load_generator::Flood};
use crate::calibration::CalibrationArgs;
use crate::destinations::PathsArgs;
use crate::internet::Internet;
use crate::output::OutputArgs;
use crate::proxy::ProxyArgs;
use crate::sim::SimArgs;
use crate::waiter::Waiting;

const AFTER_RUN: &str = "\
Examples:
  rdt-emu run --rtt 100ms --rate 10mbit --loss 1% -- sh -c 'ping -c 3 $RDT_PEER'
  rdt-emu run --preset lte --queue 2bdp --rate-reverse 1mbit -- sh
  rdt-emu run --path link.toml --seed 7 --server 'iperf3 -s' -- sh -c 'iperf3 -c $RDT_PEER'
  rdt-emu run --internet --rtt 300ms --loss 1% -- curl -O https://www.example.org/
  rdt-emu run --to lan=10.1.0.0/16 rtt=1ms --to far=10.2.0.1 'preset=lte; loss=1%' -- sh -c 'ping -c 3 $RDT_PEER_far'

Exit codes: that of CMD (128 + N if signal N killed it), or
   64  wrong arguments    69  this host denies a permission, or lacks the program of --internet
   73  FILE cannot be created    74  CMD succeeded, but an output is incomplete
   78  the path has a rate that failed in the calibration of this host
  126  CMD cannot be executed    127  CMD not found";

const AFTER_CHECK: &str = "\
Examples:
  rdt-emu check --path link.toml
  rdt-emu check --preset lte --loss-reverse 1% > link.toml
  rdt-emu check --rtt 5ms --to web=10.1.0.1:443/tcp 'rtt=100ms; loss=1%'

Exit codes: 0 the description is right    64 it is not; a sentence says where";

/// An emulated network link for any program.
#[derive(Debug, Parser)]
#[command(name = "rdt-emu", version = rdt_program::VERSION, after_help = rdt_program::ENVIRONMENT)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Formats an argument error as one line. The first of `arguments` is the program's name.
pub(crate) fn sentence(error: &clap::Error, arguments: &[OsString]) -> String {
    let what = rdt_program::command_error(error, &Args::command());
    hint(error, arguments).map_or_else(|| what.clone(), |hint| format!("{what}: {hint}"))
}

/// Suggests a correction of an unknown argument.
fn hint(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    if let Some(interval) = stray_interval(arguments) {
        return Some(format!("write --json-stream={interval}"));
    }
    if error.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let is_word = matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(word)) if !word.starts_with('-'));
    let is_run = arguments.get(1).is_some_and(|command| command == "run");
    (is_word && is_run).then(|| "CMD stands after --".to_owned())
}

/// Returns the interval if it was written as a separate word after `--json-stream`, which requires
/// `=`.
fn stray_interval(arguments: &[OsString]) -> Option<&str> {
    let options = arguments.split(|argument| argument == "--").next()?;
    options.windows(2).find_map(|pair| {
        let word = pair[1].to_str()?;
        (pair[0] == "--json-stream" && parse_duration(word).is_ok()).then_some(word)
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command in its own network namespace, whose only link is emulated
    #[command(after_help = AFTER_RUN)]
    Run(RunArgs),
    /// Forwards UDP packets between clients and a server over the emulated link
    #[command(after_help = crate::proxy::AFTER_PROXY)]
    Proxy(ProxyArgs),
    /// Prints the fates of packets on a path, in virtual time: sends nothing and does not wait
    Sim(SimArgs),
    /// Checks the description of paths, and prints it as TOML, with presets and flags applied
    #[command(after_help = AFTER_CHECK)]
    Check(PathsArgs),
    /// Measures what this host can emulate (rates, packets per second, lateness) in up to 50 s, and
    /// saves it: `run` and `proxy` then refuse rates that failed
    #[cfg(target_os = "linux")]
    Calibrate(CalibrateArgs),
    /// Changes the path of a running `run` or `proxy`, or prints it
    #[cfg(unix)]
    #[command(after_help = crate::control_socket::AFTER_SET)]
    Set(crate::control_socket::SetArgs),
    /// Sends or receives test load; started by `calibrate`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Flood(Flood),
    /// Runs inside the namespaces; started by `run`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Inside(crate::run::stage::InsideArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) paths: PathsArgs,
    /// MTU of the devices at both ends, 68 (with --ipv6: 1280) to 65535 bytes; --mtu sets the
    /// link's
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65535))]
    pub(crate) device_mtu: u32,
    /// Give both ends IPv6 addresses too; otherwise IPv6 is disabled, which keeps the kernel's own
    /// IPv6 packets off the path
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Connect the far end to the network of this host, through a user-space NAT: TOOL is
    /// slirp4netns or pasta, by default the first one that is installed. $RDT_HOST has the address
    /// of this host's loopback services
    #[arg(long, value_name = "TOOL", num_args = 0..=1, require_equals = true, default_missing_value = "auto", value_enum)]
    pub(crate) internet: Option<Internet>,
    /// Start a server (a line for `sh -c`) at the far end first; $RDT_LOCAL has its address. The
    /// command starts when the server listens at a TCP or UDP port, or after 5 s
    #[arg(long, value_name = "CMD")]
    pub(crate) server: Option<OsString>,
    /// Create this socket, by which `rdt-emu set SOCKET` changes the path
    #[cfg(unix)]
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<std::path::PathBuf>,
    /// Behaviour between packets
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) wait: Waiting,
    #[command(flatten)]
    pub(crate) calibration: CalibrationArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// As root, keep the privileges of root on this host, for a kernel that forbids user namespaces
    /// or a command that needs them. Otherwise the command is root in a user namespace only
    #[arg(long)]
    pub(crate) no_user_namespace: bool,
    /// Command and its arguments; $RDT_PEER has the far end's address
    // Required after `--`: otherwise a mistyped option would be taken as the command.
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_option_suggests_the_nearest() {
        let cases = [
            ("run --rtt 10ms --lss 1% -- true", "'--lss' found: is it --loss?"),
            ("run --lss -- true", "'--lss' found: is it --loss?"),
            ("run --xyzzy -- true", "'--xyzzy' found"),
            ("rnu --rtt 10ms -- true", "unrecognized subcommand 'rnu': is it run?"),
            ("run --json-stream 5ms -- true", "'5ms' found: write --json-stream=5ms"),
            ("run --rtt 10ms true", "'true' found: CMD stands after --"),
            ("proxy --json-stream 5ms [::1]:1 [::1]:2", "'[::1]:2' found: write --json-stream=5ms"),
            ("proxy [::1]:1 [::1]:2 [::1]:3", "'[::1]:3' found"),
            ("run --json-stream", "not provided: <CMD>..."),
        ];
        for (line, expected) in cases {
            let arguments: Vec<_> = format!("rdt-emu {line}").split(' ').map(OsString::from).collect();
            let said = sentence(&Args::try_parse_from(&arguments).unwrap_err(), &arguments);
            assert!(said.ends_with(expected), "{line}: {said}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn arguments_after_double_hyphen_belong_to_command() {
        let line = "rdt-emu run --json-stream -- --json-stream 5ms -- --lss";
        let Command::Run(args) = Args::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("another command")
        };
        assert_eq!(args.command, ["--json-stream", "5ms", "--", "--lss"]);
    }
}
