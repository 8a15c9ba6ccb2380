//! The emulated link in real time at high rates: `cargo bench --bench link_rate` (`-- --rounds N`:
//! 5).
//!
//! RTT 20 ms, 1472-byte packets, a window of 1.3 bandwidth-delay products, so that the link is
//! always busy once the window is open. The link counts UDP payload with rdt's header, so goodput
//! is 1464 / 1472 of its rate. Each result is the median of the status lines after the window has
//! opened; rates alternate. The highest rate that this host sustains is the last one before the
//! first that is missed by more than 1 %. Higher rates are measured too, because for them the
//! program must report that the host was too slow.

mod common;

use common::{Program, Surroundings, assert_arrived, median, number, rounds, table};
use serde_json::Value;

/// Link rates, up to the largest that the classic format can request.
const RATES_GBPS: [f64; 5] = [1.0, 2.0, 5.0, 8.0, 10.0];
const RTT_S: f64 = 0.02;
const PACKET_BITS: f64 = 1472.0 * 8.0;
/// Duration of a measurement, without the time in which the window opens, seconds.
const SECONDS: f64 = 2.5;
const TOLERANCE: f64 = 0.01;

fn main() {
    let surroundings = Surroundings::now();
    let rounds = rounds(5);
    println!("RTT 20 ms, W of 1.3 bandwidth-delay products, {SECONDS} s each, medians of {rounds} rounds.\n");
    for (name, run) in [("in process", in_process as fn(f64) -> Run), ("in two processes", in_two)] {
        table(&[
            name,
            "W",
            "measured Gbit/s",
            "asked",
            "off",
            "link busy",
            "late p50 us",
            "late p99 us",
            "sent again",
            "host told as the limit",
        ]);
        let mut runs = RATES_GBPS.map(|_| Vec::new());
        for _ in 0..rounds {
            for (runs, rate) in runs.iter_mut().zip(RATES_GBPS) {
                runs.push(run(rate));
            }
        }
        let mut highest = None;
        let mut missed = false;
        for (runs, rate) in runs.iter().zip(RATES_GBPS) {
            let off = row(rate, runs);
            missed |= off.abs() > TOLERANCE;
            if !missed {
                highest = Some(rate);
            }
        }
        println!("\nThe highest that this host holds {name}: {} Gbit/s.\n", highest.unwrap_or(0.0));
    }
    surroundings.report();
}

struct Run {
    gbps: f64,
    busy: f64,
    lateness_us: [f64; 2],
    retransmitted: f64,
    host_limited: bool,
}

fn row(rate: f64, runs: &[Run]) -> f64 {
    let of = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    let (measured, asked) = (of(|run| run.gbps), rate * 1464.0 / 1472.0);
    let off = measured / asked - 1.0;
    let told = runs.iter().filter(|run| run.host_limited).count();
    println!(
        "| {rate} | {} | {measured:.3} | {asked:.3} | {:+.2} % | {:.1} % | {:.0} | {:.0} | {} | {told} of {} |",
        window(rate),
        off * 100.0,
        of(|run| run.busy) * 100.0,
        of(|run| run.lateness_us[0]),
        of(|run| run.lateness_us[1]),
        of(|run| run.retransmitted),
        runs.len(),
    );
    off
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of packets")]
fn window(rate: f64) -> u32 {
    (1.3 * rate * 1e9 * RTT_S / PACKET_BITS).ceil() as u32
}

fn arguments(rate: f64) -> String {
    let bytes = rate * 1e9 / 8.0 * SECONDS;
    format!("{} {RTT_S} 0 {} --bytes {bytes:.0} --interval 200ms", window(rate), rate * 1e3)
}

fn in_process(rate: f64) -> Run {
    let lines = Program::sender(&format!("local {}", arguments(rate))).lines();
    let receiver = lines.last().map(|summary| summary["receiver"].clone()).unwrap_or_default();
    let told = lines.last().is_some_and(|summary| summary["host_limited"] == true);
    run(rate, &lines, &receiver, told)
}

fn in_two(rate: f64) -> Run {
    let (mut receiver, address) = Program::receiver("--once");
    let lines = Program::sender(&format!("{address} {}", arguments(rate))).lines();
    let summary = receiver.last_line();
    run(rate, &lines, &summary, summary["fell_behind"] == true)
}

fn run(rate: f64, lines: &[Value], receiver: &Value, host_limited: bool) -> Run {
    let summary = lines.last().expect("the sender told something");
    assert_arrived(summary);
    // The first line with an open window is skipped, because its interval began before the window
    // was open.
    let open = |line: &&Value| line["event"] == "interval" && line["window_packets"] == window(rate);
    let rates: Vec<f64> = lines.iter().filter(open).skip(1).map(|line| number(line, "rate_bps")).collect();
    assert!(!rates.is_empty(), "the window opened too late: {summary}");
    Run {
        gbps: median(&rates) / 1e9,
        busy: number(&receiver["forward"], "busy_ns") / number(summary, "elapsed_ns"),
        lateness_us: ["lateness_p50_ns", "lateness_p99_ns"].map(|key| number(receiver, key) / 1e3),
        retransmitted: number(summary, "retransmitted"),
        host_limited: host_limited || receiver["fell_behind"] == true,
    }
}
