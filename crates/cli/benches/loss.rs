//! Random loss at full speed: `cargo bench -p rdt-cli --bench loss` (`-- --rounds N --bytes N`: 5, 4000000000).
//!
//! 0.1 % forward, RTT 0, W 8192 packets of 1472 bytes, link 10 Gbit/s, `rdt-send local`; each round has a seed of
//! its own. Beside it stand the same transfers in virtual time, where hosts take no time and the same packets are
//! lost, and a formula for what base-only recovery can do at all.
//!
//! The end is not measured: in the last window nothing new follows a hole, so each of its eight or so holes waits for
//! the timer.
//!
//! The formula. Let p be the loss probability and s a packet's time on the link.
//! - One loss is mended without stopping the link: the third packet behind the hole repeats the ACK for the third
//!   time, the base goes out again, and while it waits in the queue the rest of the window is served. When it
//!   arrives the base jumps to the next hole, and the packets that this lets out are as many as lie between the
//!   two holes, 1/p on the average, far more than the three that are needed to find the next one.
//! - A loss is not mended that way if fewer than three packets behind it arrive before the base can move no
//!   further, which is so if the distance to the hole before is 1 or 2 (probability 2 p; the base jumps by as
//!   many, so as many new packets go out), or if the packet that is sent again is lost too (probability p). Then
//!   the timer must fire, for the third duplicate is acted upon once. The link has W s of work at most and then
//!   stands idle until RTO = srtt + 4 max(rttvar, 10 ms) is over.
//! - So a packet costs s + 3 p^2 I, where I is the time that the link stands idle for a timeout:
//!   goodput = 8 * 1464 / (s + 3 p^2 I), with I = RTO and srtt the queue's, which is that of 1/p packets: when a
//!   hole is mended the queue has run empty, and what refills it is what the jump of the base lets out.

mod common;

use std::time::Duration;

use common::{Program, Surroundings, argument, median, number, rounds, table};
use rdt_sim::Scenario;
use serde_json::Value;

const WINDOW: u32 = 8192;
const LOSS: f32 = 0.001;
const RATE_BPS: f64 = 1e10;
const PACKET: f64 = 1472.0;
const PAYLOAD_BITS: f64 = 1464.0 * 8.0;
/// Bytes of payload in a full native packet.
const NATIVE_PAYLOAD: f64 = 1444.0;

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(5), argument("--bytes", 4_000_000_000));
    println!("Loss {LOSS}, W {WINDOW}, RTT 0, 10 Gbit/s, {bytes} bytes; medians of {rounds} rounds.\n");
    let seeds = 1..=rounds as u64;
    let real: Vec<Row> = seeds.clone().map(|seed| real(seed, bytes)).collect();
    let simulated: Vec<Row> = seeds.map(|seed| simulated(seed, bytes)).collect();
    let of = |rows: &[Row], value: fn(&Row) -> f64| median(&rows.iter().map(value).collect::<Vec<_>>());
    let (measured, limit) = (of(&real, |row| row.gbps), formula());
    table(&["what", "Gbit/s", "measured of it", "packets lost", "sent again", "timeouts"]);
    for (name, rows) in [("measured", &real), ("virtual time", &simulated)] {
        let gbps = of(rows, |row| row.gbps);
        println!(
            "| {name} | {gbps:.3} | {:.3} | {} | {} | {} |",
            measured / gbps,
            of(rows, |row| row.lost),
            of(rows, |row| row.retransmitted),
            of(rows, |row| row.timeouts),
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of packets")]
    let packets = bytes as f64 * 8.0 / PAYLOAD_BITS;
    let p = f64::from(LOSS);
    println!(
        "| formula | {limit:.3} | {:.3} | {:.0} | {:.0} | {:.0} |",
        measured / limit,
        packets * p,
        packets * p,
        packets * 3.0 * p * p
    );
    native(rounds as u64, bytes);
    surroundings.report();
}

/// The native format on the same link, whole transfers: with the same fixed window, and with nothing told. What
/// selective repair can do at all is to fill the link: each packet costs its time on it, 1 / (1 - p) times.
fn native(rounds: u64, bytes: u64) {
    let limit = RATE_BPS * NATIVE_PAYLOAD / PACKET * (1.0 - f64::from(LOSS)) / 1e9;
    println!();
    table(&["native", "Gbit/s", "model", "of it", "packets lost", "sent again", "timeouts"]);
    let fixed = format!("local {WINDOW} 0 {LOSS} 10000 --wire native");
    let untuned = format!("local --rtt 0s --rate 10gbit --loss {LOSS} --queue {}p", WINDOW + 50);
    for (name, args) in [("RACK, fixed window", fixed), ("RACK, BBR, nothing told", untuned)] {
        let run = |seed| {
            let summary = Program::sender(&format!("{args} --bytes {bytes} --seed {seed}")).last_line();
            assert_eq!(summary["exit_code"], 0, "{summary}");
            summary
        };
        let runs: Vec<_> = (1..=rounds).map(run).collect();
        let of = |key: &str| median(&runs.iter().map(|run| number(run, key)).collect::<Vec<_>>());
        let lost = |run: &Value| number(&run["receiver"]["forward"], "dropped_loss");
        let gbps = of("goodput_bps") / 1e9;
        println!(
            "| {name} | {gbps:.3} | {limit:.3} | {:.3} | {} | {} | {} |",
            gbps / limit,
            median(&runs.iter().map(lost).collect::<Vec<_>>()),
            of("retransmitted"),
            of("timeouts"),
        );
    }
}

struct Row {
    gbps: f64,
    lost: f64,
    retransmitted: f64,
    timeouts: f64,
}

fn real(seed: u64, bytes: u64) -> Row {
    let args = format!("local {WINDOW} 0 {LOSS} 10000 --bytes {bytes} --seed {seed} --interval 50ms");
    let mut lines = Program::sender(&args).lines();
    let summary = lines.pop().unwrap_or_default();
    assert_eq!(summary["exit_code"], 0, "{summary}");
    let intervals = lines.iter().filter(|line| line["event"] == "interval");
    let marks = intervals.map(|line| (number(line, "time_us") / 1e6, number(line, "base_packets")));
    Row {
        gbps: steady(marks, number(&summary, "packets")),
        lost: number(&summary["receiver"]["forward"], "dropped_loss"),
        retransmitted: number(&summary, "retransmitted"),
        timeouts: number(&summary, "timeouts"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and rates to three decimals")]
fn simulated(seed: u64, bytes: u64) -> Row {
    let scenario = Scenario {
        window: WINDOW,
        rtt_s: 0.0,
        #[expect(clippy::cast_possible_truncation, reason = "the SYN carries an f32")]
        speed_bps: RATE_BPS as f32,
        loss_forward: LOSS,
        buffer: WINDOW + 50,
        bytes,
        seed,
        check_bytes: false,
        ..Scenario::default()
    };
    let (mut simulation, sender, server) = scenario.prepare();
    let mut marks = Vec::new();
    let stats = loop {
        simulation.run_until(simulation.elapsed() + Duration::from_millis(50));
        let stats = simulation.sender(sender).sender.stats();
        marks.push((simulation.elapsed().as_secs_f64(), stats.snd_una as f64));
        assert!(marks.len() < 20 * 600, "the transfer was not over in 600 s");
        if stats.bytes_acked == bytes {
            break stats;
        }
    };
    let forward = simulation.server(server).server.stats().forward;
    Row {
        gbps: steady(marks.into_iter(), stats.snd_una as f64),
        lost: forward.dropped_loss as f64,
        retransmitted: (stats.timeouts + stats.fast_retransmits) as f64,
        timeouts: stats.timeouts as f64,
    }
}

/// Gbit/s of payload from the first to the last of these times and bases at which the window was open and its end
/// was not the transfer's.
fn steady(marks: impl Iterator<Item = (f64, f64)>, packets: f64) -> f64 {
    let window = f64::from(WINDOW);
    let marks: Vec<_> = marks.filter(|(_, base)| (2.0 * window..packets - window).contains(base)).collect();
    let (Some((begin, first)), Some((end, last))) = (marks.first(), marks.last()) else { return f64::NAN };
    (last - first) * PAYLOAD_BITS / (end - begin) / 1e9
}

/// Gbit/s of payload.
fn formula() -> f64 {
    let p = f64::from(LOSS);
    let service = PACKET * 8.0 / RATE_BPS;
    let rto = service / p + 0.04;
    PAYLOAD_BITS / (service + 3.0 * p * p * rto) / 1e9
}
