//! Internal part of rdt: the programs `rdt-send` and `rdt-recv`. Arguments, output, files and exit
//! codes; the protocol, the sockets and the event loop are in other crates.
//!
//! | folder | contents |
//! |---|---|
//! | `args/` | command lines, read into typed values |
//! | `frame.rs` | `rdt-send`, from the data to the last line, whatever it sends |
//! | `transfer.rs`, `lines.rs` | one transfer, whatever carries it: addresses, lines, end |
//! | `packets.rs`, `native.rs` | transfers over rdt: event loop, connection |
//! | `compare.rs` | `rdt-send compare` |
//! | `send/` | `rdt-send`: configuration, transfer, embedded receiver |
//! | `recv/` | `rdt-recv`: threads, application, store |
//! | `measured/` | transfers that are not stored: `--wire tcp`, `--wire udp`, `--reverse` (Linux) |
//! | `output/` | status lines, logs, summaries, files of `--qlog` and `--csv` |
//! | `parallel.rs`, `measure.rs` | several transfers at once; the measured part of a transfer |
//! | `data.rs`, `source.rs` | bytes to send: generated, of files, of pipes |
//! | `host.rs`, `connection.rs` | HOST of a sender; protection of connections |
//! | `admission.rs`, `peer.rs` | senders that a receiver admits, and their names |

mod admission;
mod args;
mod compare;
mod connection;
mod data;
mod exit;
mod frame;
mod host;
mod lines;
mod measure;
/// Transfers that are measured and not stored: `--wire tcp` and `--wire udp`, over TCP of the
/// kernel and UDP at a constant rate, and `rdt-send --reverse` over encrypted connections to
/// `rdt-recv --measure`. Linux only, because the figures are those of `TCP_INFO`.
///
/// | noun | file | owns |
/// |---|---|---|
/// | message | `message.rs` | request, answer and report beside the data |
/// | sending program | `send.rs`, `options.rs` | options |
/// | transfer | `transfer.rs` | request and counts of one transfer |
/// | summary | `summary.rs` | last lines, last object of `--json` |
/// | limits | `limits.rs` | what a sender over TCP waited for, when it gives up |
/// | TCP client, UDP client | `tcp_client.rs`, `udp_client.rs` | a transfer of `rdt-send` |
/// | receiving program | `recv.rs`, `peer_slots.rs` | options, log, limits on peers |
/// | session | `session.rs` | a peer of `rdt-recv` over TCP or rdt, from request to end |
/// | servers | `tcp_server.rs`, `native_server.rs`, `udp_server.rs` | peers of `rdt-recv` |
/// | UDP sender | `udp_sender.rs` | reverse transfer over UDP, proofs of the peer |
/// | native client | `native_client.rs` | a reverse transfer over rdt |
/// | connection | `connection.rs` | TCP connections of the kernel |
/// | stream | `stream.rs` | data with a rate, data that arrives, messages over TCP |
/// | datagram | `datagram.rs` | packets of UDP |
/// | arrivals | `arrivals.rs` | lost, reordered and duplicated datagrams, jitter |
#[cfg(target_os = "linux")]
mod measured {
    mod arrivals;
    mod connection;
    mod datagram;
    mod limits;
    mod message;
    mod native_client;
    mod native_server;
    mod options;
    mod peer_slots;
    pub(crate) mod recv;
    pub(crate) mod send;
    mod session;
    mod stream;
    mod summary;
    mod tcp_client;
    mod tcp_server;
    mod transfer;
    mod udp_client;
    mod udp_sender;
    mod udp_server;

    use crate::args::Wire;
}
/// Refusal of `--wire tcp`, `--wire udp` and `--measure` on systems other than Linux.
#[cfg(not(target_os = "linux"))]
mod measured {
    pub(crate) mod send {
        pub(crate) fn command<A>(_: &A, wire: crate::args::Wire) -> Result<(), crate::Failure> {
            Err(crate::Failure::usage(format_args!(
                "measuring over {} needs Linux, whose kernel tells what limits a connection",
                wire.name()
            )))
        }
    }
    pub(crate) use self::send as recv;
}
/// All output of the programs except errors, as text and as JSON.
mod output {
    pub(crate) mod counters;
    pub(crate) mod format;
    pub(crate) mod limit;
    pub(crate) mod log;
    pub(crate) mod packet_log;
    pub(crate) mod qlog_file;
    pub(crate) mod receiver_report;
    pub(crate) mod rtt_histogram;
    pub(crate) mod sockets;
    pub(crate) mod status;
    pub(crate) mod summary;
    pub(crate) mod transfer_bar;
}
mod native;
mod packets;
mod parallel;
mod peer;
mod recv;
mod resources;
mod send;
mod socket;
mod source;
mod transfer;

use args::{RecvArgs, SendArgs};
use compare::CompareArgs;
pub use resources::processor_time;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser as _};
use rdt_program::signals::survive_file_size_limit;
use rdt_program::{Failure, rejection};

/// Version in the format in which the reference receiver prints its own.
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// Returns the command lines of `rdt-send` and `rdt-recv`, for manual pages and completions.
pub fn command_lines() -> [clap::Command; 2] {
    [SendArgs::command(), RecvArgs::command()]
}

/// Runs `rdt-send` with these arguments.
pub fn rdt_send(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    match compare::arguments(&args) {
        Some(args) => run("rdt-send", CompareArgs::try_parse_from(args), compare::command),
        None => run("rdt-send", SendArgs::read(args), send::command),
    }
}

/// Runs `rdt-recv` with these arguments.
pub fn rdt_recv(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    run("rdt-recv", RecvArgs::read(args), recv::command)
}

fn run<A: CommandFactory>(
    program: &str,
    args: Result<A, clap::Error>,
    command: fn(&A) -> Result<(), Failure>,
) -> ExitCode {
    rdt_program::main(
        program,
        args,
        |error| rejection(error, &A::command()),
        |args| {
            survive_file_size_limit();
            command(&args).map(|()| 0)
        },
    )
}
