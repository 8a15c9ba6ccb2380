//! Full handshakes a second with their processor time, and memory of idle connections, over
//! loopback.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::param::clock_ticks_per_second;
use tokio::task::JoinSet;

use super::{Client, Kind, REQUEST, make_certificate};

/// Clients that open connections at the same time.
const CLIENTS: usize = 32;
/// Idle connections whose memory is measured.
const IDLE: usize = 2000;

const ROWS: [(&str, Kind, Kind); 4] = [
    ("rdt", Kind::RdtOther, Kind::RdtKept),
    ("quinn", Kind::Quinn { kept: false, early: false }, Kind::Quinn { kept: true, early: false }),
    ("s2n-quic", Kind::S2n { kept: false }, Kind::S2n { kept: true }),
    ("TCP with TLS 1.3", Kind::Tls { kept: false }, Kind::Tls { kept: true }),
];

/// Server in a process of its own; killed on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    async fn start(directory: &Path) -> Result<Self> {
        let own = std::env::current_exe()?;
        let mut command = Command::new(own);
        command.args(["--role", "serve"]).arg(directory).env("RDT_LOCAL", "0.0.0.0");
        let server = Self(command.spawn()?);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(server)
    }

    /// Returns its processor time in seconds.
    fn processor_s(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("a name")?.1.split_whitespace().collect();
        let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(ticks as f64 / clock_ticks_per_second() as f64)
    }

    /// Returns its resident memory in bytes.
    fn memory(&self) -> Result<u64> {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.0.id()))?;
        let pages: u64 = statm.split_whitespace().nth(1).context("resident pages")?.parse()?;
        Ok(pages * rustix::param::page_size() as u64)
    }
}

const HOST: &str = "127.0.0.1";

/// Prints the table: `rounds` rounds of `time` for each row.
pub(super) fn measure(time: Duration, rounds: usize) -> Result<()> {
    let directory = make_certificate()?;
    super::runtime()?.block_on(async {
        let mut runs: [Vec<[f64; 3]>; ROWS.len()] = Default::default();
        for _ in 0..rounds {
            for ((name, new, kept), runs) in ROWS.iter().zip(&mut runs) {
                let server = Server::start(directory.path()).await?;
                let memory = idle_memory(&server, *kept, directory.path()).await?;
                drop(server);
                let server = Server::start(directory.path()).await?;
                let before = server.processor_s()?;
                let start = Instant::now();
                let opened = open(start + time, *new, directory.path()).await?;
                let seconds = start.elapsed().as_secs_f64();
                let run = [opened / seconds, (server.processor_s()? - before) / opened * 1e6, memory];
                eprintln!(
                    "{name}: {:.0} a second, {:.0} us of the server, {:.1} kB idle",
                    run[0], run[1], run[2]
                );
                runs.push(run);
            }
        }
        println!(
            "Medians of {rounds} interleaved rounds of {} s; {IDLE} idle connections.\n",
            time.as_secs()
        );
        println!(
            "| stack | handshakes/s | processor time of the server, us | memory of an idle connection, kB |"
        );
        println!("|---|---|---|---|");
        for ((name, ..), runs) in ROWS.iter().zip(&runs) {
            let median = |at: usize| {
                let mut values: Vec<f64> = runs.iter().map(|run| run[at]).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            println!("| {name} | {:.0} | {:.0} | {:.1} |", median(0), median(1), median(2));
        }
        Ok(())
    })
}

/// Opens connections with a small exchange on each until a moment, and returns their number.
async fn open(until: Instant, kind: Kind, directory: &Path) -> Result<f64> {
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = Client::new(kind, HOST, directory).await?;
        tasks.spawn(async move {
            let mut count = 0;
            while Instant::now() < until {
                client.exchange(1).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut opened = 0;
    while let Some(count) = tasks.join_next().await {
        opened += count??;
    }
    Ok(f64::from(opened))
}

/// Returns the memory of the server that an idle connection takes, after one exchange, kB.
async fn idle_memory(server: &Server, kind: Kind, directory: &Path) -> Result<f64> {
    let mut clients = Vec::new();
    let mut before = 0;
    // Connections of the first part give buffers and tables their size.
    for count in [IDLE / 20, IDLE] {
        before = server.memory()?;
        for _ in 0..count {
            let mut client = Client::new(kind, HOST, directory).await?;
            client.exchange(REQUEST).await?;
            clients.push(client);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    Ok((server.memory()?.saturating_sub(before)) as f64 / IDLE as f64 / 1e3)
}
