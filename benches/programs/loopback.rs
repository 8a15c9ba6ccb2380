//! All combinations over loopback: formats, datagram sizes, offload of each side, one ACK per
//! packet or per batch: `cargo bench --bench loopback` (`-- --rounds N --bytes N`: 5, 4000000000,
//! for every row; `--size N` and `--gso 0|1` select rows). Takes an hour; with `--bytes 1000000000
//! --rounds 3` ten minutes. Then the default receive buffers of unprivileged users (`--buffers 1`:
//! only these).

mod common;

use common::{Surroundings, argument, cpu_per_gb, median, number, rounds, table, transfer};
use serde_json::Value;

const SIZES: [u64; 5] = [1472, 7472, 8972, 14_972, 65_507];
/// Window in bytes for every datagram size: that of the published runs.
const WINDOW: u64 = 8192 * 1472;
/// Values of `net.core.rmem_max`, bytes: the default, and 4 MiB.
const BUFFERS: [u64; 2] = [212_992, 4 << 20];
/// Formats and ACK policies, with the arguments of receiver and sender. Native has only one ACK
/// policy.
const FORMATS: [(&str, &str, &str, &str); 3] = [
    ("classic", "packet", "--ack-every 1", ""),
    ("classic", "batch", "--ack-every batch", ""),
    ("native, cipher none", "second packet", "", "--wire native --insecure --pacing off"),
];

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(5), argument("--bytes", 4_000_000_000));
    if argument("--buffers", 0) == 0 {
        every_way(rounds, bytes);
    }
    small_buffers(rounds, bytes);
    surroundings.report();
}

fn every_way(rounds: usize, bytes: u64) {
    println!("--no-link, {WINDOW} bytes of window; medians of {rounds} interleaved rounds of {bytes} bytes.");
    println!("CPU: both sides.\n");
    table(&[
        "datagram",
        "GSO",
        "GRO",
        "format",
        "ACK for a",
        "Gbit/s",
        "CPU s/GB",
        "sent again",
        "peak MB (sender, receiver)",
    ]);
    let (only, with) = (argument("--size", 0), argument("--gso", 2));
    for size in SIZES.into_iter().filter(|size| only == 0 || only == *size) {
        let mut ways: Vec<_> = ["on", "off"]
            .into_iter()
            .filter(|gso| with > 1 || (with == 1) == (*gso == "on"))
            .flat_map(|gso| ["on", "off"].map(|gro| (gso, gro)))
            .flat_map(|offload| FORMATS.map(|format| (offload, format, Vec::new())))
            .collect();
        for _ in 0..rounds {
            for ((gso, gro), (_, _, receiver, sender), runs) in &mut ways {
                let (offload, window) = (format!("--gso {gso} --gro {gro}"), WINDOW.div_ceil(size));
                runs.push(transfer(
                    &format!("--no-link {receiver} {offload}"),
                    &format!("{window} 0 0 10000 --bytes {bytes} --packet-size {size} {offload} {sender}"),
                ));
            }
        }
        for ((gso, gro), (format, ack, ..), runs) in &ways {
            println!("| {size} | {gso} | {gro} | {format} | {ack} | {} |", cells(runs));
        }
    }
}

/// Measures the window of the published runs with smaller receive buffers, in both formats.
fn small_buffers(rounds: usize, bytes: u64) {
    println!(
        "\n1472 bytes a datagram, offload on, one ACK for a batch; as an ordinary user with this rmem_max.\n"
    );
    table(&[
        "rmem_max",
        "sender",
        "Gbit/s",
        "CPU s/GB",
        "sent again",
        "peak MB (sender, receiver)",
        "overflow",
    ]);
    let senders = ["8192 0 0 10000", "--insecure --cc fixed:8192", "--insecure --cc bbr"];
    let mut ways: Vec<_> =
        BUFFERS.into_iter().flat_map(|buffer| senders.map(|sender| (buffer, sender, Vec::new()))).collect();
    for _ in 0..rounds {
        for (buffer, sender, runs) in &mut ways {
            let receiver = format!("--no-link --ack-every batch --socket-buffer {buffer}");
            runs.push(transfer(&receiver, &format!("{sender} --bytes {bytes}")));
        }
    }
    for (buffer, sender, runs) in &ways {
        let overflow: Vec<_> =
            runs.iter().map(|(_, got)| number(&got["socket"], "receive_overflow_messages")).collect();
        println!("| {buffer} | {sender} | {} | {} |", cells(runs), median(&overflow));
    }
}

fn cells(runs: &[(Value, Value)]) -> String {
    let of = |value: &dyn Fn(&(Value, Value)) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    format!(
        "{:.2} | {:.3} | {} | {:.0}, {:.0}",
        of(&|(sent, _)| number(sent, "goodput_bps") / 1e9),
        of(&|(sent, received)| cpu_per_gb(sent, received)),
        of(&|(sent, _)| number(sent, "retransmitted")),
        of(&|(sent, _)| number(sent, "memory_peak_bytes") / 1e6),
        of(&|(_, received)| number(received, "memory_peak_bytes") / 1e6),
    )
}
