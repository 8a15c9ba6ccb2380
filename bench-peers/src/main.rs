//! rdt and other transports side by side: whole transfers between two processes over loopback.
//!
//! In every round each peer moves the same bytes once, one after the other, so that what else the machine does
//! falls on all of them. The result is one markdown table on standard output; progress goes to standard error.
//! The libraries run in children of this very program (`send` and `receive`), rdt in its own two programs, libraries of
//! C++ in programs that are compiled for it.

mod foreign;
mod kcp;
mod locked;
mod meter;
mod quinn;
mod rdt;
mod rdt_tokio;
mod report;
mod s2n;
mod tcp;
mod transfer;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};

use crate::foreign::Library;
use crate::report::Row;
use crate::transfer::Run;

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
    #[arg(long, value_name = "DIR", default_value = "../target/release")]
    rdt: PathBuf,
    /// Only these peers, separated by commas (rdt, for the ratio, among them)
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Peer>,
    /// rdt's window in packets; with 1, each packet of 1464 bytes takes one round trip
    #[arg(long, value_name = "W", default_value_t = NonZeroU32::new(8192).expect("not 0"))]
    window: NonZeroU32,
}

/// What a child does; not for people.
#[derive(Subcommand)]
enum Role {
    /// Takes one transfer
    #[command(hide = true)]
    Receive { peer: Peer, bytes: u64 },
    /// Makes one transfer to where the line on standard input says
    #[command(hide = true)]
    Send { peer: Peer, bytes: u64, window: u32 },
}

/// The transports, in the order of their runs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Rdt,
    RdtTokio,
    Tcp,
    TcpMss,
    Quinn,
    QuinnBbr,
    S2n,
    Kcp,
    Udt,
    Srt,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Rdt => "rdt",
            Self::RdtTokio => "rdt over tokio",
            Self::Tcp => "TCP",
            Self::TcpMss => "TCP, 1448-byte segments",
            Self::Quinn => "quinn",
            Self::QuinnBbr => "quinn, BBR",
            Self::S2n => "s2n-quic",
            Self::Kcp => "KCP (tokio_kcp)",
            Self::Udt => "UDT",
            Self::Srt => "SRT, file mode",
        }
    }

    fn tuned(self) -> &'static str {
        match self {
            Self::Rdt => rdt::TUNED,
            Self::RdtTokio => rdt_tokio::TUNED,
            Self::Tcp => tcp::TUNED,
            Self::TcpMss => tcp::TUNED_MSS,
            Self::Quinn => quinn::TUNED,
            Self::QuinnBbr => quinn::TUNED_BBR,
            Self::S2n => s2n::TUNED,
            Self::Kcp => kcp::TUNED,
            Self::Udt => foreign::UDT.tuned,
            Self::Srt => foreign::SRT.tuned,
        }
    }

    /// The library of C++ that it is, if it is one.
    fn foreign(self) -> Option<&'static Library> {
        match self {
            Self::Udt => Some(&foreign::UDT),
            Self::Srt => Some(&foreign::SRT),
            _ => None,
        }
    }

    /// Makes ready what it needs to run and tells its version.
    fn prepare(self, rdt: &Path) -> Result<String> {
        match self {
            Self::Rdt => rdt::version(rdt),
            Self::RdtTokio => Ok(format!("tokio {}", locked::version("tokio")?)),
            Self::Tcp | Self::TcpMss => {
                Ok(format!("Linux {}", rustix::system::uname().release().to_string_lossy()))
            }
            Self::Quinn | Self::QuinnBbr => locked::version("quinn"),
            Self::S2n => locked::version("s2n-quic"),
            Self::Kcp => locked::version("tokio_kcp"),
            Self::Udt => foreign::UDT.prepare(),
            Self::Srt => foreign::SRT.prepare(),
        }
    }

    /// One transfer between two processes.
    fn run(self, bytes: u64, rdt: &Path, window: u32) -> Result<Run> {
        if self == Self::Rdt {
            return rdt::run(rdt, bytes, window);
        }
        if let Some(library) = self.foreign() {
            return library.run(bytes);
        }
        let program = std::env::current_exe().context("the path of this program")?;
        let value = self.to_possible_value().expect("no peer is skipped");
        let (peer, bytes_text, window) = (value.get_name(), bytes.to_string(), window.to_string());
        transfer::run_children(
            Command::new(&program).args(["receive", peer, &bytes_text]),
            Command::new(&program).args(["send", peer, &bytes_text, &window]),
            bytes,
        )
    }

    fn receive(self, bytes: u64) -> Result<()> {
        match self {
            Self::Rdt | Self::Udt | Self::Srt => bail!("it runs in its own programs"),
            Self::RdtTokio => rdt_tokio::receive(bytes),
            Self::Tcp => tcp::receive(bytes, None),
            Self::TcpMss => tcp::receive(bytes, Some(tcp::MSS)),
            Self::Quinn => quinn::receive(bytes, quinn::Control::Cubic),
            Self::QuinnBbr => quinn::receive(bytes, quinn::Control::Bbr),
            Self::S2n => s2n::receive(bytes),
            Self::Kcp => kcp::receive(bytes),
        }
    }

    fn send(self, bytes: u64, window: u32) -> Result<()> {
        match self {
            Self::Rdt | Self::Udt | Self::Srt => bail!("it runs in its own programs"),
            Self::RdtTokio => rdt_tokio::send(bytes, window),
            Self::Tcp => tcp::send(bytes, None),
            Self::TcpMss => tcp::send(bytes, Some(tcp::MSS)),
            Self::Quinn => quinn::send(bytes, quinn::Control::Cubic),
            Self::QuinnBbr => quinn::send(bytes, quinn::Control::Bbr),
            Self::S2n => s2n::send(bytes),
            Self::Kcp => kcp::send(bytes),
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    match args.role {
        Some(Role::Receive { peer, bytes }) => peer.receive(bytes),
        Some(Role::Send { peer, bytes, window }) => peer.send(bytes, window),
        None => compare(&args),
    }
}

/// All rounds, then the table.
fn compare(args: &Args) -> Result<()> {
    let peers = if args.only.is_empty() { Peer::value_variants() } else { &args.only };
    let mut rows = Vec::new();
    for &peer in peers {
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
    let ours = rows.iter().position(|(peer, _)| *peer == Peer::Rdt);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    print!("{}", report::markdown(&rows, ours, args.rounds.get(), args.bytes.get()));
    Ok(())
}

/// The row of a peer that is ready to run, or that says why it is not.
fn row(peer: Peer, rdt: &Path) -> Result<Row> {
    let mut row = Row::new(peer.name(), peer.tuned());
    match peer.prepare(rdt) {
        Ok(version) => row.version = version,
        // Not everybody has the libraries of C++; whatever else is missing can be had, and the run is long.
        Err(error) if peer.foreign().is_some() => {
            eprintln!("{}: not measured: {error:#}", row.name);
            row.failures.push(format!("{error:#}"));
        }
        Err(error) => return Err(error.context(format!("making {} ready", peer.name()))),
    }
    Ok(row)
}
