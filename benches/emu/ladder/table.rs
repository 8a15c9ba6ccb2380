//! Table of all rungs in ascending order of the rate.

use std::env;
use std::process::ExitCode;

use crate::rungs::{self, Measurement, percentile};

/// Link rates, Mbit/s.
const RUNGS: [f64; 8] = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0];
/// Highest rate in a namespace, Mbit/s.
const NAMESPACE: f64 = 1000.0;
/// Tolerances of `--check`: relative deviation of the rate, and excess of the median RTT in
/// microseconds.
const OFF: f64 = 0.01;
const EXCESS: f64 = 100.0;

pub(crate) fn main() -> ExitCode {
    if let Some((role, bps)) = rungs::role() {
        rungs::inside(&role, bps);
        return ExitCode::SUCCESS;
    }
    let args: Vec<String> = env::args().collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let wait = after("--wait").map_or("spin", String::as_str);
    let is_asked = |name: &str| args.iter().any(|arg| arg == name);
    let both = !is_asked("proxy") && !is_asked("namespace");
    let own = env::current_exe().expect("this program has a path");
    let itself = format!("'{}'", own.to_str().expect("which is text"));
    println!("| | asked Mbit/s | measured | off | late p50 us | p99 | RTT over 100 ms p50 us | p99 |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut is_true = true;
    for mbps in RUNGS.into_iter().filter(|_| both || is_asked("proxy")) {
        is_true &= row("proxy", mbps, &rungs::proxied(mbps, wait));
    }
    let rungs = RUNGS.into_iter().filter(|mbps| *mbps <= NAMESPACE);
    for mbps in rungs.filter(|_| both || is_asked("namespace")) {
        is_true &= row("namespace", mbps, &rungs::in_namespace(mbps, wait, &itself));
    }
    if is_true || !is_asked("--check") {
        return ExitCode::SUCCESS;
    }
    eprintln!("some rung is off by more than {} % or {EXCESS} us", OFF * 100.0);
    ExitCode::FAILURE
}

/// Prints a row; returns true if it is within the tolerances of `--check`.
fn row(name: &str, mbps: f64, seen: &Measurement) -> bool {
    let measured = seen.rate();
    let off = measured / mbps - 1.0;
    let late = ["p50", "p99"].map(|key| seen.forward["lateness_ns"][key].as_f64().unwrap_or(f64::NAN) / 1e3);
    let excess = seen.excess(mbps);
    let at = |share| percentile(&excess, share);
    println!(
        "| {name} | {mbps:.0} | {measured:.3} | {:+.2} % | {:.1} | {:.1} | {:.0} | {:.0} |",
        off * 100.0,
        late[0],
        late[1],
        at(50),
        at(99)
    );
    off.abs() < OFF && at(50).abs() < EXCESS
}
