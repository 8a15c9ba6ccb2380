//! The options of `rdt-emu proxy`.

#![allow(clippy::doc_markdown, reason = "the comments are the text of --help")]

use std::time::Duration;

use rdt_emulator::parse_duration;

use crate::calibration::CalibrationArgs;
use crate::output::OutputArgs;
use crate::path::PathArgs;
use crate::waiter::Waiting;

/// Text below the options in `--help`.
pub(crate) const AFTER: &str = "\
Examples:
  rdt-emu proxy 127.0.0.1:9000 192.0.2.1:4433 --rtt 100ms --rate 10mbit --loss 1%
  rdt-emu proxy [::]:9000 [::1]:9001 --preset lte --per-client
  rdt-emu proxy 127.0.0.1:9000 localhost:9001 --path link.toml --seed 7

Clients send to LISTEN what is for TARGET. Ctrl-C ends it and tells what became of the packets.
The path counts 28 bytes of headers for each datagram, 48 if TARGET is an IPv6 address, unless
--headers says otherwise: so a datagram takes the link for as long as in `rdt-emu run`.

Exit codes: 0 after Ctrl-C or a request to end, and
   64  wrong arguments    69  the address LISTEN cannot be had    71  the system refuses to go on
   73  FILE of --pcapng cannot be created    74  FILE is not complete
   78  the path has a rate that this host was found not to hold";

#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) path: PathArgs,
    /// Give each client a path of its own, which draws from a seed of its own, the n-th of those of
    /// --seed; without this all share one, as they share a router
    #[arg(long)]
    pub(crate) per_client: bool,
    /// Clients at a time, 1 to 1000, each of which may take 2 MiB of memory; more are turned away
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) max_clients: u16,
    /// Forget a client when for so long nothing came from it or for it
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) idle: Duration,
    /// Behaviour between packets
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) wait: Waiting,
    #[command(flatten)]
    pub(crate) calibration: CalibrationArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Where clients send to: ADDRESS:PORT, 0.0.0.0:PORT or [::]:PORT for all addresses; port 0 is
    /// any that is free
    pub(crate) listen: String,
    /// Where their packets go: ADDRESS:PORT or NAME:PORT
    pub(crate) target: String,
}
