//! rdt and other transports side by side: whole transfers between two processes over loopback.
//!
//! In every round each peer transfers the same bytes once, one peer after another, so that other
//! load of the host affects all of them. Prints one Markdown table; progress is printed to the
//! standard error. Rust libraries run in children of this program (`send` and `receive`), rdt in
//! its two programs, C++ libraries in programs compiled for this bench.

mod foreign;
#[cfg(feature = "kcp")]
mod kcp;
mod limit;
mod locked;
mod meter;
#[cfg(feature = "msquic")]
mod msquic;
mod peer;
#[cfg(any(feature = "quiche", feature = "msquic"))]
mod pem;
/// Sockets of rdt's `line_rate` bench.
#[path = "../../programs/common/plain.rs"]
#[expect(dead_code, reason = "the limit without offload, and by reference, is measured elsewhere")]
mod plain;
#[cfg(feature = "quiche")]
mod quiche;
#[cfg(feature = "quinn")]
mod quinn;
mod rdt;
mod rdt_here;
mod rdt_tokio;
mod report;
#[cfg(feature = "s2n")]
mod s2n;
mod sealed;
mod streams;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
mod transfer;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::peer::{PEERS, Peer, named};
use crate::report::Row;

/// Compares rdt with other transports: whole transfers between two processes over loopback
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    role: Option<Role>,
    /// How often each peer runs
    #[arg(long, default_value_t = NonZeroU32::new(5).expect("5 is not 0"))]
    rounds: NonZeroU32,
    /// Bytes of one transfer
    #[arg(long, default_value_t = NonZeroU64::new(4_000_000_000).expect("not 0"))]
    bytes: NonZeroU64,
    /// Directory of rdt-send and rdt-recv
    #[arg(long, value_name = "DIR", default_value = "../../target/release")]
    rdt: PathBuf,
    /// Only these peers, separated by commas (rdt, for the ratio, among them)
    #[arg(long, value_name = "PEER", value_delimiter = ',')]
    only: Vec<String>,
    /// rdt's window in packets; with 1, each packet of 1464 bytes takes one round trip
    #[arg(long, value_name = "W", default_value_t = NonZeroU32::new(8192).expect("not 0"))]
    window: NonZeroU32,
}

/// Role of a child process.
#[derive(Subcommand)]
enum Role {
    /// Receives one transfer
    #[command(hide = true)]
    Receive { peer: String, bytes: u64 },
    /// Sends one transfer to the address on standard input
    #[command(hide = true)]
    Send { peer: String, bytes: u64, window: u32 },
}

fn main() -> Result<()> {
    let args = Args::parse();
    match args.role {
        Some(Role::Receive { peer, bytes }) => named(&peer)?.receive(bytes),
        Some(Role::Send { peer, bytes, window }) => named(&peer)?.send(bytes, window),
        None => compare(&args),
    }
}

/// Runs all rounds and prints the table.
fn compare(args: &Args) -> Result<()> {
    let peers: Vec<&Peer> = if args.only.is_empty() {
        PEERS.iter().collect()
    } else {
        args.only.iter().map(|id| named(id)).collect::<Result<_>>()?
    };
    let mut rows = Vec::new();
    for peer in peers {
        rows.push((peer, row(peer, &args.rdt)?));
    }
    for round in 1..=args.rounds.get() {
        for (peer, row) in &mut rows {
            if row.hopeless() {
                continue;
            }
            match peer.run(args.bytes.get(), &args.rdt, args.window.get()) {
                Ok(run) => {
                    eprintln!("round {round}: {}: {run}", row.name);
                    row.runs.push(run);
                }
                Err(error) => {
                    eprintln!("round {round}: {}: failed: {error:#}", row.name);
                    row.failures.push(format!("round {round}: {error:#}"));
                }
            }
        }
    }
    let ours = rows.iter().position(|(peer, _)| peer.is_ours());
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    print!("{}", report::markdown(&rows, ours, args.rounds.get(), args.bytes.get()));
    if args.only.is_empty() {
        print!("{}", report::left_out(peer::left_out()));
    }
    Ok(())
}

/// Returns the row of a peer that is ready to run, or with the reason why it is not.
fn row(peer: &Peer, rdt: &Path) -> Result<Row> {
    let mut row = Row::new(peer.name, peer.tuned);
    match peer.prepare(rdt) {
        Ok(version) => row.version = version,
        // If a C++ library is missing, its peer is skipped. Any other failure ends the bench before
        // its first round.
        Err(error) if peer.is_foreign() => {
            eprintln!("{}: not measured: {error:#}", row.name);
            row.failures.push(format!("{error:#}"));
        }
        Err(error) => return Err(error.context(format!("making {} ready", peer.name))),
    }
    Ok(row)
}
