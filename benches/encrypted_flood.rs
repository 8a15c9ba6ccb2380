//! Encrypted transfer of the library's endpoints beside a flood of SYNs: `cargo bench --bench
//! encrypted_flood` (`-- --rounds N --bytes N`: 3, 2000000000).
//!
//! Two endpoints of this process over loopback: one sends, the other one reads. A thread sends SYNs
//! without a cookie from 64 addresses in 127.0.0.0/8, each SYN with a connection ID of its own.
//! Meanwhile a third endpoint opens a connection every 100 ms. Targets: beside 100,000 SYNs a
//! second the transfer keeps half of its rate, and 99 % of the connections open within 5 s. Linux
//! only: elsewhere 127.0.0.0/8 is not all local.

use std::env;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rdt::blocking::{Endpoint, Stream};
use rdt::{Connect, EndpointConfig, Listen, generate_key};
use rdt_crypto::{Entropy, StaticKey};
use rdt_transport::{
    ConnectionConfig, ConnectionSet, ConnectionSetConfig, Endpoint as _, InitiatorConfig, TransmitBuf,
};
use rdt_udp::clock;

/// Rates of the floods, SYNs per second.
const RATES: [u32; 3] = [0, 20_000, 100_000];
const SOCKETS: u32 = 64;
/// SYNs with different connection IDs.
const SYNS: u64 = 4096;
/// Time in which a connection must open, and the interval between two.
const OPEN_TIME: Duration = Duration::from_secs(5);
const OPEN_INTERVAL: Duration = Duration::from_millis(100);
/// Smallest part of the rate without a flood that the transfer keeps.
const TARGET: f64 = 0.5;

fn main() {
    let (rounds, bytes) = (argument("--rounds", 3), argument("--bytes", 2_000_000_000));
    println!("Medians of {rounds} interleaved rounds of {bytes} bytes.\n");
    println!("| SYN/s | sent/s | cookies/s | Gbit/s | of the rate without | opened in 5 s | slowest, ms |");
    println!("|---|---|---|---|---|---|---|");
    // Before the first transfer: each SYN needs a key, and all of them take a second or two.
    let syns = Arc::new(syns());
    let mut rows = RATES.map(|rate| (rate, Vec::new()));
    for _ in 0..rounds {
        for (rate, runs) in &mut rows {
            runs.push(run(*rate, bytes, &syns).expect("sockets of the loopback interface work"));
        }
    }
    let alone = median(&rows[0].1, |run| run.gbps);
    for (rate, runs) in &rows {
        let gbps = median(runs, |run| run.gbps);
        let opened: usize = runs.iter().map(|run| run.opened).sum();
        let tried: usize = runs.iter().map(|run| run.tried).sum();
        let slowest = runs.iter().map(|run| run.slowest).max().unwrap_or_default();
        println!(
            "| {rate} | {:.0} | {:.0} | {gbps:.2} | {:.2} | {opened} of {tried} | {:.0} |",
            median(runs, |run| run.syns_per_s),
            median(runs, |run| run.cookies_per_s),
            gbps / alone,
            slowest.as_secs_f64() * 1e3,
        );
        if *rate == RATES[2] {
            let (keeps, opens) = (gbps >= TARGET * alone, opened * 100 >= tried * 99);
            println!("\n100,000 SYN/s: half of the rate: {keeps}; 99 % open within 5 s: {opens}");
        }
    }
}

struct Run {
    gbps: f64,
    syns_per_s: f64,
    cookies_per_s: f64,
    tried: usize,
    opened: usize,
    slowest: Duration,
}

/// Runs a transfer of `bytes` bytes beside `rate` SYNs per second.
fn run(rate: u32, bytes: u64, syns: &Arc<Vec<Vec<u8>>>) -> io::Result<Run> {
    let key = generate_key()?;
    let server = Endpoint::bind(([127, 0, 0, 1], 0).into(), EndpointConfig::new()?)?;
    let address = server.local_addr();
    let listener = server.listen(Listen::new(Arc::clone(&key))).map_err(io::Error::other)?;
    thread::spawn(move || {
        while let Ok(stream) = listener.accept() {
            thread::spawn(move || read_all(stream));
        }
    });
    let [(end_flood, flood_end), (end_opening, opening_end)] = [(); 2].map(|()| mpsc::channel());
    let flood = thread::spawn({
        let syns = Arc::clone(syns);
        move || flood(address, rate, &syns, &flood_end)
    });
    let opening = thread::spawn({
        let key = Arc::clone(&key);
        move || open_repeatedly(address, &key, &opening_end)
    });
    let client = Endpoint::bind(([127, 0, 0, 1], 0).into(), EndpointConfig::new()?)?;
    let stream = client.connect(address, connect(&key)?)?;
    let start = clock::now();
    write_all(&stream, bytes)?;
    let elapsed = start.elapsed();
    drop((end_flood, end_opening));
    let (syns_per_s, cookies_per_s) = flood.join().expect("the flood only sends");
    let times = opening.join().expect("failures are counted")?;
    server.close(0, "");
    let opened = times.iter().flatten().count();
    let slowest = times.iter().map(|time| time.unwrap_or(OPEN_TIME)).max().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "printed to two decimals")]
    let gbps = bytes as f64 * 8.0 / elapsed.as_secs_f64() / 1e9;
    Ok(Run { gbps, syns_per_s, cookies_per_s, tried: times.len(), opened, slowest })
}

fn connect(key: &StaticKey) -> io::Result<Connect> {
    Ok(Connect::to(key.public()).identity(generate_key()?))
}

fn read_all(mut stream: Stream) {
    let mut buffer = vec![0; 1 << 18];
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
}

fn write_all(mut stream: &Stream, bytes: u64) -> io::Result<()> {
    let block = vec![7; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let n = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        stream.write_all(&block[..n])?;
        left -= n as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    assert_eq!(stream.delivered().map_err(io::Error::other)?, bytes);
    Ok(())
}

/// Opens connections until the transfer is over. Returns the time of each; `None` after 5 s.
fn open_repeatedly(
    address: SocketAddr,
    key: &StaticKey,
    end: &Receiver<()>,
) -> io::Result<Vec<Option<Duration>>> {
    let endpoint = Endpoint::bind(([127, 0, 0, 1], 0).into(), EndpointConfig::new()?)?;
    let mut times = Vec::new();
    while goes_on(end, OPEN_INTERVAL) {
        let start = clock::now();
        let opened = endpoint.connect_timeout(address, connect(key)?, OPEN_TIME);
        times.push(opened.is_ok().then(|| start.elapsed()));
    }
    Ok(times)
}

/// Waits for `time`. Returns false if the transfer is over.
fn goes_on(end: &Receiver<()>, time: Duration) -> bool {
    end.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
}

/// Sends SYNs until the transfer is over; returns their number and that of the answers per second.
fn flood(address: SocketAddr, rate: u32, syns: &[Vec<u8>], end: &Receiver<()>) -> (f64, f64) {
    let sockets: Vec<_> = (0..SOCKETS)
        .map(|n| {
            let from = Ipv4Addr::from_bits(0x7f02_0001 + n);
            let socket = UdpSocket::bind((from, 0)).expect("all of 127.0.0.0/8 is local");
            socket.connect(address).expect("an address of the loopback interface");
            socket.set_nonblocking(true).expect("a socket can be non-blocking");
            socket
        })
        .collect();
    let (start, mut due, mut sent, mut answered) = (clock::now(), 0, 0_u32, 0_u32);
    let mut both = sockets.iter().cycle().zip(syns.iter().cycle());
    let mut buffer = [0; 128];
    while goes_on(end, Duration::from_millis(1)) {
        let until = start.elapsed().as_micros() * u128::from(rate) / 1_000_000;
        for (socket, syn) in both.by_ref().take(usize::try_from(until - due).expect("some hundred")) {
            sent += u32::from(socket.send(syn).is_ok());
            while socket.recv(&mut buffer).is_ok() {
                answered += 1;
            }
        }
        due = until;
    }
    let seconds = start.elapsed().as_secs_f64();
    (f64::from(sent) / seconds, f64::from(answered) / seconds)
}

/// Returns SYNs without a cookie.
fn syns() -> Vec<Vec<u8>> {
    let mut set = ConnectionSet::new(ConnectionSetConfig::default(), Entropy::from_seed([1; 32]));
    let (now, mut batch): (Instant, _) = (clock::now(), TransmitBuf::new(1));
    let mut syns = Vec::new();
    for peer in 0..SYNS {
        let (keys, config) = (InitiatorConfig::default(), ConnectionConfig::default());
        set.connect(now, peer, keys, config).expect("a valid configuration");
        batch.clear();
        set.poll_transmit(now, &mut batch).expect("a SYN");
        syns.push(batch.bytes().to_vec());
    }
    syns
}

fn argument(name: &str, default: u64) -> u64 {
    let args: Vec<String> = env::args().collect();
    let at = args.iter().position(|arg| arg == name);
    at.and_then(|i| args.get(i + 1)?.parse().ok()).unwrap_or(default)
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut sorted: Vec<_> = runs.iter().map(of).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted[last / 2].midpoint(sorted[last.div_ceil(2)])
}
