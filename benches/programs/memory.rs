//! Memory of long transfers: `cargo bench --bench memory` (`-- --bytes N --rounds N`: 20000000000,
//! 1).
//!
//! Peak resident set size of each process, compared with a bound of 64 MiB plus the window.
//! Classic, and native without a cipher with the same fixed window, and as it is by default; to a
//! file; and from the standard input of the sender to the standard output of the receiver.

mod common;

use std::io::{Read as _, Write as _, copy, sink};
use std::process::{Command, Stdio};
use std::{fs, thread};

use common::{
    Program, RECV, SEND, Surroundings, argument, assert_arrived, cpu_per_gb, median, number, rounds, table,
    transfer,
};
use rdt_sim::payload;
use serde_json::Value;

const WINDOW: u64 = 8192;
const PACKET: u64 = 1472;
/// Directory on a disk.
const DISK: &str = env!("CARGO_TARGET_TMPDIR");

/// Source and destination of the bytes.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// The generated array, which the receiver does not store; with the sender's further arguments.
    Array(&'static str),
    File,
    Pipes,
}

const WAYS: [(&str, Way); 5] = [
    ("classic, the array", Way::Array("8192 0 0 10000")),
    (
        "native, cipher none, fixed window, the array",
        Way::Array("8192 0 0 10000 --wire native --insecure --pacing off"),
    ),
    ("native, nothing told, encrypted, the array", Way::Array("")),
    ("classic, the array to a file", Way::File),
    ("classic, standard input to standard output", Way::Pipes),
];

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(1), argument("--bytes", 20_000_000_000));
    #[expect(clippy::cast_precision_loss, reason = "megabytes are printed without decimals")]
    let bound = ((64 << 20) + WINDOW * PACKET) as f64 / 1e6;
    println!(
        "{bytes} bytes, W {WINDOW}, --no-link --ack-every batch; medians of {rounds} interleaved rounds."
    );
    println!("Bound: 64 MiB and the window, {bound:.0} MB.\n");
    table(&["what", "Gbit/s", "sender's peak MB", "receiver's peak MB", "CPU s/GB", "sent again"]);
    let mut runs = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (runs, (_, way)) in runs.iter_mut().zip(WAYS) {
            runs.push(way.run(bytes));
        }
    }
    let mut held = true;
    for (runs, (what, _)) in runs.iter().zip(WAYS) {
        held &= show(what, runs, bound);
    }
    surroundings.report();
    assert!(held, "more than {bound:.0} MB");
}

struct Run {
    sent: Value,
    /// Peak memory of the receiver, bytes.
    peak: f64,
    cpu_per_gb: f64,
}

/// Prints the medians. Returns true if no run exceeded `bound`, MB.
fn show(what: &str, runs: &[Run], bound: f64) -> bool {
    let of = |value: &dyn Fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    let sent = |key: &str| of(&|run| number(&run.sent, key));
    println!(
        "| {what} | {:.2} | {:.1} | {:.1} | {} | {} |",
        sent("goodput_bps") / 1e9,
        sent("memory_peak_bytes") / 1e6,
        of(&|run| run.peak) / 1e6,
        Some(of(&|run| run.cpu_per_gb))
            .filter(|cpu| cpu.is_finite())
            .map_or("-".into(), |cpu| format!("{cpu:.3}")),
        sent("retransmitted"),
    );
    let within = |peak: f64| peak / 1e6 < bound;
    runs.iter().all(|run| within(number(&run.sent, "memory_peak_bytes")) && within(run.peak))
}

impl Way {
    fn run(self, bytes: u64) -> Run {
        let receiver = "--no-link --ack-every batch";
        let (sent, received) = match self {
            Self::Pipes => return through_pipes(bytes),
            Self::Array(told) => transfer(receiver, &format!("{told} --bytes {bytes}")),
            Self::File => {
                let directory = tempfile::tempdir_in(DISK).expect("there is room for a directory");
                let kept = directory.path().join("kept");
                let receiver = format!("{receiver} --output {}", kept.display());
                let ends = transfer(&receiver, &format!("{WINDOW} 0 0 10000 --bytes {bytes}"));
                assert_eq!(fs::metadata(kept).map(|kept| kept.len()).ok(), Some(bytes));
                ends
            }
        };
        let cpu_per_gb = cpu_per_gb(&sent, &received);
        Run { peak: number(&received, "memory_peak_bytes"), cpu_per_gb, sent }
    }
}

/// Measures a transfer between pipes. Reads the receiver's peak memory from the system before the
/// receiver exits; its processor time is not known.
fn through_pipes(bytes: u64) -> Run {
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
        payload::fill(0, &mut chunk);
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
    let status = fs::read_to_string(format!("/proc/{}/status", receiver.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = peak.and_then(|kib| kib.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN);
    let sent = sender.last_line();
    assert_arrived(&sent);
    let ended = receiver.wait().expect("rdt-recv ends");
    assert!(ended.success(), "{ended}");
    drop(output);
    Run { sent, peak: kib * 1024.0, cpu_per_gb: f64::NAN }
}
