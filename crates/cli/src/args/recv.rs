//! Arguments of `rdt-recv`.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the comments are the text of --help, in which [V6] is no link"
)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use rdt_program::metrics::MetricsArgs;
use rdt_program::{ENVIRONMENT, VERSION};
use rdt_transport::AckConfig;
use rdt_trust::ListenOptions;

use super::{AckEvery, OffloadArgs, Wire, WireArg, given_options, target, values};
use crate::exit::RECV_CODES;

/// Heading of the options of `rdt-trust`.
const TRUST_HEADING: &str = "Keys and permissions";

const RECV_EXAMPLES: &str = "\
Examples:
  rdt-recv                                  emulate the link that each sender asks for
  rdt-recv --no-link --output incoming/ --ticket    keep what the holder of the ticket sends
  rdt-recv --no-link --output incoming/ --allow keys    keep what the owners of these keys send
  rdt-recv --bind 127.0.0.1:9000 --no-link --output - | tar x
  rdt-recv --measure --ticket               for rdt-send --reverse: sends generated data
  rdt-recv --wire tcp --no-reverse          for rdt-send --wire tcp: counts and stores nothing
  rdt-recv --dummy                          no link, no window growth, no checksum";

/// Receives from any number of senders at once, native and classic, each behind the emulated link
/// that it asks for.
#[derive(Debug, Parser)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(name = "rdt-recv", version = VERSION, after_help = format!("{RECV_CODES}\n\n{ENVIRONMENT}\n\n{RECV_EXAMPLES}"))]
pub(crate) struct RecvArgs {
    /// Address to bind to: ADDR, ADDR:PORT, [V6]:PORT; port 0 takes a free one [default: all, port
    /// 22345]
    #[arg(long, value_name = "ADDR", value_parser = target::parse_bind)]
    pub(crate) bind: Option<SocketAddr>,
    /// For benchmarks: offer the full window at once, emulate no link, accept datagrams of any
    /// size, compute no checksum
    #[arg(long, conflicts_with_all = ["no_link", "output"])]
    pub(crate) dummy: bool,
    /// Do not emulate the links that senders request; accept datagrams of any size
    #[arg(long)]
    pub(crate) no_link: bool,
    /// Treat classic senders as the reference receiver does: a SYN alone connects a sender. Not for
    /// untrusted networks
    #[arg(long)]
    pub(crate) faithful: bool,
    /// Store transfers: in a file (each transfer replaces it), in a directory (one file each; DIR/
    /// is created), or `-` for the standard output, a device or a named pipe (one transfer, then
    /// exit)
    #[arg(long, short, value_name = "FILE|DIR|-")]
    pub(crate) output: Option<PathBuf>,
    /// Replace FILE of --output even if it is a symbolic link
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Confirm a transfer only after fsync of its file and directory, so that it survives a power
    /// loss
    #[arg(long, requires = "output")]
    pub(crate) sync: bool,
    /// Seed of the emulated links [default: random]
    #[arg(long, value_name = "N", conflicts_with_all = ["dummy", "no_link"])]
    pub(crate) seed: Option<u64>,
    /// Exit after the first finished transfer: refuse new senders, finish the transfers under way
    #[arg(long)]
    pub(crate) once: bool,
    /// Memory for packets: half for unwritten data, half for the links; one sender may use 1/8
    /// [default: 1/4 of the host's, at least 1gib]
    #[arg(long, value_name = "SIZE", value_parser = values::recv_memory)]
    pub(crate) memory: Option<u64>,
    /// Largest window of a native sender, from 1432 (a packet) to 1/8 of --memory; it opens as the
    /// data is read [default: 1/8 of --memory]
    #[arg(long, value_name = "SIZE", value_parser = values::rwnd)]
    pub(crate) rwnd: Option<u64>,
    /// Number of threads, each with its own socket on the same port; --memory, --max-peers
    /// and --max-per-source are split across them. With more than one, a transfer does not follow
    /// its sender to a new address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::threads)]
    pub(crate) threads: usize,
    /// Largest number of senders at once; further SYNs get no answer
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = values::peers("--max-peers"))]
    pub(crate) max_peers: usize,
    /// Largest number of senders at once of one host: an IPv4 address, or the /56 network of an
    /// IPv6 address, whatever other hosts have [default: one more while it has fewer than are free]
    #[arg(long, value_name = "N", value_parser = values::peers("--max-per-source"))]
    pub(crate) max_per_source: Option<usize>,
    /// ACKs for classic senders: one for each packet (`1`, as the reference does; costs 25 % of the
    /// rate or more) or one for each batch (`batch`; no effect with an emulated link)
    #[arg(long, value_enum, value_name = "1|batch", hide_possible_values = true, default_value_t = AckEvery::One)]
    pub(crate) ack_every: AckEvery,
    /// ACKs for native senders: one for COUNT packets in order, or TIME after the first of them,
    /// whatever the sender requests: 1/0ms, 2/25ms [default: 2/25ms, or as requested]
    #[arg(long, value_name = "COUNT/TIME", value_parser = values::ack)]
    pub(crate) ack: Option<AckConfig>,
    /// Receive buffer of each socket. Without a link, the buffer granted limits the senders'
    /// windows [default: 32mib; with more than 8 threads, 256mib in total]
    #[arg(long, value_name = "SIZE", value_parser = values::socket_buffer)]
    pub(crate) socket_buffer: Option<usize>,
    /// Accept encrypted transfers only (`native`), or those of `rdt-send --wire tcp` or
    /// `udp` (Linux), whose data is counted and not stored. Default: the formats of rdt,
    /// unencrypted ones too, except with --ticket, --allow, --secret-file, or if --output stores
    /// files of other hosts
    #[arg(long, value_name = "native|tcp|udp", value_parser = values::recv_wire, conflicts_with_all = ["insecure", "faithful", "ack_every"])]
    pub(crate) wire: Option<WireArg>,
    /// Serve measurements of the native format alone: send generated data to `rdt-send --reverse`,
    /// as much as it asks for, and store nothing (Linux)
    #[arg(long, conflicts_with_all = ["faithful", "ack_every", "wire"])]
    pub(crate) measure: bool,
    /// Refuse to send (`rdt-send --reverse`); with --measure, --wire tcp or udp
    #[arg(long)]
    pub(crate) no_reverse: bool,
    /// Largest rate at which a peer may have data sent (`rdt-send --reverse`), of each peer; with
    /// --measure, --wire tcp or udp [default: as the peer asks; over UDP at most 100mbit]
    #[arg(long, value_name = "RATE", value_parser = values::max_rate)]
    pub(crate) max_rate: Option<u64>,
    /// Accept unencrypted transfers (classic, `rdt-send --insecure`) from every host, also with
    /// --output, --ticket, --allow and --secret-file. Any host on the path can read and change them
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Print a ticket, one line to be pasted as HOST of rdt-send. The first client that uses it may
    /// send until rdt-recv ends
    #[arg(long, help_heading = TRUST_HEADING, conflicts_with = "open")]
    pub(crate) ticket: bool,
    /// Address in the ticket, up to 8 times; for hosts behind NAT [default: that of --bind, or
    /// those of the interfaces with a default route]
    #[arg(long, help_heading = TRUST_HEADING, value_name = "ADDR:PORT", requires = "ticket")]
    pub(crate) advertise: Vec<SocketAddr>,
    /// Time after which an unused ticket expires
    #[arg(long, help_heading = TRUST_HEADING, value_name = "TIME", default_value = "24h", requires = "ticket", value_parser = rdt_trust::parse_lifetime)]
    pub(crate) ticket_lifetime: Duration,
    #[command(flatten)]
    pub(crate) trust: ListenOptions,
    #[command(flatten)]
    pub(crate) offload: OffloadArgs,
    #[command(flatten)]
    pub(crate) metrics: MetricsArgs,
    /// Print only errors; with --json, only the summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print JSON, one object a line; the last one is the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Names of the options given
    #[arg(skip)]
    pub(crate) given: Vec<String>,
}

impl RecvArgs {
    pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(rdt_program::help_as_option(args))?;
        let mut parsed = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        parsed.given = given_options(&command, &matches);
        Ok(parsed)
    }

    /// Returns the wire of transfers that are measured and not stored.
    pub(crate) fn kernel_wire(&self) -> Option<Wire> {
        if self.measure {
            return Some(Wire::Native);
        }
        self.wire.and_then(WireArg::kernel)
    }
}
