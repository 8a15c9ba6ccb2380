//! Memory of long transfers: `cargo bench -p rdt-cli --bench memory` (`-- --bytes N --rounds N`: 20000000000, 1).
//!
//! The most that each process held (its peak resident set), beside the bound: 64 MiB and the window. The second
//! row has no file either: what another process writes goes in at the standard input and out at the standard
//! output.

mod common;

use std::io::{Read as _, Write as _, copy, sink};
use std::process::{Command, Stdio};
use std::thread;

use common::{
    Program, RECV, SEND, Surroundings, argument, cpu_per_gb, median, number, rounds, table, transfer,
};
use rdt_transport::dword_array;
use serde_json::Value;

const WINDOW: u64 = 8192;
const PACKET: u64 = 1472;

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(1), argument("--bytes", 20_000_000_000));
    #[expect(clippy::cast_precision_loss, reason = "megabytes are printed without decimals")]
    let bound = ((64 << 20) + WINDOW * PACKET) as f64 / 1e6;
    println!("{bytes} bytes, W {WINDOW}, --no-link --ack-every batch; medians of {rounds} rounds.");
    println!("Bound: 64 MiB and the window, {bound:.0} MB.\n");
    table(&["what", "Gbit/s", "sender's peak MB", "receiver's peak MB", "CPU s/GB", "sent again"]);
    let array = format!("{WINDOW} 0 0 10000 --bytes {bytes}");
    show("the array", rounds, bound, || {
        let (sent, received) = transfer("--no-link --ack-every batch", &array);
        (number(&received, "memory_peak_bytes"), cpu_per_gb(&sent, &received), sent)
    });
    show("standard input to standard output", rounds, bound, || through_pipes(bytes));
    surroundings.report();
}

fn show(what: &str, rounds: usize, bound: f64, run: impl Fn() -> (f64, f64, Value)) {
    let runs: Vec<_> = (0..rounds).map(|_| run()).collect();
    let of = |value: &dyn Fn(&(f64, f64, Value)) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    let sent = |key: &str| of(&|run| number(&run.2, key));
    let (sender, receiver) = (sent("memory_peak_bytes") / 1e6, of(&|run| run.0) / 1e6);
    println!(
        "| {what} | {:.2} | {sender:.1} | {receiver:.1} | {} | {} |",
        sent("goodput_bps") / 1e9,
        Some(of(&|run| run.1)).filter(|cpu| cpu.is_finite()).map_or("-".into(), |cpu| format!("{cpu:.3}")),
        sent("retransmitted"),
    );
    assert!(sender < bound && receiver < bound, "more than {bound:.0} MB");
}

/// The receiver's peak is asked of the system while it still lingers; its processor time is not told then.
fn through_pipes(bytes: u64) -> (f64, f64, Value) {
    let address = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = address.expect("a free port").to_string();
    let mut receiver = Command::new(RECV)
        .args(["--no-link", "--ack-every", "batch", "--output", "-", "--bind", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("rdt-recv was built with this bench");
    let mut output = receiver.stdout.take().expect("its output is piped");
    let mut command = Command::new(SEND);
    command.args([&address, &WINDOW.to_string(), "0", "0", "10000", "-", "--json", "--quiet"]);
    command.args(["--attempts", "30/50/50"]).stdin(Stdio::piped());
    let mut sender = Program::start(command);
    let mut input = sender.input();
    let writer = thread::spawn(move || {
        let mut chunk = vec![0; 1 << 20];
        dword_array::fill(0, &mut chunk);
        let whole = bytes / chunk.len() as u64;
        for _ in 0..whole {
            input.write_all(&chunk).expect("rdt-send reads");
        }
        let rest = usize::try_from(bytes - whole * chunk.len() as u64).expect("less than a chunk");
        input.write_all(&chunk[..rest]).expect("rdt-send reads");
    });
    let reader = thread::spawn(move || {
        let got = copy(&mut output.by_ref().take(bytes), &mut sink()).expect("rdt-recv writes");
        (got, output)
    });
    writer.join().expect("writing works");
    let (got, output) = reader.join().expect("reading works");
    assert_eq!(got, bytes);
    let status = std::fs::read_to_string(format!("/proc/{}/status", receiver.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = peak.and_then(|kib| kib.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN);
    let sent = sender.last_line();
    assert_eq!(sent["exit_code"], 0, "{sent}");
    let ended = receiver.wait().expect("rdt-recv ends");
    assert!(ended.success(), "{ended}");
    drop(output);
    (kib * 1024.0, f64::NAN, sent)
}
