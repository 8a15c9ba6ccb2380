//! Arguments of `rdt-send`.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the comments are the text of --help, in which [v6] is no link"
)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser as _;
use clap::parser::ValueSource;
use clap::{ArgGroup, CommandFactory as _, FromArgMatches as _, Parser};
use rdt_program::{ENVIRONMENT, VERSION};
use rdt_transport::{Attempts, StreamName};
use rdt_trust::ConnectOptions;

use super::positional::{self, WindowArg};
use super::target::Target;
use super::{
    Given, LinkArgs, NativeArgs, OffloadArgs, Switch, Wire, WireArg, given, given_options, link, native,
    values,
};
use crate::exit::SEND_CODES;

const SEND_EXAMPLES: &str = "\
Examples:
  rdt-send 10.0.0.7 --file backup.tar       no tuning needed
  tar c photos | rdt-send host -            the standard input, whatever its length
  rdt-send rdt1... --file backup.tar        to the receiver that printed this ticket
  rdt-send 10.0.0.7 --insecure              in the clear, to an rdt-recv --insecure
  rdt-send 10.0.0.7 --time 10s --omit 1s --idle-rtt 10 --json    a measurement
  rdt-send 10.0.0.7 --wire tcp --time 10s --omit 1s    the same by the kernel's TCP
  rdt-send 10.0.0.7 --wire udp --max-rate 50mbit --time 10s    datagrams at a constant rate
  rdt-send 10.0.0.7 --reverse --time 10s    an rdt-recv --measure sends
  rdt-send local --rtt 20ms --rate 50mbit --loss 1%    over a link of this shape in this process
  rdt-send local 64 0.1 0.01 100            classic: window 64, RTT 0.1 s, loss 1 %, 100 Mbit/s
  rdt-send localhost 64 0.1 0.01 100        the same to an rdt-recv in another terminal
  rdt-send local 64 0.1 0.01 100 --wire native    the same window and link in the native format
  rdt-send local 300 0.2 0/0.1 10 --power 23 --json";

const SEND_USAGE: &str = "\
rdt-send [OPTIONS] HOST [-]                          native, encrypted: no tuning needed
       rdt-send [OPTIONS] HOST W RTT LOSS LINKMBPS [-]      classic, unless --wire says native
       rdt-send compare A.json B.json                       compares two measurements";

/// Sends data to a receiver, which can emulate a link.
#[derive(Debug, Parser)]
#[command(
    name = "rdt-send",
    version = VERSION,
    override_usage = SEND_USAGE,
    after_help = format!("{SEND_CODES}\n\n{ENVIRONMENT}\n\n{SEND_EXAMPLES}")
)]
#[command(group = ArgGroup::new("data").args(["power", "bytes", "file", "stdin", "time"]))]
#[command(group = ArgGroup::new("written").args(["qlog", "csv"]).multiple(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct SendArgs {
    /// Name, address, host:port, [v6]:port, ticket of a receiver, or @FILE with a ticket; `local`
    /// runs a receiver in this process
    #[arg(value_parser = given(Target::parse))]
    pub(crate) host: Option<Given<Target>>,
    /// Sender's window, in packets; with --wire native the same as --cc fixed:W
    #[arg(value_name = "W", allow_negative_numbers = true, value_parser = WindowArg::parse)]
    pub(crate) window: Option<WindowArg>,
    /// Round-trip time to emulate, in seconds
    #[arg(value_name = "RTT", allow_negative_numbers = true, value_parser = given(positional::rtt))]
    pub(crate) rtt_s: Option<Given<f32>>,
    /// Loss probability to emulate: forward, or forward/reverse
    #[arg(value_name = "LOSS", allow_negative_numbers = true, value_parser = given(positional::loss))]
    pub(crate) loss_p: Option<Given<(f32, f32)>>,
    /// Link rate to emulate, in Mbps
    #[arg(value_name = "LINKMBPS", allow_negative_numbers = true, value_parser = given(positional::link_bps))]
    pub(crate) link_bps: Option<Given<f32>>,
    /// `-` sends the standard input, whatever its length
    #[arg(value_name = "-", value_parser = positional::stdin)]
    pub(crate) stdin: Option<String>,
    /// Send 2^K 32-bit words, word i holding i (default 20)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u8).try_map(values::power))]
    pub(crate) power: Option<u8>,
    /// Send the first N bytes of the same array (suffixes kb, mb, gb, kib, mib, gib)
    #[arg(long, value_name = "N", value_parser = values::bytes("--bytes"))]
    pub(crate) bytes: Option<u64>,
    /// Send a file; `-` is the standard input
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Send the array without end, for this long after the handshake and the --omit time
    #[arg(long, value_name = "TIME", value_parser = values::measured_time("--time"))]
    pub(crate) time: Option<Duration>,
    /// Leave the first TIME of the data out of the last lines and the summary, such as the start of
    /// the congestion control
    #[arg(long, value_name = "TIME", value_parser = values::measured_time("--omit"))]
    pub(crate) omit: Option<Duration>,
    /// The receiver sends generated data, and rdt-send receives it: from rdt-recv --measure, and
    /// with --wire tcp and udp
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Transfers of the same data at once, each with its own socket, 1 to 128
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::parallel)]
    pub(crate) parallel: usize,
    /// Measure the round trip of the idle path by N packets of 4 bytes, one after the other, before
    /// the data
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) idle_rtt: Option<u32>,
    /// Name that the receiver may store the data under [default: that of --file]; not for classic
    /// transfers
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) name: Option<StreamName>,
    /// Tell the receiver no name
    #[arg(long, conflicts_with = "name")]
    pub(crate) no_name: bool,
    /// Format of the packets, or a transport of the kernel [default: native, which is encrypted;
    /// with W classic]
    #[arg(long, value_enum)]
    pub(crate) wire: Option<WireArg>,
    /// Do not encrypt, and check no key: hosts on the path can read and change the data. The
    /// receiver needs --insecure, too. Classic packets are never encrypted
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Seed of the embedded receiver's link (HOST `local` only) [default: random]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Router buffer to emulate (default W + 50); only with W
    #[arg(long, value_name = "PACKETS")]
    pub(crate) buffer: Option<u32>,
    /// Bytes of a full datagram, 9 to 65507; in the native format from 128, with --wire udp from 80
    /// and over IPv6 1452 by default
    #[arg(long, value_name = "BYTES", default_value_t = 1472)]
    pub(crate) packet_size: usize,
    /// Time between status lines [default: 2s; on a terminal, a native transfer of a file shows a
    /// bar instead]
    #[arg(long, value_name = "TIME", value_parser = values::timeout("--interval"))]
    pub(crate) interval: Option<Duration>,
    /// Classic: limits on transmissions of a SYN, a packet and a FIN; one number sets packets and
    /// FIN. The transfer ends after attempts x RTO without an answer (50 x 40 ms = 2 s on a short
    /// path). A receiver that answers with a closed window is waited for (--no-progress) [default:
    /// 30/50/50]
    #[arg(long, value_name = "SYN/DATA/FIN", allow_negative_numbers = true, value_parser = values::attempts)]
    pub(crate) attempts: Option<Attempts>,
    /// Give up after this long without progress although the receiver answers, such as one whose
    /// window stays closed (at least 1s)
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = values::give_up("--no-progress"))]
    pub(crate) no_progress: Duration,
    /// Largest send buffer; with HOST `local` also the receiver's memory, if larger than its
    /// default
    #[arg(long, value_name = "SIZE", default_value = "1gib", value_parser = values::bytes("--memory"))]
    pub(crate) memory: u64,
    /// Largest sending rate: 500kbit, 50mbit, 1gbit; counts the data, retransmissions included, and
    /// no headers [default: none]
    #[arg(long, value_name = "RATE", value_parser = values::max_rate)]
    pub(crate) max_rate: Option<u64>,
    #[command(flatten)]
    pub(crate) native: NativeArgs,
    #[command(flatten)]
    pub(crate) trust: ConnectOptions,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
    /// Send and receive buffer of the socket; with HOST `local` also of its receiver [default: as
    /// the window needs, up to 32mib]
    #[arg(long, value_name = "SIZE", value_parser = values::socket_buffer)]
    pub(crate) socket_buffer: Option<usize>,
    #[command(flatten)]
    pub(crate) offload: OffloadArgs,
    /// Zero-copy: large batches are sent from memory shared with the kernel (Linux 6.5 or later)
    #[arg(long, alias = "by-reference", value_enum, default_value_t = Switch::On)]
    pub(crate) zero_copy: Switch,
    /// Write the sender's packets, losses and timers to FILE as qlog, for qvis (name it FILE.sqlog)
    #[arg(long, value_name = "FILE")]
    pub(crate) qlog: Option<PathBuf>,
    /// Write a row of CSV to FILE at each --interval and at the end; columns have the keys of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Replace the files of --qlog and --csv if they exist
    #[arg(long, requires = "written")]
    pub(crate) force: bool,
    /// Print only the last lines
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print a line for every packet
    #[arg(long, conflicts_with = "json")]
    pub(crate) debug: bool,
    /// Print JSON, one object a line; the last one is the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the first option given that only the native format has
    #[arg(skip)]
    pub(crate) native_option: Option<String>,
    /// Names of the options given
    #[arg(skip)]
    pub(crate) given: Vec<String>,
}

impl SendArgs {
    pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        // A host of this name is `help:4242`.
        let matches = command.try_get_matches_from_mut(rdt_program::help_as_option(args))?;
        let mut parsed = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let native = command.get_arguments().find(|arg| {
            matches!(arg.get_help_heading(), Some(native::HEADING | link::HEADING))
                && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        });
        parsed.native_option = native.and_then(|arg| arg.get_long()).map(|long| format!("--{long}"));
        parsed.given = given_options(&command, &matches);
        Ok(parsed)
    }

    /// Returns the wire of a transfer that is measured and not stored.
    pub(crate) fn kernel_wire(&self) -> Option<Wire> {
        let is_native = self.wire.unwrap_or(WireArg::Native) == WireArg::Native;
        if self.reverse && is_native && self.window.is_none() {
            return Some(Wire::Native);
        }
        self.wire.and_then(WireArg::kernel)
    }
}
