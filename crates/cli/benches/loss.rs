//! Random loss at full speed: `cargo bench -p rdt-cli --bench loss` (`-- --rounds N --bytes N`: 5, 4000000000).
//!
//! 0.1 % forward, RTT 0, W 8192 packets of 1472 bytes, link 10 Gbit/s, `rdt-send local`; each round has a seed of
//! its own. Beside it stand the same transfers in virtual time, where hosts take no time and the same packets are
//! lost, and a formula for what base-only recovery can do at all.
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

use common::{Program, argument, median, number, rounds, table};
use rdt_sim::Scenario;

const WINDOW: u32 = 8192;
const LOSS: f32 = 0.001;
const RATE_BPS: f64 = 1e10;
const PACKET: f64 = 1472.0;
const PAYLOAD_BITS: f64 = 1464.0 * 8.0;

fn main() {
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
}

struct Row {
    gbps: f64,
    lost: f64,
    retransmitted: f64,
    timeouts: f64,
}

fn real(seed: u64, bytes: u64) -> Row {
    let args = format!("local {WINDOW} 0 {LOSS} 10000 --bytes {bytes} --seed {seed} --quiet");
    let summary = Program::sender(&args).last_line();
    assert_eq!(summary["exit_code"], 0, "{summary}");
    Row {
        gbps: number(&summary, "goodput_bps") / 1e9,
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
    let report = scenario.run(Duration::from_secs(600));
    let (stats, forward) = (&report.sender, &report.server.forward);
    assert_eq!(stats.bytes_acked, bytes, "the transfer was not over in 600 s");
    Row {
        gbps: bytes as f64 * 8.0 / stats.elapsed().as_secs_f64() / 1e9,
        lost: forward.dropped_loss as f64,
        retransmitted: (stats.timeouts + stats.fast_retransmits) as f64,
        timeouts: stats.timeouts as f64,
    }
}

/// Gbit/s of payload.
fn formula() -> f64 {
    let p = f64::from(LOSS);
    let service = PACKET * 8.0 / RATE_BPS;
    let rto = service / p + 0.04;
    PAYLOAD_BITS / (service + 3.0 * p * p * rto) / 1e9
}
