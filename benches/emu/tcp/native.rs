//! Native transfers (`rdt-send`, `rdt-recv`) without a cipher on the same paths as kernel TCP:
//! concurrently with a TCP flow, and alone with the same recovery algorithm.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rdt_udp::clock;
use serde_json::Value;

use crate::flow::{self, Flow, VARIABLE, Wish};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-emu");

/// Environment variable with the options of `rdt-send`.
const OPTIONS: &str = "RDT_NATIVE";
/// Payload of a native packet of the default size, bytes.
const PAYLOAD: f64 = 1432.0;
/// Start and end of a measurement, milliseconds since the start of the flows.
const OMIT: u64 = 10_000;
const END: u64 = 70_000;

/// Returns the path of another program of this project, which must be built beside `rdt-emu`.
fn program(name: &str) -> PathBuf {
    let path = PathBuf::from(PROGRAM).with_file_name(name);
    assert!(path.exists(), "{} is missing: cargo build --release --workspace", path.display());
    path
}

/// Runs kernel TCP and a native transfer concurrently over `path`; returns both rates, bit/s.
fn beside(path: &[&str], wish: &Wish, options: &str) -> (f64, f64) {
    let output = run(path, wish, options, "--beside");
    (Flow::all(&output)[0].bps, native_bps(&output))
}

/// Runs kernel TCP and then a native transfer over `path`; returns both rates, bit/s.
fn alone(path: &[&str], wish: &Wish, options: &str) -> (f64, f64) {
    let output = run(path, wish, options, "--in-turn");
    (Flow::all(&output)[0].bps, native_bps(&output))
}

fn run(path: &[&str], wish: &Wish, options: &str, how: &str) -> String {
    let own = env::current_exe().expect("this program has a path");
    let own = own.to_str().expect("a path of text");
    let receiver = program("rdt-recv");
    let output = Command::new(PROGRAM)
        .args(["run", "--quiet", "--wait=sleep"])
        .args(path)
        .arg(format!("--server='{own}' --count & exec '{}' --no-link --insecure --quiet", receiver.display()))
        .args(["--", own, how])
        .env(VARIABLE, wish.to_string())
        .env(OPTIONS, options)
        // Without a calibration of this host, all rates are allowed.
        .env("XDG_STATE_HOME", "/there/is/none")
        .stderr(Stdio::inherit())
        .output()
        .expect("rdt-emu starts");
    String::from_utf8(output.stdout).expect("text")
}

fn native_bps(output: &str) -> f64 {
    let line = output.lines().find_map(|line| line.strip_prefix("native "));
    line.and_then(|bps| bps.parse().ok()).expect("the native rate was printed")
}

/// Inside a run: sends both flows concurrently.
pub(crate) fn send_beside() {
    let wish = Wish::asked();
    std::thread::scope(|scope| {
        scope.spawn(|| send_native(&wish));
        flow::send();
    });
}

/// Inside a run: sends one flow after the other.
pub(crate) fn send_in_turn() {
    flow::send();
    send_native(&Wish::asked());
}

/// Runs `rdt-send`, and prints its rate between the times in `wish`.
fn send_native(wish: &Wish) {
    let options = env::var(OPTIONS).expect("options of rdt-send");
    let peer = env::var("RDT_PEER").expect("an address, as in a run");
    let mut sender = Command::new(program("rdt-send"))
        .arg(peer)
        .args(["--insecure", "--bytes", "1000gb", "--interval", "500ms", "--json"])
        .args(options.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("rdt-send starts");
    let lines = BufReader::new(sender.stdout.take().expect("a pipe")).lines();
    let (begin, mut first, mut last) = (clock::now(), None, (Duration::ZERO, 0.0));
    for line in lines.map_while(Result::ok) {
        let event: Value = serde_json::from_str(&line).expect("JSON");
        let elapsed = clock::now() - begin;
        if let Some(packets) = event["base_packets"].as_f64() {
            last = (elapsed, packets);
            if elapsed >= Duration::from_millis(wish.omit) {
                first.get_or_insert(last);
            }
        }
        if elapsed >= Duration::from_millis(wish.millis) {
            break;
        }
    }
    sender.kill().expect("a process that runs");
    sender.wait().expect("a process that ends");
    let first = first.expect("a status line after the start");
    let seconds = last.0.saturating_sub(first.0).as_secs_f64();
    println!("\nnative {}", (last.1 - first.1) * PAYLOAD * 8.0 / seconds);
}

/// Prints the share of a native flow that runs concurrently with a flow of kernel TCP.
pub(crate) fn beside_table() {
    println!(
        "| beside kernel TCP, 20 Mbit/s, 10 to 70 s | native, Mbit/s | kernel, Mbit/s | share of native |"
    );
    println!("|---|---|---|---|");
    for (native, kernel) in [("cubic", "cubic"), ("bbr", "bbr"), ("bbr", "cubic")] {
        for rtt in ["20ms", "100ms"] {
            for queue in ["1bdp", "4bdp"] {
                let path = ["--rate=20mbit", &format!("--rtt={rtt}"), &format!("--queue={queue}")];
                let wish = Wish { omit: OMIT, ..Wish::new(kernel, END) };
                let (kernel_bps, bps) = beside(&path, &wish, &format!("--cc {native}"));
                println!(
                    "| {native} beside {kernel}, {rtt}, {queue} | {:.2} | {:.2} | {:.2} |",
                    bps / 1e6,
                    kernel_bps / 1e6,
                    bps / (bps + kernel_bps)
                );
            }
        }
    }
    println!();
}

/// Prints the rates of Reno with the same recovery algorithms in rdt and in the kernel, one flow
/// after the other.
pub(crate) fn rules_table() {
    println!("| Reno, 8 Mbit/s, 10 ms, 50 packets, 40 s | native, Mbit/s | kernel, Mbit/s | ratio |");
    println!("|---|---|---|---|");
    for (rule, sack, recovery) in [("rack", 1, 1), ("sack", 1, 0), ("newreno", 0, 0)] {
        for loss in ["0.1%", "1%", "2.5%", "5%"] {
            let loss_option = format!("--loss={loss}/0");
            let path = ["--rate=8mbit", "--rtt=10ms", "--queue=50p", &loss_option];
            let wish = Wish { sack, recovery, ..Wish::new("reno", 40_000) };
            let options = format!("--cc reno --pacing off --recovery {rule}");
            let (kernel_bps, bps) = alone(&path, &wish, &options);
            println!(
                "| {rule}, {loss} | {:.2} | {:.2} | {:.2} |",
                bps / 1e6,
                kernel_bps / 1e6,
                bps / kernel_bps
            );
        }
    }
    println!();
}
