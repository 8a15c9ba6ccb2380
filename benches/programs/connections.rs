//! Many connections at once to one `rdt-recv --no-link --ack-every batch`: `cargo bench --bench
//! connections` (`-- --rounds N --seconds N`: 5, 2; `--connections N`: N alone; `--arrangements N`:
//! the first N of six; `--in-flight N`: 32768 packets).
//!
//! The windows of all connections have 32768 packets in total, and at most 8192 each, as in the
//! published runs. With 512 connections a window has 64 packets, about one GRO message.
//!
//! The connections are in this process. There are two arrangements: one thread and socket per
//! connection, as in `rdt-send`, and one thread and socket for all connections, as in an endpoint
//! of the library. The second is native, once encrypted and once without a cipher, and its receiver
//! has one of two cores to itself. The first includes the scheduling of hundreds of threads.
//!
//! Baseline: one connection with zero-copy sends, as in `rdt-send`, to one receiver thread; it runs
//! in each round between the others. Many connections copy, which is faster for many senders in one
//! process. A single connection that copies has a row of its own.
//!
//! All connections send for the same time. Only the middle of that time is measured, in which all
//! are open, so that handshakes and late ends have no effect. Then the transfers end normally, and
//! the checksums of classic ones are compared.

mod common;
#[path = "connections/load.rs"]
mod load;

use std::thread;
use std::time::{Duration, Instant};

use common::{Program, Surroundings, argument, median, number, rounds, table, verdict};
use load::{Load, Loads, Marks};
use rdt_crypto::{Aead, Entropy};
use rdt_endpoint::thread::{run, send_memory};
use rdt_endpoint::truesize;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{
    ConnectionConfig, ConnectionSet, ConnectionSetConfig, FramePool, LinkProperties, Sender, SenderConfig,
};
use rdt_udp::{Connected, Remote, UdpIo, UdpOptions, Waiter, clock};

/// Sum of all windows, packets.
const IN_FLIGHT: u64 = 32_768;
/// Largest window, packets: that of the published runs.
const MOST_WINDOW: usize = 8192;
/// Time until all connections and their windows are open: a constant part, and a part per
/// connection.
const SETTLE: Duration = Duration::from_millis(700);
const SETTLE_EACH: Duration = Duration::from_millis(4);
const CONNECTIONS: [usize; 4] = [1, 8, 64, 512];
/// Targets for many connections: rate relative to that of one connection, and Jain's index.
const RATE: f64 = 0.85;
const JAIN: f64 = 0.9;

/// Arrangement of senders and receiver.
#[derive(Debug, Clone, Copy)]
struct Arrangement {
    /// Cipher of native connections of one socket; `None` for classic senders with a thread each.
    native: Option<Aead>,
    /// Number of the receiver's threads.
    threads: usize,
    /// True for zero-copy sends.
    zero_copy: bool,
}

const CLASSIC: Arrangement = Arrangement { native: None, threads: 1, zero_copy: false };
const NATIVE: Arrangement = Arrangement { native: Some(Aead::Aes128Gcm), ..CLASSIC };
const PLAIN: Arrangement = Arrangement { native: Some(Aead::None), ..CLASSIC };
const ARRANGEMENTS: [Arrangement; 6] = [
    CLASSIC,
    Arrangement { threads: 2, ..CLASSIC },
    NATIVE,
    Arrangement { threads: 2, ..NATIVE },
    PLAIN,
    Arrangement { threads: 2, ..PLAIN },
];
/// Baseline with one connection.
const ONE: Arrangement = Arrangement { zero_copy: true, ..CLASSIC };

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, seconds) = (rounds(5), argument("--seconds", 2));
    println!("Medians of {rounds} interleaved rounds of {seconds} s, 1472-byte packets, an ACK a batch.\n");
    table(&[
        "senders",
        "format",
        "batches",
        "receiver's threads",
        "connections",
        "window",
        "Gbit/s",
        "of one",
        "Jain's index",
        "sent again",
        "receive overflow",
        "receiver's CPU s/GB",
        "receiver's peak MB",
        "targets",
    ]);
    let counts = match count("--connections", 0) {
        0 => CONNECTIONS.to_vec(),
        asked => vec![asked],
    };
    let arrangements = ARRANGEMENTS.iter().take(count("--arrangements", 6));
    let many = arrangements.flat_map(|arrangement| counts.iter().map(|&count| (*arrangement, count)));
    let mut rows: Vec<_> = [(ONE, 1)].into_iter().chain(many).map(|row| (row, Vec::new())).collect();
    for _ in 0..rounds {
        for ((arrangement, connections), runs) in &mut rows {
            runs.push(arrangement.measure(*connections, Duration::from_secs(seconds)));
        }
    }
    let one = of(&rows[0].1, |row| row.gbps);
    for ((arrangement, connections), runs) in &rows {
        println!("| {} | {} |", arrangement.cells(*connections), figures(runs, one));
    }
    surroundings.report();
}

fn figures(runs: &[Row], one: f64) -> String {
    let (gbps, jain) = (of(runs, |row| row.gbps), of(runs, |row| row.jain));
    format!(
        "{gbps:.2} | {:.3} | {jain:.3} | {} | {} | {:.3} | {:.0} | {}",
        gbps / one,
        of(runs, |row| row.retransmitted),
        of(runs, |row| row.overflow),
        of(runs, |row| row.cpu_per_gb),
        of(runs, |row| row.peak_mb),
        verdict(&[("rate", gbps >= RATE * one), ("Jain's index", jain >= JAIN)]),
    )
}

fn count(name: &str, default: u64) -> usize {
    usize::try_from(argument(name, default)).expect("a small number")
}

struct Row {
    gbps: f64,
    jain: f64,
    retransmitted: f64,
    overflow: f64,
    cpu_per_gb: f64,
    peak_mb: f64,
}

fn of(rows: &[Row], value: impl Fn(&Row) -> f64) -> f64 {
    median(&rows.iter().map(value).collect::<Vec<_>>())
}

fn window(connections: usize) -> usize {
    (count("--in-flight", IN_FLIGHT) / connections).clamp(1, MOST_WINDOW)
}

impl Arrangement {
    fn cells(self, connections: usize) -> String {
        let (senders, format) = match self.native {
            Some(aead) => ("one thread", format!("native, {}", aead.name())),
            None => ("a thread each", "classic".to_owned()),
        };
        let batches = if self.zero_copy { "zero-copy" } else { "copied" };
        let (threads, window) = (self.threads, window(connections));
        format!("{senders} | {format} | {batches} | {threads} | {connections} | {window}")
    }

    fn measure(self, connections: usize, time: Duration) -> Row {
        let threads = self.threads;
        let (receiver, address) =
            Program::receiver(&format!("--no-link --insecure --ack-every batch --threads {threads}"));
        let end = receiver.until_interrupted();
        let address = address.parse().expect("the receiver tells its address");
        let begin = clock::now() + SETTLE + SETTLE_EACH * u32::try_from(connections).expect("a few hundred");
        let plan = Plan { arrangement: self, address, window: window(connections), begin, end: begin + time };
        let done = if self.native.is_some() {
            in_turn(&plan, connections)
        } else {
            thread::scope(|scope| {
                let plan = &plan;
                let threads: Vec<_> = (0..connections).map(|_| scope.spawn(move || alone(plan))).collect();
                threads.into_iter().map(|t| t.join().expect("a connection succeeds")).collect()
            })
        };
        let received = end();
        let rates: Vec<f64> = done.iter().map(|done| done.bps).collect();
        Row {
            gbps: rates.iter().sum::<f64>() / 1e9,
            jain: jain(&rates),
            retransmitted: done.iter().map(|done| done.retransmitted).sum(),
            overflow: number(&received["socket"], "receive_overflow_messages"),
            cpu_per_gb: number(&received, "processor_ns") / 1e9 / (number(&received, "bytes") / 1e9),
            peak_mb: number(&received, "memory_peak_bytes") / 1e6,
        }
    }
}

/// Returns Jain's index: 1 if all rates are equal, 1/n if one connection has everything (Jain, Chiu
/// and Hawe 1984).
#[expect(clippy::cast_precision_loss, reason = "a few hundred connections")]
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

struct Plan {
    arrangement: Arrangement,
    address: std::net::SocketAddr,
    window: usize,
    begin: Instant,
    end: Instant,
}

struct Done {
    /// Goodput in the measured time, bits per second.
    bps: f64,
    retransmitted: f64,
}

impl Done {
    #[expect(clippy::cast_precision_loss, reason = "rates are printed to two decimals")]
    fn new(marks: &Marks, retransmitted: u64) -> Self {
        let [(begin, before), (end, after)] = marks[..] else { panic!("the transfer ended early") };
        let bps = (after - before) as f64 * 8.0 / (end - begin).as_secs_f64();
        Self { bps, retransmitted: retransmitted as f64 }
    }
}

impl Plan {
    fn classic(&self) -> SenderConfig {
        let link = LinkProperties {
            rtt_s: 0.0,
            speed_bps: 1e10,
            loss_forward: 0.0,
            loss_reverse: 0.0,
            buffer: 1_000_000,
        };
        SenderConfig::new(self.packets(), link)
    }

    fn native(&self) -> ConnectionConfig {
        let window = self.packets();
        let congestion = Algorithm::Fixed(window);
        let sender = SenderConfig { congestion, window, pacing: false, ..SenderConfig::native(1) };
        let cipher = self.arrangement.native.filter(|aead| aead.is_encrypted());
        ConnectionConfig {
            sender,
            one_way: true,
            aead: cipher,
            dangerously_unencrypted: cipher.is_none(),
            ..ConnectionConfig::default()
        }
    }

    fn packets(&self) -> u32 {
        u32::try_from(self.window).expect("a window is small")
    }
}

/// Runs one classic connection on this thread.
fn alone(plan: &Plan) -> Done {
    let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).expect("a free port");
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
    let mut socket = Connected::new(io, plan.address);
    let memory = if plan.arrangement.zero_copy { send_memory(&mut socket) } else { FramePool::new() };
    let mut sender = Sender::with_memory(plan.classic(), memory).expect("the configuration is valid");
    sender.open().expect("a new sender opens");
    let mut load = Load::new([plan.begin, plan.end]);
    run(&mut sender, &mut socket, &mut load, &mut waiter).expect("the socket works");
    let stats = sender.stats();
    assert_eq!(load.crc, Some(stats.crc), "the receiver got what was sent");
    Done::new(&load.marks, stats.retransmitted)
}

/// Runs all native connections on this thread.
fn in_turn(plan: &Plan, connections: usize) -> Vec<Done> {
    let mut io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).expect("a free port");
    let socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
    let limits = ConnectionSetConfig { socket_buffer, ..ConnectionSetConfig::default() };
    let mut set = ConnectionSet::new(limits, Entropy::from_seed([1; 32]));
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
    // Answers arrive with the local address, and belong to a peer with the same one.
    let peer = Remote { addr: plan.address, local: Some(plan.address.ip()) };
    let mut loads = Loads::new(peer, plan.native(), connections, [plan.begin, plan.end]);
    run(&mut set, &mut io, &mut loads, &mut waiter).expect("the socket works");
    loads.marks.values().zip(&loads.retransmitted).map(|(marks, again)| Done::new(marks, *again)).collect()
}
