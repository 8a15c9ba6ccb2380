//! Many connections at once to one `rdt-recv --no-link --ack-every batch`:
//! `cargo bench -p rdt-cli --bench connections` (`-- --rounds N --seconds N`: 5, 2; `--connections N`: one and N
//! alone; `--arrangement N`: the N-th of four alone; `--in-flight N`: packets that all windows hold together).
//!
//! Each connection is a real sender on a socket of its own, all in this process, in two arrangements: one thread
//! for all of them, which takes them in turn as they have something to do, and a thread each, as `rdt-send` has
//! it. The first leaves the receiver a core of two, so it shows what the receiver makes of many; in the second
//! the system's scheduler decides who is next among hundreds, and is measured with them.
//!
//! All connections send for the same time; of that the middle is measured, in which all of them are open, so
//! that neither handshakes nor stragglers count. Then they end as transfers should, and their checksums are
//! compared. The windows of all of them together are the same number of packets, so what waits in the receiver's
//! socket is bounded by that.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{Program, Surroundings, argument, median, number, rounds, table};
use rdt_driver::{
    Application, Connected, DwordArray, Fill, Flow, Many, Member, Refill, Source as _, UdpIo, UdpOptions,
    Waiter, clock, run,
};
use rdt_transport::{Endpoint as _, LinkProperties, SendMemory, Sender, SenderConfig, SenderEvent};

/// Packets that all windows hold together, and the least that one of them does.
const IN_FLIGHT: usize = 32_768;
const LEAST_WINDOW: usize = 16;
const MOST_WINDOW: usize = 8192;
/// Until all connections are open and their windows too, and what each of them adds.
const SETTLE: Duration = Duration::from_millis(700);
const SETTLE_EACH: Duration = Duration::from_millis(4);
const CONNECTIONS: [usize; 4] = [1, 8, 64, 512];

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, seconds) = (rounds(5), argument("--seconds", 2));
    println!("Medians of {rounds} interleaved rounds of {seconds} s, 1472-byte packets, an ACK a batch.\n");
    table(&[
        "senders",
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
    ]);
    let arrangements = [(Threads::One, 1), (Threads::One, 2), (Threads::Each, 1), (Threads::Each, 2)];
    let arrangements = match count("--arrangement", 0) {
        0 => &arrangements[..],
        one => &arrangements[one - 1..one],
    };
    let mut counts = CONNECTIONS.to_vec();
    match count("--connections", 0) {
        0 => {}
        asked => counts = vec![1, asked],
    }
    for &(senders, threads) in arrangements {
        let mut rows: Vec<Vec<Row>> = counts.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for (row, &connections) in rows.iter_mut().zip(&counts) {
                row.push(measure(senders, threads, connections, Duration::from_secs(seconds)));
            }
        }
        let one = of(&rows[0], |row| row.gbps);
        for (row, &connections) in rows.iter().zip(&counts) {
            let gbps = of(row, |row| row.gbps);
            println!(
                "| {} | {threads} | {connections} | {} | {gbps:.2} | {:.2} | {:.3} | {} | {} | {:.3} | {:.0} |",
                if senders == Threads::One { "one thread" } else { "a thread each" },
                window(connections),
                gbps / one,
                of(row, |row| row.jain),
                of(row, |row| row.retransmitted),
                of(row, |row| row.overflow),
                of(row, |row| row.cpu_per_gb),
                of(row, |row| row.peak_mb),
            );
        }
    }
    surroundings.report();
}

fn count(name: &str, default: u64) -> usize {
    usize::try_from(argument(name, default)).expect("a small number")
}

/// How many threads the senders have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    One,
    Each,
}

/// What one round of one row gave.
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
    (count("--in-flight", IN_FLIGHT as u64) / connections).clamp(LEAST_WINDOW, MOST_WINDOW)
}

fn measure(senders: Threads, threads: usize, connections: usize, time: Duration) -> Row {
    let (receiver, address) = Program::receiver(&format!("--no-link --ack-every batch --threads {threads}"));
    let end = receiver.until_interrupted();
    let address = address.parse().expect("the receiver tells its address");
    let begin = clock::now() + SETTLE + SETTLE_EACH * u32::try_from(connections).expect("a few hundred");
    let plan = Plan { address, window: window(connections), begin, end: begin + time };
    let done = match senders {
        Threads::One => in_turn(&plan, connections),
        Threads::Each => thread::scope(|scope| {
            let threads: Vec<_> = (0..connections).map(|_| scope.spawn(|| alone(&plan))).collect();
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
        cpu_per_gb: number(&received, "processor_us") / 1e6 / (number(&received, "bytes") / 1e9),
        peak_mb: number(&received, "memory_peak_bytes") / 1e6,
    }
}

/// 1 if all shares are equal, 1/n if one has everything (Jain, Chiu and Hawe 1984).
#[expect(clippy::cast_precision_loss, reason = "a few hundred connections")]
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

struct Plan {
    address: std::net::SocketAddr,
    window: usize,
    begin: Instant,
    end: Instant,
}

/// What one connection did.
struct Done {
    /// Goodput in the measured time.
    bps: f64,
    retransmitted: f64,
}

/// A sender, its socket and what it sends.
type Connection = Member<Sender, Connected, Load>;

fn connection(plan: &Plan, memory: SendMemory) -> Connection {
    let link = LinkProperties {
        rtt_s: 0.0,
        speed_bps: 1e10,
        loss_forward: 0.0,
        loss_reverse: 0.0,
        buffer: 1_000_000,
    };
    let window = u32::try_from(plan.window).expect("a window is small");
    let config = SenderConfig::new(window, link);
    let mut endpoint = Sender::with_memory(config, memory).expect("the configuration is valid");
    endpoint.open().expect("a new sender opens");
    let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).expect("a free port");
    let socket = Connected::new(io, plan.address);
    let source = DwordArray::new(u64::MAX);
    Member {
        endpoint,
        socket,
        application: Load { source, marks: Vec::new(), plan: [plan.begin, plan.end], crc: None },
    }
}

/// Runs one on this thread.
fn alone(plan: &Plan) -> Done {
    let mut one = connection(plan, SendMemory::new());
    let mut waiter = Waiter::new(one.socket.io().socket(), Duration::ZERO).expect("a poller");
    run(&mut one.endpoint, &mut one.socket, &mut one.application, &mut waiter).expect("the socket works");
    done(&one)
}

/// Runs all of them on this thread.
fn in_turn(plan: &Plan, connections: usize) -> Vec<Done> {
    let (memory, mut many) = (SendMemory::new(), Many::new().expect("a poller"));
    for _ in 0..connections {
        many.add(connection(plan, memory.clone())).expect("a descriptor more");
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
        retransmitted: (stats.timeouts + stats.fast_retransmits) as f64,
    }
}

/// Sends without end until the time is up, and notes what was acknowledged at its marks.
struct Load {
    source: DwordArray,
    plan: [Instant; 2],
    marks: Vec<(Instant, u64)>,
    crc: Option<u32>,
}

impl Application<Sender> for Load {
    fn pump(&mut self, now: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => self.crc = Some(crc),
                SenderEvent::Failed { phase, error } => panic!("{phase}: {error}"),
            }
        }
        if self.crc.is_some() {
            return Flow::Done;
        }
        let mark = self.plan.get(self.marks.len()).copied();
        if mark.is_some_and(|mark| mark <= now) {
            self.marks.push((now, sender.stats().bytes_acked));
            if self.marks.len() == self.plan.len() {
                sender.finish().expect("it was opened");
            }
        }
        Flow::Wait(mark)
    }

    fn refill(&mut self, sender: &mut Sender, batches: usize) -> Refill {
        while let Ok(spare) = sender.spare_now(batches)
            && !spare.is_empty()
        {
            let Ok(Fill::Bytes(n)) = self.source.read_into(spare) else {
                unreachable!("the array is endless")
            };
            sender.advance(n);
        }
        Refill::Done
    }
}
