//! Many connections at once to one `rdt-recv --no-link --ack-every batch`: `cargo bench --bench
//! connections` (`-- --rounds N --seconds N`: 5, 2; `--connections N`: N alone; `--arrangements N`:
//! the first N of five; `--in-flight N`: 32768 packets).
//!
//! The windows of all connections have 32768 packets in total, and at most 8192 each, as in the
//! published runs. With 512 connections a window has 64 packets, about one GRO message.
//!
//! Each connection is a sender with its own socket in this process. There are two arrangements: one
//! thread for all senders (`rdt_driver::Many`, for users of the library), and one thread per
//! sender, as in `rdt-send`. With the first, the receiver has one of two cores to itself, so the
//! result is the receiver's capacity. The second includes the scheduling of hundreds of threads.
//!
//! Baseline: one connection with zero-copy sends, as in `rdt-send`, to one receiver thread; it runs
//! in each round between the others. Many connections copy, which is faster for many senders in one
//! process. A single connection that copies has a row of its own.
//!
//! All connections send for the same time. Only the middle of that time is measured, in which all
//! are open, so that handshakes and late ends have no effect. Then the transfers end normally, and
//! their checksums are compared.

mod common;
#[path = "connections/load.rs"]
mod load;

use std::thread;
use std::time::{Duration, Instant};

use common::{Program, Surroundings, argument, median, number, rounds, table, verdict};
use load::Load;
use rdt_driver::{Connected, Many, Member, UdpIo, UdpOptions, Waiter, clock, run, send_memory};
use rdt_transport::congestion::Algorithm;
use rdt_transport::{FramePool, LinkProperties, Sender, SenderConfig};

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
    senders: Threads,
    /// Number of the receiver's threads.
    threads: usize,
    native: bool,
    /// True for zero-copy sends.
    zero_copy: bool,
}

const COPIED: Arrangement =
    Arrangement { senders: Threads::One, threads: 1, native: false, zero_copy: false };
const ARRANGEMENTS: [Arrangement; 5] = [
    COPIED,
    Arrangement { threads: 2, ..COPIED },
    Arrangement { senders: Threads::Each, ..COPIED },
    Arrangement { senders: Threads::Each, threads: 2, ..COPIED },
    Arrangement { native: true, ..COPIED },
];
/// Baseline with one connection.
const ONE: Arrangement = Arrangement { senders: Threads::Each, zero_copy: true, ..COPIED };

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
    let arrangements = ARRANGEMENTS.iter().take(count("--arrangements", 5));
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

/// Number of sender threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Threads {
    One,
    Each,
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
        let senders = if self.senders == Threads::One { "one thread" } else { "a thread each" };
        let format = if self.native { "native" } else { "classic" };
        let batches = if self.zero_copy { "zero-copy" } else { "copied" };
        let (threads, window) = (self.threads, window(connections));
        format!("{senders} | {format} | {batches} | {threads} | {connections} | {window}")
    }

    fn measure(self, connections: usize, time: Duration) -> Row {
        let threads = self.threads;
        let (receiver, address) =
            Program::receiver(&format!("--no-link --ack-every batch --threads {threads}"));
        let end = receiver.until_interrupted();
        let address = address.parse().expect("the receiver tells its address");
        let begin = clock::now() + SETTLE + SETTLE_EACH * u32::try_from(connections).expect("a few hundred");
        let plan = Plan { arrangement: self, address, window: window(connections), begin, end: begin + time };
        let done = match self.senders {
            Threads::One => in_turn(&plan, connections),
            Threads::Each => thread::scope(|scope| {
                let plan = &plan;
                let threads: Vec<_> =
                    (0..connections).map(|number| scope.spawn(move || alone(plan, number))).collect();
                threads.into_iter().map(|t| t.join().expect("a connection succeeds")).collect()
            }),
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

/// A sender, its socket and its application.
type Connection = Member<Sender, Connected, Load>;

fn connection(plan: &Plan, number: usize, memory: FramePool) -> Connection {
    let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).expect("a free port");
    let mut socket = Connected::new(io, plan.address);
    let memory = if plan.arrangement.zero_copy { send_memory(&mut socket) } else { memory };
    let mut endpoint = Sender::with_memory(plan.config(number), memory).expect("the configuration is valid");
    endpoint.open().expect("a new sender opens");
    Member { endpoint, socket, application: Load::new([plan.begin, plan.end]) }
}

impl Plan {
    fn config(&self, number: usize) -> SenderConfig {
        let window = u32::try_from(self.window).expect("a window is small");
        if self.arrangement.native {
            return SenderConfig {
                congestion: Algorithm::Fixed(window),
                window,
                pacing: false,
                ..SenderConfig::native(number as u64 + 1)
            };
        }
        let link = LinkProperties {
            rtt_s: 0.0,
            speed_bps: 1e10,
            loss_forward: 0.0,
            loss_reverse: 0.0,
            buffer: 1_000_000,
        };
        SenderConfig::new(window, link)
    }
}

/// Runs one connection on this thread.
fn alone(plan: &Plan, number: usize) -> Done {
    let mut one = connection(plan, number, FramePool::new());
    let mut waiter = Waiter::new(one.socket.io().socket(), Duration::ZERO).expect("a poller");
    run(&mut one.endpoint, &mut one.socket, &mut one.application, &mut waiter).expect("the socket works");
    done(&one)
}

/// Runs all connections on this thread.
fn in_turn(plan: &Plan, connections: usize) -> Vec<Done> {
    let (memory, mut many) = (FramePool::new(), Many::new().expect("a poller"));
    for number in 0..connections {
        many.add(connection(plan, number, memory.clone())).expect("a descriptor more");
    }
    let ended = many.run().expect("waiting works");
    ended
        .iter()
        .map(|ended| {
            ended.result.as_ref().expect("the socket works");
            done(&ended.member)
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "rates are printed to two decimals")]
fn done(connection: &Connection) -> Done {
    let (stats, load) = (connection.endpoint.stats(), &connection.application);
    assert_eq!(load.crc, Some(stats.crc), "the receiver got what was sent");
    let [(begin, before), (end, after)] = load.marks[..] else { panic!("the transfer ended early") };
    Done {
        bps: (after - before) as f64 * 8.0 / (end - begin).as_secs_f64(),
        retransmitted: stats.retransmitted as f64,
    }
}
