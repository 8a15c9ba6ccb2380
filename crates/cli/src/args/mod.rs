//! The arguments of both programs as the user types them; turning them into configurations, with a plain
//! sentence for each that is out of range, is done where they are used.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "the comments are the text of --help, in which [v6] is no link"
)]

pub(crate) mod form;
pub(crate) mod link;
pub(crate) mod native;
pub(crate) mod positional;
pub(crate) mod target;

use std::path::PathBuf;

use clap::{ArgGroup, Parser, ValueEnum};

use crate::exit::{RECV_CODES, SEND_CODES};

const SEND_EXAMPLES: &str = "\
Examples:
  rdt-send 10.0.0.7 --file backup.tar       all is found out on the way: nothing to tune
  tar c photos | rdt-send host -            the standard input, whatever its length
  rdt-send local --rtt 20ms --rate 50mbit --loss 1%    over a link of this shape in this process
  rdt-send local 64 0.1 0.01 100            the classic main job with an embedded receiver and link
  rdt-send localhost 64 0.1 0.01 100        the same to an rdt-recv in another terminal
  rdt-send local 64 0.1 0.01 100 --wire native    the same window and link in the native format
  rdt-send local 300 0.2 0/0.1 10 --power 23 --json";

const RECV_EXAMPLES: &str = "\
Examples:
  rdt-recv                                  emulate the link that each sender asks for
  rdt-recv --no-link --output incoming/     keep what arrives, apply no link
  rdt-recv --bind 127.0.0.1:9000 --no-link --output - | tar x
  rdt-recv --dummy                          no link, no window growth, no checksum";

/// Something that can be turned off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Used where the system has it.
    On,
    /// Not used.
    Off,
}

/// How many ACKs packets in order get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AckEvery {
    /// One each.
    #[value(name = "1")]
    One,
    /// One for all that came together.
    Batch,
}

/// The formats by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WireArg {
    /// Byte offsets, selective ACKs, congestion control.
    Native,
    /// The course's: numbered packets, a fixed window.
    Classic,
}

const SEND_USAGE: &str = "\
rdt-send [OPTIONS] HOST [-]                          native: nothing to tune
       rdt-send [OPTIONS] HOST W RTT LOSS LINKMBPS [-]      classic, unless --wire says native";

const LINK: &str = "Link to emulate (HOST local, or a receiver that emulates; for the native format)";
const NATIVE: &str = "Options of the native format";

/// Sends data to a receiver, over the link that it is asked to emulate, if any.
#[derive(Debug, Parser)]
#[command(
    name = "rdt-send",
    version,
    override_usage = SEND_USAGE,
    after_help = format!("{SEND_CODES}\n\n{SEND_EXAMPLES}")
)]
#[command(group = ArgGroup::new("data").args(["power", "bytes", "file", "stdin"]))]
pub struct SendArgs {
    /// Name, address, host:port or [v6]:port; `local` runs a receiver in this process
    pub host: Option<String>,
    /// Sender's window, in packets; with --wire native the same as --cc fixed:W
    #[arg(value_name = "W", allow_negative_numbers = true)]
    pub window: Option<String>,
    /// Round-trip time to emulate, in seconds
    #[arg(value_name = "RTT", allow_negative_numbers = true)]
    pub rtt_s: Option<String>,
    /// Loss probability to emulate: forward, or forward/reverse
    #[arg(value_name = "LOSS", allow_negative_numbers = true)]
    pub loss_p: Option<String>,
    /// Link rate to emulate, in Mbps
    #[arg(value_name = "LINKMBPS", allow_negative_numbers = true)]
    pub link_mbps: Option<String>,
    /// `-` sends the standard input, whatever its length
    #[arg(value_name = "-", value_parser = ["-"], hide_possible_values = true)]
    pub stdin: Option<String>,
    /// Send 2^K 32-bit words, word i holding i (default 20)
    #[arg(long, value_name = "K")]
    pub power: Option<u8>,
    /// Send the first N bytes of the same array (suffixes kb, mb, gb, kib, mib, gib)
    #[arg(long, value_name = "N")]
    pub bytes: Option<String>,
    /// Send a file; `-` is the standard input
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Format of the packets [default: native, with W classic]
    #[arg(long, value_enum)]
    pub wire: Option<WireArg>,
    /// Seed of the embedded receiver's link (HOST `local` only; else a new one each time)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Router buffer to emulate (default W + 50); only with W
    #[arg(long, value_name = "PACKETS")]
    pub buffer: Option<u32>,
    /// Bytes of a full datagram, 9 to 65507; in the native format from 128
    #[arg(long, value_name = "BYTES", default_value_t = 1472)]
    pub packet_size: usize,
    /// Time between status lines
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub interval: String,
    /// Classic: how often a SYN, a packet and a FIN are sent at most; one number is for packets and FIN. A
    /// receiver that is silent for longer than attempts x RTO (50 x 40 ms = 2 s on a short path) ends the
    /// transfer; one that answers that it has no room is waited for [default: 30/50/50]
    #[arg(long, value_name = "SYN/DATA/FIN", allow_negative_numbers = true)]
    pub attempts: Option<String>,
    /// Largest send buffer; with HOST `local` also the receiver's memory, if that is more than its default
    #[arg(long, value_name = "SIZE", default_value = "1gib")]
    pub memory: String,
    /// Congestion control: fixed:N (packets), reno, cubic or bbr [default: bbr, with W fixed:W]
    #[arg(long, value_name = "NAME", help_heading = NATIVE)]
    pub cc: Option<String>,
    /// How losses are found: rack, sack, newreno or base-only [default: rack]
    #[arg(long, value_name = "NAME", help_heading = NATIVE)]
    pub recovery: Option<String>,
    /// Whether selective ACKs are heeded; `off` means --recovery newreno, or base-only if that is asked for
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, help_heading = NATIVE)]
    pub sack: Option<Switch>,
    /// First congestion window, at least 1 [default: 10]
    #[arg(long, value_name = "PACKETS", help_heading = NATIVE, allow_negative_numbers = true)]
    pub initial_window: Option<String>,
    /// Whether packets are spread over the round trip [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, help_heading = NATIVE)]
    pub pacing: Option<Switch>,
    /// Whether routers may mark packets instead of dropping them (ECN), where the path and the receiver go along
    /// and --cc answers marks, as all but fixed:N do [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, help_heading = NATIVE)]
    pub ecn: Option<Switch>,
    /// Largest window of the embedded receiver (HOST `local`), at least 64kib [default: an eighth of its memory]
    #[arg(long, value_name = "SIZE", help_heading = NATIVE)]
    pub rwnd: Option<String>,
    /// Give up after this long without an answer from the receiver, 1s at least [default: 100s]
    #[arg(long, value_name = "TIME", help_heading = NATIVE)]
    pub give_up: Option<String>,
    /// Give up after this long without an answer to the SYN, 1s at least [default: 180s, or --give-up if that is given]
    #[arg(long, value_name = "TIME", help_heading = NATIVE)]
    pub connect_give_up: Option<String>,
    /// Round-trip time: 20ms, 1.5s [default: 0s]
    #[arg(long, value_name = "TIME", help_heading = LINK)]
    pub rtt: Option<String>,
    /// Rate of each direction: 500kbit, 100mbit, 1gbit [default: as good as none, 1000gbit]
    #[arg(long, value_name = "RATE", help_heading = LINK)]
    pub rate: Option<String>,
    /// Loss: forward, or forward/reverse: 1%, 0.01, 1%/0 [default: 0]
    #[arg(long, value_name = "P", help_heading = LINK)]
    pub loss: Option<String>,
    /// Router buffer, of what waits: 1bdp (of rate x RTT), 64kb, 100p (packets) [default: 1bdp, at least
    /// 64kib]
    #[arg(long, value_name = "SIZE", help_heading = LINK)]
    pub queue: Option<String>,
    /// Bytes to ask the system for, to buffer what arrives and what leaves; with HOST `local` for its receiver, too
    /// [default: what the window needs, at most 32mib]
    #[arg(long, value_name = "SIZE")]
    pub socket_buffer: Option<String>,
    /// Segmentation offload: many datagrams in one call
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub gso: Switch,
    /// Receive offload: the kernel joins datagrams
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub gro: Switch,
    /// Large batches lent to the kernel, not copied, where it can send from memory that it shares (Linux 6.5)
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub by_reference: Switch,
    /// Write what the sender saw and did to FILE as qlog, for qvis (name it FILE.sqlog)
    #[arg(long, value_name = "FILE")]
    pub qlog: Option<PathBuf>,
    /// Print only the last lines
    #[arg(long, short)]
    pub quiet: bool,
    /// Print a line for every packet
    #[arg(long, conflicts_with = "json")]
    pub debug: bool,
    /// Print JSON, one object a line; the last one is the summary
    #[arg(long)]
    pub json: bool,
}

/// Receives from any number of senders at once, in the native and in the classic format, each behind the
/// emulated link that it asks for.
#[derive(Debug, Parser)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(name = "rdt-recv", version, after_help = format!("{RECV_CODES}\n\n{RECV_EXAMPLES}"))]
pub struct RecvArgs {
    /// Address to bind to: ADDR, ADDR:PORT, [V6]:PORT; port 0 takes a free one [default: all, port 22345]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<String>,
    /// Full window at once, no link, datagrams of any size, no checksum: for measuring
    #[arg(long, conflicts_with_all = ["no_link", "output"])]
    pub dummy: bool,
    /// Leave the links that senders ask for unapplied; datagrams of any size
    #[arg(long)]
    pub no_link: bool,
    /// Keep what arrives: a file (each finished transfer replaces it), a directory (a file for each), or
    /// `-` for the standard output (one transfer, then exit)
    #[arg(long, short, value_name = "FILE|DIR|-")]
    pub output: Option<PathBuf>,
    /// Confirm a transfer only when its file and its name are on the disk (fsync), so that it outlives a loss of
    /// power
    #[arg(long, requires = "output")]
    pub sync: bool,
    /// Seed of the emulated links (else a new one each time)
    #[arg(long, value_name = "N", conflicts_with_all = ["dummy", "no_link"])]
    pub seed: Option<u64>,
    /// Exit after the first finished transfer: no more senders are taken, those under way are finished
    #[arg(long)]
    pub once: bool,
    /// Memory for packets: half for those not yet written, half on the links; a quarter of a half for one sender
    /// [default: a quarter of the host's, at least 1gib]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Largest window of a native sender, at least 64kib; it opens as the data is read. At most what --memory
    /// leaves to one sender, an eighth [default: that]
    #[arg(long, value_name = "SIZE")]
    pub rwnd: Option<String>,
    /// Threads that serve, each with a socket of its own on the same port; --memory and --max-peers are
    /// divided by N
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Senders at once; more get no answer
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub max_peers: usize,
    /// One ACK for each packet (`1`, the reference's way, which costs a quarter of the rate or more), or for all packets
    /// in order that came together (`batch`, faster; without effect on an emulated link); native senders get one for
    /// every second packet
    #[arg(long, value_enum, value_name = "1|batch", hide_possible_values = true, default_value_t = AckEvery::One)]
    pub ack_every: AckEvery,
    /// Bytes to ask the system for, to buffer what arrives at each thread: without a link, what senders may have on
    /// their way is bounded by what it grants [default: 32mib; of more than 8 threads, 256mib in all]
    #[arg(long, value_name = "SIZE")]
    pub socket_buffer: Option<String>,
    /// Segmentation offload: many datagrams in one call
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub gso: Switch,
    /// Receive offload: the kernel joins datagrams
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub gro: Switch,
    /// Print no lines but errors; with --json, the summary alone
    #[arg(long, short)]
    pub quiet: bool,
    /// Print JSON, one object a line; the last one is the summary
    #[arg(long)]
    pub json: bool,
}
