//! Rate of the simulator on one core: `cargo bench --bench sim`. Prints a table, in which a packet
//! is a datagram that arrived at either end.

use std::time::Duration;

use rdt::sim::Scenario;
use rdt::udp::clock;

const ROUNDS: usize = 5;

fn main() {
    let gib = Scenario { bytes: 1 << 28, check_bytes: false, buffer: 100_000, ..Scenario::default() };
    let rows = [
        ("W 64, 1 Gbit/s, 10 ms", Scenario { window: 64, rtt_s: 0.01, ..gib.clone() }),
        (
            "W 300, 10 Mbit/s, 200 ms, 10 % reverse loss",
            Scenario { window: 300, rtt_s: 0.2, speed_bps: 10e6, loss_reverse: 0.1, ..gib.clone() },
        ),
        ("W 8192, 10 Gbit/s, 10 ms", Scenario { window: 8192, rtt_s: 0.01, speed_bps: 1e10, ..gib.clone() }),
        (
            "W 64, 1 Gbit/s, 10 ms, 1 % loss",
            Scenario { window: 64, rtt_s: 0.01, loss_forward: 0.01, ..gib.clone() },
        ),
        (
            "W 64, 1 Gbit/s, 10 ms, every byte checked",
            Scenario { window: 64, rtt_s: 0.01, check_bytes: true, ..gib },
        ),
    ];
    println!(
        "| transfer of 256 MiB in virtual time | packets | virtual s | wall s (median of {ROUNDS}) | million packets / wall s |"
    );
    println!("|---|---|---|---|---|");
    for (name, scenario) in rows {
        let mut walls = Vec::new();
        let mut last = None;
        for _ in 0..ROUNDS {
            let start = clock::now();
            let report = scenario.run(Duration::from_secs(1_000_000));
            walls.push(start.elapsed().as_secs_f64());
            assert!(report.outcome.is_finished(), "{name}: {:?}", report.outcome);
            last = Some(report);
        }
        walls.sort_by(f64::total_cmp);
        let wall = walls[ROUNDS / 2];
        let Some(report) = last else { continue };
        #[expect(clippy::cast_precision_loss, reason = "printed to two decimals")]
        let rate = report.datagrams as f64 / wall / 1e6;
        println!(
            "| {name} | {} | {:.1} | {wall:.3} | {rate:.2} |",
            report.datagrams,
            report.elapsed.as_secs_f64()
        );
    }
}
