//! Paths with a large bandwidth-delay product: time until a transfer fills them, and share of the
//! rate that it then uses.

use std::time::Duration;

use rdt::SenderConfig;
use rdt::emulator::{Loss, PathConfig, Probability};

use crate::run::{Run, path};
use crate::verdict;

const MBIT: u64 = 1_000_000;
/// Payload share of the link's rate: 1432 bytes in 1500.
const STREAM_SHARE: f64 = 0.9547;
/// Limit on the number of RTTs from the SYN to the first RTT in which 90 % of the link's payload
/// rate is delivered.
const ROUNDS: u32 = 15;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn mbps(bytes: u64, time: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let bits = bytes as f64 * 8.0;
    bits / time.as_secs_f64() / 1e6
}

fn lossy(mut path: PathConfig, share: f64) -> PathConfig {
    path.forward.loss = Loss::Bernoulli(Probability::new(share).expect("a share"));
    path
}

fn each_64th(mut path: PathConfig) -> PathConfig {
    path.forward.loss = Loss::every_nth(64);
    path
}

/// Prints the rates of endless transfers with queues of one bandwidth-delay product, over `span`
/// seconds. The measurement begins after 3 s or [`ROUNDS`], whichever is later.
fn steady() {
    println!(
        "\n| without end | lost | round trips to nine tenths | Mbit/s then | asked | sent again | MB held by the receiver | met |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (megabits, rtt, loss, asked, span) in [
        (10_000, ms(100), 0.0, 9300.0, 4),
        (10_000, ms(100), 1e-4, 9000.0, 4),
        (1000, ms(600), 0.0, 866.0, 20),
        (1000, ms(600), 1e-4, 866.0, 20),
    ] {
        let run = Run::new(lossy(path(megabits * MBIT, rtt, 1.0), loss), SenderConfig::native(7));
        let mut running = run.start();
        let (mut before, mut full_after, mut round) = (0, None, 0);
        while round < ROUNDS || rtt * round < ms(3000) {
            round += 1;
            running.simulation.run_until(rtt * round);
            let acked = running.stats(0).bytes_acked;
            let full = 0.9 * STREAM_SHARE * mbps(megabits * MBIT / 8, ms(1000));
            if full_after.is_none() && mbps(acked - before, rtt) >= full {
                full_after = Some(round);
            }
            before = acked;
        }
        let span = Duration::from_secs(span);
        running.simulation.run_until(rtt * round + span);
        let after = running.stats(0);
        let rate = mbps(after.bytes_acked - before, span);
        let rounds = full_after.map_or_else(|| "never".to_owned(), |round| round.to_string());
        let held =
            running.simulation.server(running.server).server.stats().connections.max_memory / 1_000_000;
        println!(
            "| {megabits} Mbit/s, {rtt:?} | {:.2} % | {rounds} | {rate:.0} | {asked:.0} | {} | {held} | {} |",
            loss * 100.0,
            after.retransmitted,
            verdict(full_after.is_some_and(|round| round <= ROUNDS) && rate >= asked)
        );
    }
}

/// Prints the durations of transfers of given sizes, from the first SYN to the FIN-ACK.
fn whole() {
    println!(
        "\n| whole transfer | s | asked | share of the link | dropped by its queue | sent again | met |"
    );
    println!("|---|---|---|---|---|---|---|");
    let satellite = || path(250 * MBIT, ms(600), 1.0);
    let short_queue = path(10 * MBIT, ms(300), 0.1);
    let rows: [(&str, PathConfig, u64, u64, f64); 6] = [
        ("25 Mbit/s, 600 ms, 20 MB", path(25 * MBIT, ms(600), 1.0), 25, 20, 8.533),
        ("250 Mbit/s, 600 ms, 100 MB", satellite(), 250, 100, 5.5),
        ("250 Mbit/s, 600 ms, 100 MB, each 64th lost", each_64th(satellite()), 250, 100, 7.5),
        ("100 Mbit/s, 200 ms, 20 MB", path(100 * MBIT, ms(200), 1.0), 100, 20, 3.15),
        ("1 Mbit/s, 600 ms, 1 MB", path(MBIT, ms(600), 1.0), 1, 1, 11.01),
        ("10 Mbit/s, 300 ms, 5 MB, a queue of 25 packets", short_queue, 10, 5, 5.85),
    ];
    for (name, path, megabits, megabytes, asked) in rows {
        let run = Run { bytes: megabytes * 1_000_000, ..Run::new(path, SenderConfig::native(7)) };
        let mut running = run.start();
        let ended = running.simulation.run_senders(Duration::from_secs(600));
        let took = running.simulation.elapsed();
        let share = mbps(run.bytes, took) / mbps(megabits * MBIT / 8, ms(1000));
        println!(
            "| {name} | {:.2} | {asked:.2} | {share:.3} | {} | {} | {} |",
            took.as_secs_f64(),
            running.simulation.wire(running.wire).forward.ledger().dropped_queue,
            running.stats(0).retransmitted,
            verdict(ended && took.as_secs_f64() <= asked)
        );
    }
}

pub(crate) fn table() {
    whole();
    steady();
}
