//! Tables, each row by a run of `rdt-emu`.

use std::env;
use std::process::{Command, Stdio};

use crate::flow::{self, Flow, VARIABLE, Wish};
use crate::native::{self, PROGRAM};

/// Path of the throughput table.
const LINK: [&str; 3] = ["--rtt=20ms", "--rate=100mbit", "--queue=1bdp"];
const LINK_BPS: f64 = 100e6;
/// Path of the published series of windows.
const SWEEP: [&str; 2] = ["--rtt=10ms", "--rate=34mbit"];
/// RTT of [`SWEEP`], seconds, and its rate, bit/s.
const SWEEP_RTT: f64 = 0.010;
const SWEEP_BPS: f64 = 34e6;
/// Windows of the published series, bytes.
const WINDOWS: [usize; 7] = [5_000, 10_000, 16_357, 25_000, 40_000, 50_000, 60_000];

pub(crate) fn main() {
    let args: Vec<String> = env::args().collect();
    let is_asked = |name: &str| args.iter().any(|arg| arg == name);
    if is_asked("--count") {
        return flow::count();
    }
    if is_asked("--send") {
        return flow::send();
    }
    if is_asked("--beside") {
        return native::send_beside();
    }
    if is_asked("--in-turn") {
        return native::send_in_turn();
    }
    let tables: [(&str, fn()); 5] = [
        ("link", link),
        ("shares", shares),
        ("windows", windows),
        ("beside", native::beside_table),
        ("rules", native::rules_table),
    ];
    let all = !tables.iter().any(|(name, _)| is_asked(name));
    for (_, table) in tables.iter().filter(|(name, _)| all || is_asked(name)) {
        table();
    }
}

fn run(path: &[&str], wish: &Wish) -> Vec<Flow> {
    let own = env::current_exe().expect("this program has a path");
    let own = own.to_str().expect("which is text");
    let output = Command::new(PROGRAM)
        .args(["run", "--quiet"])
        .args(path)
        .arg(format!("--server=exec '{own}' --count"))
        .args(["--", own, "--send"])
        .env(VARIABLE, wish.to_string())
        // So that no calibration of this host is found.
        .env("XDG_STATE_HOME", "/there/is/none")
        .stderr(Stdio::inherit())
        .output()
        .expect("it runs");
    let flows = Flow::all(&String::from_utf8(output.stdout).expect("text"));
    assert_eq!(flows.len(), wish.flows, "each flow is told");
    flows
}

fn link() {
    println!("| | Mbit/s | of the link |\n|---|---|---|");
    for (name, congestion, sack, omit) in [
        ("CUBIC", "cubic", 1, 0),
        ("Reno", "reno", 1, 0),
        ("BBR", "bbr", 1, 0),
        ("CUBIC without SACK, after 10 s", "cubic", 0, 10_000),
        ("Reno without SACK, after 10 s", "reno", 0, 10_000),
    ] {
        let flow = run(&LINK, &Wish { sack, omit, ..Wish::new(congestion, 10_000 + omit) })[0];
        assert_eq!(flow.sack, sack, "as it was asked for");
        println!("| {name} | {:.1} | {:.3} |", flow.bps / 1e6, flow.bps / LINK_BPS);
    }
    println!();
}

fn shares() {
    println!("| two flows for 20 s | Mbit/s | of the link | off half |\n|---|---|---|---|");
    for (name, congestion, more) in [
        ("Reno", "reno", ""),
        ("CUBIC, `--discipline codel`", "cubic", "--discipline=codel"),
        ("CUBIC", "cubic", "--discipline=drop-tail"),
    ] {
        let path: Vec<_> = LINK.into_iter().chain((!more.is_empty()).then_some(more)).collect();
        let flows = run(&path, &Wish { flows: 2, ..Wish::new(congestion, 20_000) });
        let [first, second] = [flows[0].bps, flows[1].bps];
        let (sum, off) = (first + second, (first - second).abs() / (first + second));
        println!(
            "| {name} | {:.1} and {:.1} | {:.3} | {:.1} % |",
            first / 1e6,
            second / 1e6,
            sum / LINK_BPS,
            off * 100.0
        );
    }
    println!();
}

/// Prints the rates for a series of windows, with the shares of the busy time limited by the
/// receive window and by the send buffer.
fn windows() {
    println!("| window, bytes | Mbit/s | window / RTT | waits for the window | for the send buffer |");
    println!("|---|---|---|---|---|");
    for window in WINDOWS {
        let flow = run(&SWEEP, &Wish { window, ..Wish::new("cubic", 3_000) })[0];
        #[expect(clippy::cast_precision_loss, reason = "a few seconds, a few bytes")]
        let (allowed, share) = (window as f64 * 8.0 / SWEEP_RTT, |micros: u64| {
            micros as f64 * 100.0 / flow.busy_us.max(1) as f64
        });
        println!(
            "| {window} | {:.1} | {:.1} | {:.0} % | {:.0} % |",
            flow.bps / 1e6,
            allowed.min(SWEEP_BPS) / 1e6,
            share(flow.window_us),
            share(flow.buffer_us),
        );
    }
    println!();
}
