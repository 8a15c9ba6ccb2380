//! Rate of the simulator on one core: `cargo bench --bench sim`. Prints a table, in which a packet
//! is a datagram that arrived at either end.

use std::time::Duration;

use rdt::emulator::{Bitrate, Loss, Path, PathConfig, Probability, QueueSize};
use rdt::sim::{LinkMode, Scenario, ServerConfig, Simulation};
use rdt::{ReceiverConfig, SenderConfig, clock};

const ROUNDS: usize = 5;
const BYTES: u64 = 1 << 28;
const LIMIT: Duration = Duration::from_secs(1_000_000);

/// Packets that arrived, and virtual time.
type Run = (u64, Duration);

/// A classic transfer.
fn classic(scenario: &Scenario) -> Run {
    let report = scenario.run(LIMIT);
    assert!(report.outcome.is_finished(), "{scenario:?}: {:?}", report.outcome);
    (report.datagrams, report.elapsed)
}

/// A native transfer, with cipher none, over a path with `rtt_ms` and this share of losses.
fn native(mbit: u64, rtt_ms: u64, loss: f64) -> Run {
    let mut path =
        PathConfig::symmetric(Duration::from_millis(rtt_ms / 2), Bitrate::from_bps(mbit * 1_000_000))
            .queue_size(QueueSize::Packets(1000));
    path.forward = path.forward.loss(Loss::Bernoulli(Probability::new(loss).expect("from 0 to 1")));
    let mut simulation = Simulation::new();
    let server = simulation.add_server(ServerConfig::new(ReceiverConfig::reference(), LinkMode::None));
    let wire = simulation.add_wire(Path::new(path, 1));
    let sender =
        simulation.add_sender(SenderConfig::native(7), server, BYTES).expect("a valid configuration");
    simulation.route(sender, server, wire);
    simulation.run_senders(LIMIT);
    let outcome = &simulation.sender(sender).outcome;
    assert!(outcome.is_finished(), "{mbit} Mbit/s: {outcome:?}");
    (simulation.datagrams(), simulation.elapsed())
}

fn main() {
    let gib = Scenario { bytes: BYTES, check_bytes: false, buffer: 100_000, ..Scenario::default() };
    let scenarios = [
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
    let mut rows: Vec<(String, Box<dyn Fn() -> Run>)> = Vec::new();
    for (name, scenario) in scenarios {
        rows.push((format!("classic, {name}"), Box::new(move || classic(&scenario))));
    }
    for (mbit, rtt_ms, loss) in [(1000, 10, 0.0), (100, 50, 0.01), (10, 200, 0.0)] {
        let name = format!("native, {mbit} Mbit/s, {rtt_ms} ms, {} % loss", loss * 100.0);
        rows.push((name, Box::new(move || native(mbit, rtt_ms, loss))));
    }
    println!(
        "| transfer of 256 MiB in virtual time | packets | virtual s | wall s (median of {ROUNDS}) | million packets / wall s |"
    );
    println!("|---|---|---|---|---|");
    for (name, run) in rows {
        let mut walls = Vec::new();
        let mut last = (0, Duration::ZERO);
        for _ in 0..ROUNDS {
            let start = clock::now();
            last = run();
            walls.push(start.elapsed().as_secs_f64());
        }
        walls.sort_by(f64::total_cmp);
        let wall = walls[ROUNDS / 2];
        let (packets, elapsed) = last;
        #[expect(clippy::cast_precision_loss, reason = "printed to two decimals")]
        let rate = packets as f64 / wall / 1e6;
        println!("| {name} | {packets} | {:.1} | {wall:.3} | {rate:.2} |", elapsed.as_secs_f64());
    }
}
