//! Throughput of one TCP connection over loopback: direct, through two plain TCP relays, and
//! through `rdt-tunnel connect` and `rdt-tunnel serve`. Prints a Markdown table.
//!
//! The two relays are the limit of a tunnel: they do its TCP work without its transport and without
//! encryption. Source and sink are threads of this program; relays and tunnels are children. All
//! rows run once in every round, one after another, so that other load of the host affects all of
//! them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;

/// Measures TCP through rdt-tunnel
#[derive(Parser)]
struct Args {
    /// How often each row runs
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Bytes of one transfer
    #[arg(long, default_value_t = 2_000_000_000)]
    bytes: u64,
    /// Directory of rdt-tunnel
    #[arg(long, value_name = "DIR", default_value = "../../target/release")]
    rdt: PathBuf,
    /// Relays connections to this address
    #[arg(long, hide = true)]
    relay: Option<SocketAddr>,
}

/// Bytes of one call of source, sink and relay.
const BLOCK: usize = 256 << 10;

/// Path between source and sink.
#[derive(Clone, Copy)]
enum Path {
    Direct,
    Relays,
    Tunnel,
}

const ROWS: [(&str, Path); 3] =
    [("TCP", Path::Direct), ("TCP, two relays", Path::Relays), ("TCP, rdt-tunnel", Path::Tunnel)];

/// Result of one transfer.
#[derive(Clone, Copy)]
struct Run {
    gbit_per_s: f64,
    /// Processor time of all processes, seconds for 10^9 bytes.
    cpu_s_per_gb: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(target) = args.relay {
        return relay(target);
    }
    let mut runs: [Vec<Run>; ROWS.len()] = Default::default();
    for _ in 0..args.rounds {
        for ((name, path), runs) in ROWS.iter().zip(&mut runs) {
            let run = run(*path, &args).with_context(|| *name)?;
            eprintln!("{name}: {:.2} Gbit/s, {:.2} CPU s/GB", run.gbit_per_s, run.cpu_s_per_gb);
            runs.push(run);
        }
    }
    let median = |runs: &[Run], value: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("Medians of {} interleaved rounds of {} bytes.\n", args.rounds, args.bytes);
    println!("| path | Gbit/s | of two relays | CPU s/GB, all processes |\n|---|---|---|---|");
    let limit = median(&runs[1], |run| run.gbit_per_s);
    for ((name, _), runs) in ROWS.iter().zip(&runs) {
        let rate = median(runs, |run| run.gbit_per_s);
        println!(
            "| {name} | {rate:.2} | {:.2} | {:.2} |",
            rate / limit,
            median(runs, |run| run.cpu_s_per_gb)
        );
    }
    Ok(())
}

/// Child of this program; killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts a program whose first line, or the field `address` of it, is its address.
    fn start(command: &mut Command) -> Result<(Self, SocketAddr)> {
        let mut child = Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
        let output = child.0.stdout.take().context("standard output is piped")?;
        let mut reader = BufReader::new(output);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = event["address"].as_str().unwrap_or(line.trim());
        let address = address.parse().with_context(|| format!("no address: {line:?}"))?;
        // The program reports more lines, and must not wait for a full pipe.
        thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        Ok((child, address))
    }
}

fn run(path: Path, args: &Args) -> Result<Run> {
    let before = processor_s();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sink = listener.local_addr()?;
    let home = std::env::temp_dir().join(format!("rdt-bench-tunnel-{}", std::process::id()));
    let relay = |to: SocketAddr| -> Result<_> {
        Process::start(Command::new(std::env::current_exe()?).args(["--relay", &to.to_string()]))
    };
    let tunnel = |line: String| {
        let mut command = Command::new(args.rdt.join("rdt-tunnel"));
        Process::start(command.args(line.split(' ')).env("XDG_CONFIG_HOME", &home).stderr(Stdio::null()))
    };
    let (children, entry) = match path {
        Path::Direct => (None, sink),
        Path::Relays => {
            let (far, middle) = relay(sink)?;
            let (near, entry) = relay(middle)?;
            (Some((near, far)), entry)
        }
        Path::Tunnel => {
            let (far, middle) = tunnel(format!("serve --to {sink} --listen 127.0.0.1:0 --open --json"))?;
            let (near, entry) = tunnel(format!("connect {middle} --listen 127.0.0.1:0 --json"))?;
            (Some((near, far)), entry)
        }
    };
    let bytes = args.bytes;
    let source = thread::spawn(move || source(entry, bytes));
    let (received, seconds) = drain(&listener)?;
    source.join().ok().context("the source panicked")??;
    ensure!(received == bytes, "{received} bytes of {bytes} came");
    // The wait for killed children adds their time to the account of this process.
    drop(children);
    let _ = std::fs::remove_dir_all(&home);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = bytes as f64;
    Ok(Run { gbit_per_s: bytes * 8e-9 / seconds, cpu_s_per_gb: (processor_s() - before) * 1e9 / bytes })
}

fn source(to: SocketAddr, bytes: u64) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    let block: Vec<u8> = (0..=u8::MAX).cycle().take(BLOCK).collect();
    let mut left = bytes;
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        stream.write_all(&block[..n])?;
        left -= n as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Reads one connection to its end. Returns the bytes, and the seconds since the first of them.
fn drain(listener: &TcpListener) -> Result<(u64, f64)> {
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; BLOCK];
    let mut received = stream.read(&mut buffer)? as u64;
    let start = Instant::now();
    while let n @ 1.. = stream.read(&mut buffer)? {
        received += n as u64;
    }
    Ok((received, start.elapsed().as_secs_f64()))
}

/// Relays connections with large buffers, on a runtime as that of `rdt-tunnel`.
fn relay(target: SocketAddr) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (mut near, _) = listener.accept().await?;
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(target).await?;
                tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, BLOCK, BLOCK).await
            });
        }
    })
}

/// Returns the processor time of this process and its ended children, seconds.
fn processor_s() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(|who| {
            // SAFETY: plain C data, for which all zeros is a valid value.
            #[expect(unsafe_code, reason = "rustix has no getrusage")]
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: the pointer is that of a live value of this type.
            #[expect(unsafe_code, reason = "rustix has no getrusage")]
            let result = unsafe { libc::getrusage(who, &raw mut usage) };
            assert_eq!(result, 0, "getrusage knows this process");
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
        })
        .iter()
        .flatten()
        .sum()
}
