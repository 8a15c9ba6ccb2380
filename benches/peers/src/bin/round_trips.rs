//! Time from the write of one byte to the read of its echo, over loopback: encrypted rdt beside
//! bare UDP, over tokio and blocking. Prints a Markdown table.
//!
//! The echoing side is a child of this program. All rows run once in every round, one after
//! another, so that other load of the host affects all of them.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use rdt_crypto::{Entropy, StaticKey};
use rdt_endpoint::{Connect, EndpointConfig, Listen, blocking, tokio as rdt_tokio};

/// Measures the round trip of one byte
#[derive(Parser)]
struct Args {
    /// How often each row runs
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Round trips of one run
    #[arg(long, default_value_t = 20_000)]
    count: u32,
    /// Echoes for this row
    #[arg(long, hide = true)]
    echo: Option<String>,
}

/// Row of the table.
struct Row {
    id: &'static str,
    name: &'static str,
    /// Index of the row to which it is compared.
    base: usize,
    echo: fn() -> Result<()>,
    ping: fn(SocketAddr, u32) -> Result<Vec<Duration>>,
}

const ROWS: [Row; 4] = [
    Row { id: "udp-tokio", name: "UDP over tokio", base: 0, echo: udp_tokio::echo, ping: udp_tokio::ping },
    Row {
        id: "rdt-tokio",
        name: "rdt, encrypted, over tokio",
        base: 0,
        echo: tokio_stream::echo,
        ping: tokio_stream::ping,
    },
    Row { id: "udp", name: "UDP, blocking", base: 2, echo: udp::echo, ping: udp::ping },
    Row { id: "rdt", name: "rdt, encrypted, blocking", base: 2, echo: stream::echo, ping: stream::ping },
];

/// Round trips before those that count.
const WARM_UP: u32 = 1000;

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(id) = args.echo {
        let Some(row) = ROWS.iter().find(|row| row.id == id) else { bail!("there is no row {id}") };
        return (row.echo)();
    }
    let mut times: [Vec<[f64; 2]>; ROWS.len()] = Default::default();
    for _ in 0..args.rounds {
        for (row, times) in ROWS.iter().zip(&mut times) {
            let run = run(row, args.count).with_context(|| row.name)?;
            eprintln!("{}: p50 {:.2} us, p99 {:.2} us", row.name, run[0], run[1]);
            times.push(run);
        }
    }
    let median = |times: &[[f64; 2]], at: usize| {
        let mut values: Vec<f64> = times.iter().map(|run| run[at]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("Medians of {} interleaved rounds of {} round trips.\n", args.rounds, args.count);
    println!(
        "| one byte and its echo | p50, us | p99, us | p50, of UDP | p99, of UDP |\n|---|---|---|---|---|"
    );
    for (row, own) in ROWS.iter().zip(&times) {
        let [p50, p99] = [0, 1].map(|at| median(own, at));
        let [base50, base99] = [0, 1].map(|at| median(&times[row.base], at));
        println!("| {} | {p50:.2} | {p99:.2} | {:.2} | {:.2} |", row.name, p50 / base50, p99 / base99);
    }
    Ok(())
}

/// Echoing child; killed on drop.
struct Echo(Child);

impl Drop for Echo {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns median and 99th percentile of one run, microseconds.
fn run(row: &Row, count: u32) -> Result<[f64; 2]> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut echo = Echo(command.args(["--echo", row.id]).stdout(Stdio::piped()).spawn()?);
    let output = echo.0.stdout.take().context("standard output is piped")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let address = line.trim().parse().context("the address of the echo")?;
    let mut times = (row.ping)(address, WARM_UP + count)?.split_off(WARM_UP as usize);
    times.sort_unstable();
    Ok([times.len() / 2, times.len() * 99 / 100].map(|at| times[at].as_secs_f64() * 1e6))
}

fn local() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])))
}

mod udp_tokio {
    use super::{Duration, Instant, Result, SocketAddr, local, runtime};

    pub(super) fn echo() -> Result<()> {
        runtime()?.block_on(async {
            let socket = tokio::net::UdpSocket::bind(local()).await?;
            println!("{}", socket.local_addr()?);
            let mut byte = [0];
            loop {
                let (_, peer) = socket.recv_from(&mut byte).await?;
                socket.send_to(&byte, peer).await?;
            }
        })
    }

    pub(super) fn ping(to: SocketAddr, count: u32) -> Result<Vec<Duration>> {
        runtime()?.block_on(async {
            let socket = tokio::net::UdpSocket::bind(local()).await?;
            socket.connect(to).await?;
            let mut times = Vec::new();
            for _ in 0..count {
                let start = Instant::now();
                socket.send(&[1]).await?;
                socket.recv(&mut [0]).await?;
                times.push(start.elapsed());
            }
            Ok(times)
        })
    }
}

mod tokio_stream {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{
        Connect, Duration, EndpointConfig, Instant, Listen, Result, SocketAddr, identity, local, rdt_tokio,
        runtime,
    };

    pub(super) fn echo() -> Result<()> {
        runtime()?.block_on(async {
            let endpoint = rdt_tokio::Endpoint::bind(local(), EndpointConfig::default())?;
            let listener = endpoint.listen(Listen::new(identity()))?;
            println!("{}", listener.local_addr());
            let mut stream = listener.accept().await?;
            let mut byte = [0];
            while stream.read(&mut byte).await? == 1 {
                stream.write_all(&byte).await?;
            }
            Ok(())
        })
    }

    pub(super) fn ping(to: SocketAddr, count: u32) -> Result<Vec<Duration>> {
        runtime()?.block_on(async {
            let endpoint = rdt_tokio::Endpoint::bind(local(), EndpointConfig::default())?;
            let mut stream = endpoint.connect(to, Connect::to(identity().public())).await?;
            let mut times = Vec::new();
            for _ in 0..count {
                let start = Instant::now();
                stream.write_all(&[1]).await?;
                stream.read_exact(&mut [0]).await?;
                times.push(start.elapsed());
            }
            Ok(times)
        })
    }
}

mod udp {
    use super::{Duration, Instant, Result, SocketAddr, UdpSocket, local};

    pub(super) fn echo() -> Result<()> {
        let socket = UdpSocket::bind(local())?;
        println!("{}", socket.local_addr()?);
        let mut byte = [0];
        loop {
            let (_, peer) = socket.recv_from(&mut byte)?;
            socket.send_to(&byte, peer)?;
        }
    }

    pub(super) fn ping(to: SocketAddr, count: u32) -> Result<Vec<Duration>> {
        let socket = UdpSocket::bind(local())?;
        socket.connect(to)?;
        let mut times = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            socket.send(&[1])?;
            socket.recv(&mut [0])?;
            times.push(start.elapsed());
        }
        Ok(times)
    }
}

mod stream {
    use std::io::{Read as _, Write as _};

    use super::{
        Connect, Duration, EndpointConfig, Instant, Listen, Result, SocketAddr, blocking, identity, local,
    };

    pub(super) fn echo() -> Result<()> {
        let endpoint = blocking::Endpoint::bind(local(), EndpointConfig::default())?;
        let listener = endpoint.listen(Listen::new(identity()))?;
        println!("{}", listener.local_addr());
        let mut stream = listener.accept()?;
        let mut byte = [0];
        while stream.read(&mut byte)? == 1 {
            stream.write_all(&byte)?;
        }
        Ok(())
    }

    pub(super) fn ping(to: SocketAddr, count: u32) -> Result<Vec<Duration>> {
        let endpoint = blocking::Endpoint::bind(local(), EndpointConfig::default())?;
        let mut stream = endpoint.connect(to, Connect::to(identity().public()))?;
        let mut times = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            stream.write_all(&[1])?;
            stream.read_exact(&mut [0])?;
            times.push(start.elapsed());
        }
        Ok(times)
    }
}
