//! Encrypted transfer of the programs beside a flood of SYNs: `cargo bench --bench flood` (`--
//! --rounds N --bytes N`: 5, 4000000000).
//!
//! One sender, no link, over loopback. This process sends SYNs without a cookie from 64 addresses
//! in 127.0.0.0/8, each SYN with a connection ID of its own. Target: beside 100,000 SYNs a second
//! the transfer keeps half of its rate. Linux only: elsewhere 127.0.0.0/8 is not all local.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use common::{
    Program, Surroundings, argument, assert_arrived, cpu_per_gb, median, number, rounds, table, verdict,
};
use rdt_crypto::Entropy;
use rdt_transport::{
    ConnectionConfig, ConnectionSet, ConnectionSetConfig, Endpoint as _, InitiatorConfig, TransmitBuf,
};
use rdt_udp::clock;
use serde_json::Value;

/// Rates of the floods, SYNs per second.
const RATES: [u32; 3] = [0, 20_000, 100_000];
/// Smallest part of the rate without a flood that a transfer keeps.
const TARGET: f64 = 0.5;
const SOCKETS: u32 = 64;
/// SYNs with different connection IDs.
const SYNS: u64 = 4096;

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(5), argument("--bytes", 4_000_000_000));
    println!("--no-link; medians of {rounds} interleaved rounds of {bytes} bytes. CPU: both programs.\n");
    table(&["SYN/s", "sent", "answered with a cookie", "Gbit/s", "of the rate without", "CPU s/GB"]);
    let syns = Arc::new(syns());
    let mut rows = RATES.map(|rate| (rate, Vec::new()));
    for _ in 0..rounds {
        for (rate, runs) in &mut rows {
            runs.push(run(*rate, bytes, &syns));
        }
    }
    let middle = |runs: &[Run], of: fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
    let alone = middle(&rows[0].1, Run::gbps);
    for (rate, runs) in &rows {
        let (gbps, sent) = (middle(runs, Run::gbps), middle(runs, |run| run.syns_per_s));
        let (retries, cpu) =
            (middle(runs, Run::retries), middle(runs, |run| cpu_per_gb(&run.sent, &run.received)));
        println!("| {rate} | {sent:.0} | {retries:.0} | {gbps:.2} | {:.2} | {cpu:.3} |", gbps / alone);
        if *rate == RATES[2] {
            println!("\n100,000 SYN/s: {}", verdict(&[("half of the rate", gbps >= TARGET * alone)]));
        }
    }
    surroundings.report();
}

struct Run {
    sent: Value,
    received: Value,
    /// SYNs that the kernel took per second of the transfer.
    syns_per_s: f64,
}

impl Run {
    fn gbps(&self) -> f64 {
        number(&self.sent, "goodput_bps") / 1e9
    }

    fn retries(&self) -> f64 {
        number(&self.received["dropped"], "unproven")
    }
}

/// Runs a transfer of `bytes` bytes beside `rate` SYNs per second.
fn run(rate: u32, bytes: u64, syns: &Arc<Vec<Vec<u8>>>) -> Run {
    let (mut recv, address) = Program::receiver("--no-link --once");
    let (end, ended) = mpsc::channel();
    let flood = thread::spawn({
        let (address, syns) = (address.clone(), Arc::clone(syns));
        move || flood(&address, rate, &syns, &ended)
    });
    let sent = Program::sender(&format!("{address} --bytes {bytes} --quiet")).last_line();
    drop(end);
    let syns_per_s = flood.join().expect("the flood only sends");
    assert_arrived(&sent);
    Run { sent, received: recv.last_line(), syns_per_s }
}

/// Sends SYNs until `ended` is closed; returns their number per second.
fn flood(address: &str, rate: u32, syns: &[Vec<u8>], ended: &Receiver<()>) -> f64 {
    let sockets: Vec<_> = (0..SOCKETS)
        .map(|n| {
            let from = Ipv4Addr::from_bits(0x7f02_0001 + n);
            let socket = UdpSocket::bind((from, 0)).expect("all of 127.0.0.0/8 is local");
            socket.connect(address).expect("the address of rdt-recv");
            socket.set_nonblocking(true).expect("a socket can be non-blocking");
            socket
        })
        .collect();
    let (start, mut due, mut taken) = (clock::now(), 0, 0);
    let mut both = sockets.iter().cycle().zip(syns.iter().cycle());
    while ended.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
        let until = start.elapsed().as_micros() * u128::from(rate) / 1_000_000;
        for (socket, syn) in both.by_ref().take(usize::try_from(until - due).expect("some hundred")) {
            taken += u32::from(socket.send(syn).is_ok());
        }
        due = until;
    }
    f64::from(taken) / start.elapsed().as_secs_f64()
}

/// Returns SYNs without a cookie. Each needs a key, and all of them take a second or two.
fn syns() -> Vec<Vec<u8>> {
    let mut set = ConnectionSet::new(ConnectionSetConfig::default(), Entropy::from_seed([1; 32]));
    let mut batch = TransmitBuf::new(1);
    let connect = |peer| {
        let (keys, config) = (InitiatorConfig::default(), ConnectionConfig::default());
        set.connect(clock::now(), peer, keys, config).expect("a valid configuration");
        batch.clear();
        set.poll_transmit(clock::now(), &mut batch).expect("a SYN");
        batch.bytes().to_vec()
    };
    (0..SYNS).map(connect).collect()
}
