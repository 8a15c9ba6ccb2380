//! Many connections at once to one `rdt-recv --no-link --ack-every batch`:
//! `cargo bench -p rdt-cli --bench connections` (`-- --rounds N --seconds N`: 5, 2).
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
    Application, Connected, DwordArray, Fill, Flow, Source as _, UdpIo, UdpOptions, Waiter, clock, run,
};
use rdt_transport::drive::{Budget, turn};
use rdt_transport::{Endpoint as _, LinkProperties, Sender, SenderConfig, SenderEvent};

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
    for (senders, threads) in [(Threads::One, 1), (Threads::One, 2), (Threads::Each, 1), (Threads::Each, 2)] {
        let mut rows: Vec<Vec<Row>> = CONNECTIONS.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for (row, connections) in rows.iter_mut().zip(CONNECTIONS) {
                row.push(measure(senders, threads, connections, Duration::from_secs(seconds)));
            }
        }
        let one = of(&rows[0], |row| row.gbps);
        for (row, connections) in rows.iter().zip(CONNECTIONS) {
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
    (IN_FLIGHT / connections).clamp(LEAST_WINDOW, MOST_WINDOW)
}

fn measure(senders: Threads, threads: usize, connections: usize, time: Duration) -> Row {
    let (receiver, address) = Program::receiver(&format!("--no-link --ack-every batch --threads {threads}"));
    let end = receiver.until_interrupted();
    let address = address.parse().expect("the receiver tells its address");
    let begin = clock::now() + SETTLE + SETTLE_EACH * u32::try_from(connections).expect("a few hundred");
    let plan = Plan { address, window: window(connections), begin, end: begin + time };
    let done = match senders {
        Threads::One => in_turn((0..connections).map(|_| Connection::new(&plan)).collect()),
        Threads::Each => thread::scope(|scope| {
            let threads: Vec<_> =
                (0..connections).map(|_| scope.spawn(|| Connection::new(&plan).run())).collect();
            threads.into_iter().map(|t| t.join().expect("a connection succeeds")).collect()
        }),
    };
    let received = end();
    let rates: Vec<f64> = done.iter().map(|done| done.bps).collect();
    Row {
        gbps: rates.iter().sum::<f64>() / 1e9,
        jain: jain(&rates),
        retransmitted: done.iter().map(|done| done.retransmitted).sum(),
        overflow: number(&received["socket"], "receive_overflow"),
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
struct Connection {
    sender: Sender,
    socket: Connected,
    load: Load,
    /// When it must be looked at again though nothing arrived.
    deadline: Option<Instant>,
}

impl Connection {
    fn new(plan: &Plan) -> Self {
        let link = LinkProperties {
            rtt_s: 0.0,
            speed_bps: 1e10,
            loss_forward: 0.0,
            loss_reverse: 0.0,
            buffer: 1_000_000,
        };
        let window = u32::try_from(plan.window).expect("a window is small");
        let mut sender = Sender::new(SenderConfig::new(window, link)).expect("the configuration is valid");
        let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).expect("a free port");
        sender.open().expect("a new sender opens");
        let source = DwordArray::new(u64::MAX);
        let load = Load { source, marks: Vec::new(), plan: [plan.begin, plan.end], crc: None };
        Self { sender, socket: Connected::new(io, plan.address), load, deadline: Some(plan.begin) }
    }

    /// On the thread that calls.
    fn run(mut self) -> Done {
        let mut waiter = Waiter::new(self.socket.io().socket(), Duration::ZERO).expect("a poller");
        run(&mut self.sender, &mut self.socket, &mut self.load, &mut waiter).expect("the socket works");
        self.done()
    }

    /// One turn; false at the end.
    fn step(&mut self, now: Instant) -> bool {
        let wanted = match self.load.pump(now, &mut self.sender) {
            Flow::Done => return false,
            Flow::Again => Some(now),
            Flow::Wait(wanted) => wanted,
        };
        let turn = turn(&mut self.sender, &mut self.socket, now, Budget::default());
        assert!(self.socket.take_error().is_none(), "the socket works");
        let again = turn.more || turn.blocked || turn.fired || self.sender.wants_data();
        // Events come with datagrams: those of the ends of a transfer, when nothing is in flight.
        let stats = self.sender.stats();
        let news = turn.received > 0 && stats.snd_una == stats.snd_nxt;
        self.deadline = if again || news { Some(now) } else { turn.deadline.into_iter().chain(wanted).min() };
        true
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are printed to two decimals")]
    fn done(&self) -> Done {
        let stats = self.sender.stats();
        assert_eq!(self.load.crc, Some(stats.crc), "the receiver got what was sent");
        let [(begin, before), (end, after)] = self.load.marks[..] else { panic!("the transfer ended early") };
        Done {
            bps: (after - before) as f64 * 8.0 / (end - begin).as_secs_f64(),
            retransmitted: (stats.timeouts + stats.fast_retransmits) as f64,
        }
    }
}

/// Runs all of them on this thread.
fn in_turn(connections: Vec<Connection>) -> Vec<Done> {
    let mut done = Vec::new();
    let mut running: Vec<_> = connections.into_iter().map(|connection| (connection, true)).collect();
    loop {
        let now = clock::now();
        running.retain_mut(|(connection, ready)| {
            let due = *ready || connection.deadline.is_some_and(|deadline| deadline <= now);
            let goes_on = !due || connection.step(now);
            if !goes_on {
                done.push(connection.done());
            }
            goes_on
        });
        if running.is_empty() {
            return done;
        }
        wait(&mut running);
    }
}

/// Sleeps until one of them has something to read or a deadline comes, and marks who may have.
#[cfg(unix)]
fn wait(running: &mut [(Connection, bool)]) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let deadline = running.iter().filter_map(|(connection, _)| connection.deadline).min();
    let timeout = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
    let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("a short time"));
    let sockets: Vec<_> = running.iter().map(|(connection, _)| connection.socket.io().socket()).collect();
    let mut polled: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
    poll(&mut polled, timeout.as_ref()).expect("waiting works");
    for ((_, ready), polled) in running.iter_mut().zip(&polled) {
        *ready = !polled.revents().is_empty();
    }
}

#[cfg(not(unix))]
fn wait(running: &mut [(Connection, bool)]) {
    running.iter_mut().for_each(|(_, ready)| *ready = true);
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
        while let Ok(spare @ [_, ..]) = sender.spare() {
            let Ok(Fill::Bytes(n)) = self.source.read(spare) else { unreachable!("the array is endless") };
            sender.advance(n);
        }
        Flow::Wait(mark)
    }
}
