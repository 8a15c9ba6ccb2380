//! Every way to move a packet over loopback: sizes, offload each way, one ACK for a packet or for a batch:
//! `cargo bench -p rdt-cli --bench loopback` (`-- --rounds N --bytes N`: 3, 2000000000; a quarter of that without
//! segmentation offload). Then the receive buffers that ordinary users are granted.

mod common;

use common::{Surroundings, argument, cpu_per_gb, median, number, rounds, table, transfer};
use serde_json::Value;

const SIZES: [u64; 3] = [1472, 8972, 65_507];
/// Bytes in flight, whatever the size: the window of the published runs.
const WINDOW: u64 = 8192 * 1472;
/// Values of `net.core.rmem_max`, bytes: the usual one, and 4 MiB.
const BUFFERS: [u64; 2] = [212_992, 4 << 20];

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(3), argument("--bytes", 2_000_000_000));
    println!(
        "--no-link, {WINDOW} bytes of window; medians of {rounds} interleaved rounds of {bytes} bytes, a"
    );
    println!("quarter of that without GSO. CPU: both sides.\n");
    table(&[
        "datagram",
        "GSO",
        "GRO",
        "ACK for a",
        "Gbit/s",
        "CPU s/GB",
        "sent again",
        "peak MB (sender, receiver)",
    ]);
    for size in SIZES {
        let mut ways = Vec::new();
        for gso in ["on", "off"] {
            for gro in ["on", "off"] {
                for ack in ["1", "batch"] {
                    ways.push((gso, gro, ack, Vec::new()));
                }
            }
        }
        for _ in 0..rounds {
            for (gso, gro, ack, runs) in &mut ways {
                let bytes = if *gso == "on" { bytes } else { bytes / 4 };
                let offload = format!("--gso {gso} --gro {gro}");
                runs.push(transfer(
                    &format!("--no-link --ack-every {ack} {offload}"),
                    &format!(
                        "{} 0 0 10000 --bytes {bytes} --packet-size {size} {offload}",
                        WINDOW.div_ceil(size)
                    ),
                ));
            }
        }
        for (gso, gro, ack, runs) in &ways {
            let ack = if *ack == "1" { "packet" } else { ack };
            println!("| {size} | {gso} | {gro} | {ack} | {} |", cells(runs));
        }
    }
    small_buffers(rounds, bytes);
    surroundings.report();
}

/// The window of the published runs into buffers that do not hold it, in both formats.
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
    let senders = ["8192 0 0 10000", "--cc fixed:8192", "--cc bbr"];
    for buffer in BUFFERS {
        for sender in senders {
            let receiver = format!("--no-link --ack-every batch --socket-buffer {buffer}");
            let run = || transfer(&receiver, &format!("{sender} --bytes {bytes}"));
            let runs: Vec<_> = (0..rounds).map(|_| run()).collect();
            let overflow: Vec<_> =
                runs.iter().map(|(_, got)| number(&got["socket"], "receive_overflow_messages")).collect();
            println!("| {buffer} | {sender} | {} | {} |", cells(&runs), median(&overflow));
        }
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
