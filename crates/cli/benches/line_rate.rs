//! The programs at the speed of the machine, beside the limit: `cargo bench -p rdt-cli --bench line_rate`.
//!
//! The limit is what these sockets can carry at all: a blast of the same datagrams with a window of 1 MiB, no
//! reliability, one copy and one CRC-32 of every byte on each side, or neither. It runs between the transfers,
//! so that a change of the machine's mood meets both. `-- --rounds N --bytes N` (5, 4000000000); `--size N` and
//! `--offload 0|1` leave the others out.

mod common;

use std::env;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use common::{Program, Surroundings, argument, cpu_per_gb, median, number, rounds, table};
use rdt_driver::{Connected, UdpIo, UdpOptions, Waiter, clock};
use rdt_transport::drive::DatagramIo;
use rdt_transport::dword_array;
use serde_json::{Value, json};

/// Bytes in flight in the limit, and how often it is acknowledged.
const CREDIT: u64 = 1 << 20;
const ACK_EVERY: u64 = CREDIT / 4;
/// What the limit sends, again and again.
const SOURCE: usize = 256 * 1024;

fn main() {
    let args: Vec<String> = env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "blast-receiver" || arg == "blast-sender") {
        let blast = Blast::parse(&args[at + 1..]);
        let result = if args[at] == "blast-receiver" { blast.receive() } else { blast.send() };
        println!("{result}");
        return;
    }
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(5), argument("--bytes", 4_000_000_000));
    println!(
        "Medians of {rounds} interleaved runs of {bytes} bytes over loopback. CPU: both sides, seconds per GB.\n"
    );
    table(&[
        "datagram",
        "offload",
        "what",
        "Gbit/s",
        "of the limit",
        "CPU s/GB",
        "of the limit's",
        "sent again",
        "peak MB (sender, receiver)",
    ]);
    let (only, with) = (argument("--size", 0), argument("--offload", 2));
    for (size, offload) in [(1472, true), (8972, true), (14_972, true), (65_507, true), (1472, false)] {
        if (only > 0 && only != size as u64) || (with < 2 && (with == 1) != offload) {
            continue;
        }
        compare(size, offload, rounds, if offload { bytes } else { bytes / 4 });
    }
    surroundings.report();
}

/// One row's runs.
#[derive(Default)]
struct Runs {
    name: String,
    gbps: Vec<f64>,
    cpu: Vec<f64>,
    resent: Vec<f64>,
    memory: Option<(f64, f64)>,
}

fn compare(size: usize, offload: bool, rounds: usize, bytes: u64) {
    let switch = if offload { "on" } else { "off" };
    let mut rows: Vec<Runs> = Vec::new();
    let modes = [
        ("--dummy, an ACK for a batch", "--dummy --ack-every batch", ""),
        ("--no-link, an ACK for a batch", "--no-link --ack-every batch", ""),
        ("--no-link, an ACK for a packet", "--no-link", ""),
        ("native, fixed window, --no-link", "--no-link", "--wire native --pacing off"),
    ];
    let names =
        ["limit, bare", "limit, copy and CRC-32"].into_iter().chain(modes.iter().map(|(name, ..)| *name));
    rows.extend(names.map(|name| Runs { name: name.into(), ..Runs::default() }));
    for _ in 0..rounds {
        for (row, work) in rows.iter_mut().zip([false, true]) {
            blast(row, size, offload, work, bytes);
        }
        for (row, (_, receiver, sender)) in rows[2..].iter_mut().zip(modes) {
            transfer(row, size, &format!("--gso {switch} --gro {switch}"), (receiver, sender), bytes);
        }
    }
    let (limit, limit_cpu) = (median(&rows[1].gbps), median(&rows[1].cpu));
    for row in &rows {
        let (gbps, cpu) = (median(&row.gbps), median(&row.cpu));
        let resent = if row.resent.is_empty() { "-".into() } else { format!("{:.0}", median(&row.resent)) };
        let memory = row.memory.map_or_else(|| "-".into(), |(s, r)| format!("{s:.0}, {r:.0}"));
        println!(
            "| {size} | {switch} | {} | {gbps:.2} | {:.2} | {cpu:.3} | {:.2} | {resent} | {memory} |",
            row.name,
            gbps / limit,
            cpu / limit_cpu,
        );
    }
}

/// One transfer between the two programs, with what each is told beside what all are told.
fn transfer(row: &mut Runs, size: usize, offload: &str, (receiver, sender): (&str, &str), bytes: u64) {
    // The window of the published runs, in bytes, for every size.
    let window = (8192 * 1472 / size).max(16);
    let (sent, received) = common::transfer(
        &format!("{receiver} {offload}"),
        &format!("{window} 0 0 10000 --bytes {bytes} --packet-size {size} {offload} {sender}"),
    );
    row.gbps.push(number(&sent, "goodput_bps") / 1e9);
    row.cpu.push(cpu_per_gb(&sent, &received));
    row.resent.push(number(&sent, "retransmitted"));
    row.memory =
        Some((number(&sent, "memory_peak_bytes") / 1e6, number(&received, "memory_peak_bytes") / 1e6));
}

fn blast(row: &mut Runs, size: usize, offload: bool, work: bool, bytes: u64) {
    let myself = env::current_exe().expect("a running program has a path");
    let start = |role: &str, peer: &str| {
        let mut command = Command::new(&myself);
        command.args([role, peer, &size.to_string(), &bytes.to_string()]);
        command.args([u8::from(offload).to_string(), u8::from(work).to_string()]);
        Program::start(command)
    };
    let mut receiver = start("blast-receiver", "127.0.0.1:0");
    let address = receiver.line()["address"].as_str().expect("the first line has the address").to_string();
    let sent = start("blast-sender", &address).last_line();
    let received = receiver.last_line();
    row.gbps.push(number(&received, "gbps"));
    row.cpu.push((number(&sent, "cpu_s") + number(&received, "cpu_s")) / (number(&received, "bytes") / 1e9));
}

/// The limit: datagrams with an 8-byte header out, an 8-byte count of bytes back.
struct Blast {
    peer: SocketAddr,
    size: usize,
    bytes: u64,
    options: UdpOptions,
    work: bool,
}

impl Blast {
    fn parse(args: &[String]) -> Self {
        let number = |i: usize| args[i].parse::<u64>().expect("the bench passes numbers");
        let offload = number(3) == 1;
        Self {
            peer: args[0].parse().expect("the bench passes an address"),
            size: usize::try_from(number(1)).expect("a datagram's size"),
            bytes: number(2),
            options: UdpOptions { gso: offload, gro: offload, ..UdpOptions::default() },
            work: number(4) == 1,
        }
    }

    fn send(&self) -> Value {
        let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), self.options).expect("a free port");
        let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
        let mut io = Connected::new(io, self.peer);
        let mut source = vec![0; SOURCE + self.size];
        dword_array::fill(0, &mut source);
        let (mut sent, mut acked, mut at) = (0_u64, 0_u64, 0_usize);
        loop {
            while let Some(batch) = io.recv() {
                for ack in batch.bytes.chunks_exact(8) {
                    acked = acked.max(u64::from_le_bytes(ack.try_into().expect("eight bytes")));
                }
            }
            if acked >= self.bytes {
                break;
            }
            if sent >= self.bytes || sent - acked + 65_507 > CREDIT {
                waiter.wait(None, false).expect("waiting works");
                continue;
            }
            let Some(batch) = io.transmit_buf() else {
                waiter.wait(None, true).expect("waiting works");
                continue;
            };
            while let Some(slot) = batch.slot(self.size) {
                if self.work {
                    slot[8..].copy_from_slice(&source[at..at + self.size - 8]);
                    let crc = crc32fast::hash(&slot[8..]);
                    slot[..4].copy_from_slice(&crc.to_le_bytes());
                    at = (at + self.size) % SOURCE;
                }
                sent += self.size as u64;
            }
            io.flush(());
        }
        json!({ "cpu_s": cpu() })
    }

    fn receive(&self) -> Value {
        let mut io = UdpIo::bind(self.peer, self.options).expect("a free port");
        let address = io.local_addr().expect("a bound socket has an address");
        let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
        println!("{}", json!({ "address": address.to_string() }));
        let mut kept = vec![0_u8; SOURCE + 65_536];
        let (mut got, mut told, mut at) = (0_u64, 0_u64, 0_usize);
        let mut start = None;
        let mut peer = None;
        while got < self.bytes {
            while let Some(batch) = io.recv() {
                start.get_or_insert_with(clock::now);
                peer = Some(batch.peer);
                got += batch.bytes.len() as u64;
                for datagram in batch.bytes.chunks(batch.stride.max(1)) {
                    if self.work {
                        assert_eq!(crc32fast::hash(&datagram[8..]).to_le_bytes(), datagram[..4]);
                        kept[at..at + datagram.len()].copy_from_slice(datagram);
                        at = (at + datagram.len()) % SOURCE;
                    }
                }
                if got - told >= ACK_EVERY || got >= self.bytes {
                    break;
                }
            }
            if let Some(peer) = peer
                && (got - told >= ACK_EVERY || got >= self.bytes)
                && let Some(batch) = io.transmit_buf()
                && let Some(slot) = batch.slot(8)
            {
                slot.copy_from_slice(&got.to_le_bytes());
                io.flush(peer);
                told = got;
            } else {
                waiter.wait(None, false).expect("waiting works");
            }
        }
        let seconds = start.map_or(f64::NAN, |start| start.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a rate is printed to two decimals")]
        let gbps = got as f64 * 8.0 / seconds / 1e9;
        json!({ "gbps": gbps, "bytes": got, "cpu_s": cpu() })
    }
}

/// Processor time of this process in seconds.
fn cpu() -> f64 {
    rdt_cli::processor_time().map_or(f64::NAN, |time| time.as_secs_f64())
}
