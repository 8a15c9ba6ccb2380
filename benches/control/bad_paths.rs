//! Paths that lose much each way, that let packets overtake each other, or that are dead for a while: what a native
//! transfer makes of them.

use std::time::Duration;

use rdt::emulator::{Jitter, Loss, Outage, PathConfig, Probability};
use rdt::sim::Outcome;
use rdt::transport::congestion::Algorithm;
use rdt::transport::{Attempts, LossDetection, RtoPolicy, SenderConfig, SenderStats};

use crate::run::{IP_UDP, Run, native, path};
use crate::verdict;

const RATE: u64 = 50_000_000;
const RTT: Duration = Duration::from_millis(40);
/// Each steady row is measured for so long, the start included.
const SPAN: Duration = Duration::from_secs(60);
/// Share of a full datagram, headers of IP and UDP included, that is payload.
const PAYLOAD: f64 = 1444.0 / (1472.0 + IP_UDP as f64);

fn losing(share: f64) -> PathConfig {
    let loss = Loss::Bernoulli(Probability::new(share).expect("a share"));
    let mut path = path(RATE, RTT, 1.0);
    path.forward.loss = loss.clone();
    path.reverse.loss = loss;
    path
}

/// Mbit/s of payload that were acknowledged within [`SPAN`].
fn steady(path: PathConfig, config: SenderConfig, seed: u64) -> (f64, SenderStats) {
    let mut running = Run { seed, ..Run::new(path, config) }.start();
    running.simulation.run_until(SPAN);
    let stats = running.stats(0);
    #[expect(clippy::cast_precision_loss, reason = "a minute's bytes")]
    let mbps = stats.bytes_acked as f64 * 8.0 / SPAN.as_secs_f64() / 1e6;
    (mbps, stats)
}

fn counts(stats: &SenderStats) -> String {
    let SenderStats { lost, retransmitted, recoveries, timeouts, spurious, probes, .. } = stats;
    format!(
        "{lost} lost, {retransmitted} again, {recoveries} recoveries, {timeouts} timeouts, {spurious} spurious, {probes} probes"
    )
}

/// Patience as RFC 1122, section 4.2.3.5, has it.
fn patient(congestion: Algorithm) -> SenderConfig {
    let attempts = Attempts { syn: 90, data: u32::MAX, fin: 90 };
    let rto = RtoPolicy::Rfc6298 { min: Duration::from_millis(200), backoff_max: Duration::from_secs(2) };
    SenderConfig { give_up: Duration::from_secs(100), rto, attempts, ..native(congestion) }
}

/// Random loss each way.
pub(crate) fn heavy() {
    println!("\n| loss each way, 50 Mbit/s, 40 ms, 60 s | Mbit/s | of what the path carries | asked | |");
    println!("|---|---|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        for (loss, asked) in [(0.1, 0.9), (0.2, 0.75), (0.3, 0.5), (0.5, 0.0)] {
            let runs = (1..=3).map(|seed| steady(losing(loss), patient(congestion), seed));
            let (mbps, stats) = runs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("three runs");
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            let share = mbps / (RATE as f64 / 1e6 * (1.0 - loss) * PAYLOAD);
            let asked = if congestion == Algorithm::Bbr { asked } else { 0.0 };
            let met = if asked > 0.0 { verdict(share >= asked) } else { "" };
            println!(
                "| {congestion}, {:.0} %: {} | {mbps:.2} | {share:.3} | {asked} | {met} |",
                loss * 100.0,
                counts(&stats)
            );
        }
    }
}

/// A megabyte where half of all packets are lost each way.
pub(crate) fn half() {
    println!(
        "\n| 1 MB at 50 % each way, 1,000 seeds | finished | median, s | 99 %, s | worst, s | asked: all |"
    );
    println!("|---|---|---|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        let mut times: Vec<f64> = Vec::new();
        for seed in 1..=1000 {
            let run = Run { seed, bytes: 1_000_000, ..Run::new(losing(0.5), patient(congestion)) };
            let mut running = run.start();
            running.simulation.run_senders(Duration::from_secs(36_000));
            let node = running.simulation.sender(running.senders[0]);
            if let Outcome::Finished { .. } = node.outcome {
                times.push(running.simulation.elapsed().as_secs_f64());
            } else {
                println!(
                    "{congestion}, seed {seed}: {:?} after {:?}",
                    node.outcome,
                    running.simulation.elapsed()
                );
            }
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "an index"
            )]
            times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
        };
        println!(
            "| {congestion} | {} | {:.1} | {:.1} | {:.1} | {} |",
            times.len(),
            at(0.5),
            at(0.99),
            times.last().copied().unwrap_or(f64::NAN),
            verdict(times.len() == 1000)
        );
    }
}

/// Packets that overtake each other.
pub(crate) fn jitter() {
    println!(
        "\n| normal jitter of 10 ms, unordered, 50 Mbit/s, 40 ms, 60 s | Mbit/s | spurious recoveries | asked: 30, 5 % |"
    );
    println!("|---|---|---|---|");
    let jitter = Jitter::normal(Duration::from_millis(10)).unordered();
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        for (name, both, loss) in
            [("forward", false, 0.0), ("both ways", true, 0.0), ("forward, 1 % loss", false, 0.01)]
        {
            let runs = (1..=5).map(|seed| {
                let mut path = if loss > 0.0 { losing(loss) } else { path(RATE, RTT, 1.0) };
                path.forward.jitter = Some(jitter);
                path.reverse.jitter = both.then_some(jitter);
                path.reverse.loss = Loss::None;
                steady(path, native(congestion), seed)
            });
            let (mbps, stats) = runs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("five runs");
            let episodes = stats.recoveries + stats.timeouts;
            let met = verdict(mbps >= 30.0 && stats.spurious * 20 <= episodes);
            println!(
                "| {congestion}, {name}: {} | {mbps:.2} | {} of {episodes} | {met} |",
                counts(&stats),
                stats.spurious
            );
        }
    }
}

/// A path that is dead for a fifth of each second, and one whose round trip becomes fifteen times as long.
pub(crate) fn outages() {
    println!("\n| dead for 0.2 s of each second, 50 Mbit/s, 40 ms, 60 s | Mbit/s | of 0.8 of the link |");
    println!("|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno] {
        let mut path = path(RATE, RTT, 1.0);
        let outage =
            Outage::periodic(Duration::from_secs(1), Duration::from_millis(200), Duration::from_millis(500));
        path.forward.outage = outage.clone();
        path.reverse.outage = outage;
        let (mbps, stats) = steady(path, native(congestion), 1);
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let share = mbps / (RATE as f64 / 1e6 * 0.8 * PAYLOAD);
        println!("| {congestion}: {} | {mbps:.2} | {share:.3} |", counts(&stats));
    }
    println!("\n| round trip from 20 to 300 ms after 2 s, 50 Mbit/s, 40 MB | s | |");
    println!("|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno] {
        for recovery in
            [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly]
        {
            let mut run = Run::new(
                path(RATE, Duration::from_millis(20), 1.0),
                SenderConfig { recovery, ..native(congestion) },
            );
            run.bytes = 40_000_000;
            let mut running = run.start();
            running.simulation.run_until(Duration::from_secs(2));
            let long = rdt::emulator::Path::new(path(RATE, Duration::from_millis(300), 1.0), 1);
            let long = running.simulation.add_wire(long);
            running.simulation.route(running.senders[0], running.server, long);
            running.simulation.run_senders(Duration::from_secs(600));
            let stats = running.stats(0);
            println!(
                "| {congestion}, {recovery}: {} | {:.1} | |",
                counts(&stats),
                running.simulation.elapsed().as_secs_f64()
            );
        }
    }
}
