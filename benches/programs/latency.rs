//! RTT of one packet at a time through the programs, compared with that of plain sockets: `cargo
//! bench --bench latency` (`-- --rounds N --packets N`: 5, 20000).
//!
//! The window is one packet and there is no link, so the time is that of the programs and the
//! system. The plain exchange sends 1472 bytes and receives 12, over the same kind of socket and
//! waiter. Both times are from the clock reading before the send to the kernel's receive timestamp.
//! They exclude the wake-up of the sender, which is included in the second table, of the time
//! between packets.

mod common;

use std::env;
use std::iter;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Program, Surroundings, argument, median, number, rounds, table, transfer};
use rdt_transport::drive::DatagramIo;
use rdt_udp::{Connected, UdpIo, UdpOptions, Waiter, clock};
use serde_json::{Value, json};

const PACKET: usize = 1472;
const PAYLOAD: u64 = 1464;
const NATIVE_PAYLOAD: u64 = 1432;
/// Bytes of a classic ACK.
const REPLY_BYTES: usize = 12;
/// Rows of the programs, with the arguments of receiver and sender, and the payload of a packet.
const PROGRAMS: [(&str, &str, &str, u64); 4] = [
    ("classic, an ACK for a packet", "--no-link", "", PAYLOAD),
    ("classic, an ACK for a batch", "--no-link --ack-every batch", "", PAYLOAD),
    ("native, cipher none", "--no-link", "--wire native --insecure", NATIVE_PAYLOAD),
    ("native, AES-128-GCM", "--no-link", "--wire native", NATIVE_PAYLOAD),
];

fn main() {
    let args: Vec<String> = env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "pong" || arg == "ping") {
        let address: SocketAddr = args[at + 1].parse().expect("the bench passes an address");
        let packets = args[at + 2].parse().expect("the bench passes a number");
        if args[at] == "pong" {
            pong(address, packets);
        } else {
            ping(address, packets);
        }
        return;
    }
    let surroundings = Surroundings::now();
    let (rounds, packets) = (rounds(5), argument("--packets", 20_000));
    let mut rows = PROGRAMS.map(|(name, ..)| (name, Vec::new()));
    let mut bare = Vec::new();
    for _ in 0..rounds {
        bare.push(ping_pong(packets));
        for ((_, runs), (_, receiver, sender, payload)) in rows.iter_mut().zip(PROGRAMS) {
            runs.push(programs(receiver, sender, packets * payload));
        }
    }
    println!("W 1, RTT 0, no link, {packets} packets of {PACKET} bytes; medians of {rounds} rounds, us.\n");
    let rows: Vec<_> =
        iter::once(("bare", &bare)).chain(rows.iter().map(|(name, runs)| (*name, runs))).collect();
    show("round trip", &["min", "p50", "p99"], &rows);
    show("packet to packet", &["mean"], &rows);
    surroundings.report();
}

fn show(what: &str, keys: &[&str], rows: &[(&str, &Vec<Value>)]) {
    let ratios: Vec<_> = keys.iter().map(|key| format!("{key} of bare")).collect();
    let ratios: Vec<_> = ratios.iter().map(String::as_str).collect();
    table(&[&[what], keys, &ratios].concat());
    let of = |runs: &[Value], key: &str| median(&runs.iter().map(|run| number(run, key)).collect::<Vec<_>>());
    for (name, runs) in rows {
        let times: Vec<_> = keys.iter().map(|key| format!("{:.2}", of(runs, key))).collect();
        let ratios = keys.iter().map(|key| format!("{:.2}", of(runs, key) / of(rows[0].1, key)));
        println!("| {name} | {} | {} |", times.join(" | "), ratios.collect::<Vec<_>>().join(" | "));
    }
    println!();
}

fn programs(receiver: &str, sender: &str, bytes: u64) -> Value {
    let (sent, _) = transfer(receiver, &format!("1 0 0 10000 --bytes {bytes} {sender}"));
    let us = |key: &str| number(&sent, key) / 1e3;
    json!({
        "min": us("rtt_min_ns"),
        "p50": us("rtt_p50_ns"),
        "p99": us("rtt_p99_ns"),
        "mean": us("elapsed_ns") / number(&sent, "packets"),
    })
}

fn ping_pong(packets: u64) -> Value {
    let myself = env::current_exe().expect("a running program has a path");
    let start = |role: &str, address: &str| {
        let mut command = Command::new(&myself);
        command.args([role, address, &packets.to_string()]);
        Program::start(command)
    };
    let mut pong = start("pong", "127.0.0.1:0");
    let address = pong.line()["address"].as_str().expect("the first line has the address").to_string();
    start("ping", &address).last_line()
}

fn ping(address: SocketAddr, packets: usize) {
    let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), UdpOptions::default()).expect("a free port");
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
    let mut io = Connected::new(io, address);
    let mut times: Vec<Duration> = Vec::with_capacity(packets);
    let start = clock::now();
    while times.len() < packets {
        let sent_at = clock::now();
        let batch = io.transmit_buf().expect("an empty socket takes a datagram");
        batch.slot(PACKET).expect("an empty batch has room").fill(1);
        io.flush(());
        times.push(answered_at(&mut io, &mut waiter).saturating_duration_since(sent_at));
    }
    let mean = start.elapsed() / u32::try_from(packets).expect("a few packets");
    times.sort();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{}",
        json!({
            "min": us(times[0]),
            "p50": us(times[packets / 2]),
            "p99": us(times[packets * 99 / 100]),
            "mean": us(mean),
        })
    );
}

fn answered_at(io: &mut Connected, waiter: &mut Waiter) -> Instant {
    loop {
        if let Some(batch) = io.recv() {
            return batch.at;
        }
        waiter.wait(None, false).expect("waiting works");
    }
}

fn pong(address: SocketAddr, packets: usize) {
    let mut io = UdpIo::bind(address, UdpOptions::default()).expect("a free port");
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
    let address = io.local_addr().expect("a bound socket has an address");
    println!("{}", json!({ "address": address.to_string() }));
    let mut answered = 0;
    while answered < packets {
        let Some(peer) = io.recv().map(|batch| batch.peer) else {
            waiter.wait(None, false).expect("waiting works");
            continue;
        };
        let batch = io.transmit_buf().expect("an empty socket takes a datagram");
        batch.slot(REPLY_BYTES).expect("an empty batch has room").fill(2);
        io.flush(peer);
        answered += 1;
    }
}
