//! Transfers of both formats beside floods of SYNs of both formats, over loopback: `cargo bench
//! --bench flood` (`-- --rounds N --bytes N`: 3, 4000000000).
//!
//! One `rdt-recv`, one `rdt-send`, no link. This process sends 100,000 SYNs a second from 512
//! addresses in 127.0.0.0/8, and counts the answers that arrive there while the transfer runs.
//! Every 100 ms it also opens an encrypted connection to the receiver, with a new endpoint, so by a
//! handshake and without a cookie. SYNs to another socket, which no program reads, show what the
//! flood itself costs this host. Targets: the transfer keeps half of its rate, the answers stay at
//! 10,000 a second for both formats together, and 99 % of the connections open within 5 s. Linux
//! only: elsewhere 127.0.0.0/8 is not all local.

mod common;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Program, Surroundings, argument, assert_arrived, median, number, rounds, table, verdict};
use rdt_crypto::Entropy;
use rdt_endpoint::blocking::Endpoint;
use rdt_endpoint::{Connect, EndpointConfig, generate_key};
use rdt_testing::packets;
use rdt_transport::{
    ConnectionConfig, ConnectionSet, ConnectionSetConfig, Ecn, Endpoint as _, InitiatorConfig, TransmitBuf,
};
use rdt_udp::clock;

/// Rate of a flood, SYNs per second.
const RATE: u32 = 100_000;
const SOCKETS: usize = 512;
/// Native SYNs with different connection IDs.
const SYNS: usize = 4096;
/// Time in which a connection must open, and the interval between two.
const OPEN_TIME: Duration = Duration::from_secs(5);
const OPEN_INTERVAL: Duration = Duration::from_millis(100);
/// Smallest part of the rate without a flood that a transfer keeps.
const TARGET: f64 = 0.5;
/// Largest number of answers per second, with a burst and the 1024 half-open connections of proved
/// addresses.
const MOST_ANSWERS: f64 = 11_000.0;

/// SYNs of a flood.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flood {
    None,
    /// To another socket.
    Elsewhere,
    Classic,
    Native,
    /// Native, with cookies that prove the addresses.
    Proved,
}

const FLOODS: [(Flood, &str); 5] = [
    (Flood::None, "none"),
    (Flood::Elsewhere, "to another socket"),
    (Flood::Classic, "classic"),
    (Flood::Native, "native, no cookie"),
    (Flood::Proved, "native, valid cookies"),
];
/// Transfers, and their arguments of `rdt-send`.
const TRANSFERS: [(&str, &str); 2] = [("classic", "8192 0 0 10000"), ("native", "")];

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(3), argument("--bytes", 4_000_000_000));
    println!("Medians of {rounds} interleaved rounds of {bytes} bytes; answers: the most of all rounds.\n");
    let mut rows: Vec<_> = TRANSFERS
        .iter()
        .flat_map(|transfer| FLOODS.iter().map(move |flood| (transfer, flood, Vec::new())))
        .collect();
    for _ in 0..rounds {
        for (transfer, (flood, _), runs) in &mut rows {
            runs.push(run(transfer.1, *flood, bytes).expect("sockets of the loopback interface work"));
        }
    }
    table(&[
        "transfer",
        "SYNs of the flood",
        "sent/s",
        "answers/s",
        "Gbit/s",
        "of the rate without",
        "opened in 5 s",
        "slowest, ms",
        "targets",
    ]);
    let mut alone = f64::NAN;
    for ((transfer, _), (flood, name), runs) in &rows {
        let middle = |of: fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
        let (gbps, answers) =
            (middle(|run| run.gbps), runs.iter().map(|run| run.answers).fold(0.0, f64::max));
        if *flood == Flood::None {
            alone = gbps;
        }
        let times: Vec<_> = runs.iter().flat_map(|run| &run.opened).collect();
        let opened = times.iter().filter(|time| time.is_some()).count();
        let slowest = times.iter().map(|time| time.unwrap_or(OPEN_TIME)).max().unwrap_or_default();
        let verdict = verdict(&[
            ("rate", gbps >= TARGET * alone),
            ("answers", answers <= MOST_ANSWERS),
            ("openings", opened * 100 >= times.len() * 99),
        ]);
        println!(
            "| {transfer} | {name} | {:.0} | {answers:.0} | {gbps:.2} | {:.2} | {opened} of {} | {:.0} | {verdict} |",
            middle(|run| run.sent),
            gbps / alone,
            times.len(),
            slowest.as_secs_f64() * 1e3,
        );
    }
    surroundings.report();
}

struct Run {
    gbps: f64,
    /// SYNs that the kernel took, and answers, per second of the transfer.
    sent: f64,
    answers: f64,
    /// Time of each opening; `None` after 5 s.
    opened: Vec<Option<Duration>>,
}

/// Runs a transfer of `bytes` bytes beside a flood.
fn run(transfer: &str, flood: Flood, bytes: u64) -> io::Result<Run> {
    let (recv, address) = Program::receiver("--no-link");
    let ended = recv.until_interrupted();
    let to: SocketAddr = address.parse().map_err(io::Error::other)?;
    let elsewhere = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let flooded = if flood == Flood::Elsewhere { elsewhere.local_addr()? } else { to };
    let mut flood = Flooding::new(flood, flooded)?;
    let flooding = until_dropped(move |end| flood.send_until(&end));
    let opening = until_dropped(move |end| open_repeatedly(to, &end));
    // The flood is there before the transfer.
    clock::sleep_until(clock::now() + Duration::from_millis(300));
    let sent = Program::sender(&format!("{address} {transfer} --bytes {bytes} --quiet")).last_line();
    let end = clock::now();
    let ticks = flooding();
    let opened = opening()?;
    assert_arrived(&sent);
    ended();
    let elapsed = Duration::from_secs_f64(number(&sent, "elapsed_ns") / 1e9);
    // The sender ends some milliseconds after its transfer, and answers are read in turn.
    let during: Vec<_> = ticks.iter().filter(|tick| tick.at + elapsed >= end && tick.at <= end).collect();
    let per_s = |of: fn(&Tick) -> u32| {
        f64::from(during.iter().map(|tick| of(tick)).sum::<u32>()) / elapsed.as_secs_f64()
    };
    let (syns, answers) = (per_s(|tick| tick.sent), per_s(|tick| tick.answers));
    Ok(Run { gbps: number(&sent, "goodput_bps") / 1e9, sent: syns, answers, opened })
}

/// SYNs that the kernel took, and answers, in a millisecond or so.
struct Tick {
    at: Instant,
    sent: u32,
    answers: u32,
}

/// Runs `work` on a thread. Returns a function that ends it and returns its result: `work` is to
/// end when its channel is closed.
fn until_dropped<R: Send + 'static>(
    work: impl FnOnce(Receiver<()>) -> R + Send + 'static,
) -> impl FnOnce() -> R {
    let (end, ended): (Sender<()>, _) = mpsc::channel();
    let thread: JoinHandle<R> = thread::spawn(move || work(ended));
    move || {
        drop(end);
        thread.join().expect("failures are counted")
    }
}

/// Waits for `time`. Returns false at the end.
fn goes_on(end: &Receiver<()>, time: Duration) -> bool {
    end.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

/// Opens connections until the end.
fn open_repeatedly(address: SocketAddr, end: &Receiver<()>) -> io::Result<Vec<Option<Duration>>> {
    let mut times = Vec::new();
    while goes_on(end, OPEN_INTERVAL) {
        let endpoint = Endpoint::bind("127.0.0.1:0", EndpointConfig::default())?;
        let connect = Connect::trusting(|_| true).identity(generate_key()?);
        let start = clock::now();
        let opened = endpoint.connect_timeout(address, connect, OPEN_TIME);
        times.push(opened.is_ok().then(|| start.elapsed()));
    }
    Ok(times)
}

/// Sockets and SYNs of a flood.
struct Flooding {
    sockets: Vec<UdpSocket>,
    /// SYNs, each with the index of its socket.
    syns: Vec<(usize, Vec<u8>)>,
}

impl Flooding {
    fn new(flood: Flood, to: SocketAddr) -> io::Result<Self> {
        let sockets = (1..)
            .take(SOCKETS)
            .map(|n| {
                let socket = UdpSocket::bind((Ipv4Addr::from_bits(0x7f02_0000 + n), 0))?;
                socket.connect(to)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            })
            .collect::<io::Result<Vec<_>>>()?;
        let syns = match flood {
            Flood::None => Vec::new(),
            Flood::Classic => {
                let syn = packets::classic_syn(0.0, 1e10, [0.0; 2], 10);
                (0..SOCKETS).map(|socket| (socket, syn.clone())).collect()
            }
            Flood::Native | Flood::Elsewhere => native_syns().1,
            Flood::Proved => proved_syns(&sockets),
        };
        Ok(Self { sockets, syns })
    }

    /// Sends SYNs until the end.
    fn send_until(&mut self, end: &Receiver<()>) -> Vec<Tick> {
        drain(&self.sockets);
        let (start, mut due, mut ticks) = (clock::now(), 0, Vec::new());
        let mut syns = self.syns.iter().cycle();
        let mut listening = self.sockets.chunks(SOCKETS / 32).cycle();
        while goes_on(end, Duration::from_millis(1)) {
            let until = start.elapsed().as_micros() * u128::from(RATE) / 1_000_000;
            let mut sent = 0;
            for (socket, syn) in syns.by_ref().take(usize::try_from(until - due).expect("some hundred")) {
                sent += u32::from(self.sockets[*socket].send(syn).is_ok());
            }
            due = until;
            ticks.push(Tick { at: clock::now(), sent, answers: listening.next().map_or(0, drain) });
        }
        ticks
    }
}

/// Reads what has arrived, and returns the number of datagrams.
fn drain(sockets: &[UdpSocket]) -> u32 {
    let mut buffer = [0; 512];
    let arrived = |socket: &UdpSocket| {
        std::iter::repeat_with(|| socket.recv(&mut buffer)).take_while(Result::is_ok).count()
    };
    u32::try_from(sockets.iter().map(arrived).sum::<usize>()).expect("some thousand")
}

/// Returns a set that opens connections to as many peers, and its SYNs without a cookie, each with
/// the index of its socket.
fn native_syns() -> (ConnectionSet<usize>, Vec<(usize, Vec<u8>)>) {
    let mut set = ConnectionSet::new(ConnectionSetConfig::default(), Entropy::from_seed([1; 32]));
    let mut batch = TransmitBuf::new(1);
    let mut connect = |peer| {
        let (keys, config) = (InitiatorConfig::default(), ConnectionConfig::default());
        set.connect(clock::now(), peer, keys, config).expect("a valid configuration");
        batch.clear();
        set.poll_transmit(clock::now(), &mut batch).expect("a SYN");
        (peer % SOCKETS, batch.bytes().to_vec())
    };
    let syns = (0..SYNS).map(&mut connect).collect();
    (set, syns)
}

/// Asks for cookies, which are valid for at least 15 s, and returns the SYNs that have them.
fn proved_syns(sockets: &[UdpSocket]) -> Vec<(usize, Vec<u8>)> {
    let (mut set, syns) = native_syns();
    let ids =
        syns.iter().enumerate().filter_map(|(peer, (_, syn))| Some((packets::connection_id(syn)?, peer)));
    let peers: BTreeMap<u64, usize> = ids.collect();
    let (mut proved, mut batch, mut buffer) = (Vec::new(), TransmitBuf::new(1), [0; 512]);
    for sent in syns.chunks(64) {
        for (socket, syn) in sent {
            let _ = sockets[*socket].send(syn);
        }
        clock::sleep_until(clock::now() + Duration::from_millis(5));
        for (socket, _) in sent {
            while let Ok(len) = sockets[*socket].recv(&mut buffer) {
                let answer = &mut buffer[..len];
                let Some(peer) = packets::connection_id(answer).and_then(|id| peers.get(&id)) else {
                    continue;
                };
                set.handle_datagram(clock::now(), *peer, Ecn::NotEct, answer);
                batch.clear();
                // A SYN-ACK is answered by AUTH: that one needed no cookie.
                let next = set.poll_transmit(clock::now(), &mut batch).map(|_| batch.bytes());
                if let Some(syn) = next.filter(|bytes| bytes.get(1) == Some(&1)) {
                    proved.push((*socket, syn.to_vec()));
                }
            }
        }
    }
    assert!(proved.len() > SYNS / 2, "{} cookies", proved.len());
    proved
}
