//! Native transfers over paths with heavy loss in both directions, reordering, outages and a sudden
//! increase of the RTT.

use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{Jitter, Loss, Outage, Path, PathConfig, Probability};
use rdt::transport::LossDetection;
use rdt::{SenderConfig, SenderStats};

use crate::run::{IP_UDP, Run, native, path};
use crate::verdict;

const RATE_MBPS: f64 = 50.0;
const RTT: Duration = Duration::from_millis(40);
/// Duration of each measurement, including the start of the transfer.
const SPAN: Duration = Duration::from_secs(60);
/// Payload share of a full packet with IP and UDP headers.
const PAYLOAD: f64 = 1432.0 / (1472.0 + IP_UDP as f64);

/// Returns a path of 50 Mbit/s with queues of one bandwidth-delay product.
fn fifty(rtt: Duration) -> PathConfig {
    path(50_000_000, rtt, 1.0)
}

fn random(share: f64) -> Loss {
    Loss::Bernoulli(Probability::new(share).expect("a share"))
}

/// Returns a path with equal loss probability in both directions.
fn losing(share: f64) -> PathConfig {
    let mut path = fifty(RTT);
    path.forward.loss = random(share);
    path.reverse.loss = random(share);
    path
}

/// Results of several runs.
struct Rows {
    /// Lowest and mean payload rate acknowledged within [`SPAN`], Mbit/s.
    least: f64,
    mean: f64,
    again: u64,
    lost: u64,
    timeouts: u64,
    episodes: u64,
    spurious: u64,
}

impl Rows {
    fn of(paths: impl Iterator<Item = PathConfig>, config: &SenderConfig) -> Self {
        let runs: Vec<_> = (1..).zip(paths).map(|(seed, path)| steady(path, config.clone(), seed)).collect();
        let sum = |count: fn(&SenderStats) -> u64| runs.iter().map(|(_, stats)| count(stats)).sum();
        #[expect(clippy::cast_precision_loss, reason = "a few runs")]
        let number = runs.len() as f64;
        Self {
            least: runs.iter().map(|(mbps, _)| *mbps).fold(f64::INFINITY, f64::min),
            mean: runs.iter().map(|(mbps, _)| mbps).sum::<f64>() / number,
            again: sum(|stats| stats.retransmitted),
            lost: sum(|stats| stats.lost),
            timeouts: sum(|stats| stats.timeouts),
            episodes: sum(|stats| stats.recoveries + stats.timeouts),
            spurious: sum(|stats| stats.spurious),
        }
    }
}

fn steady(path: PathConfig, config: SenderConfig, seed: u64) -> (f64, SenderStats) {
    let mut running = Run { seed, ..Run::new(path, config) }.start();
    running.simulation.run_until(SPAN);
    assert!(running.simulation.wire(running.wire).forward.ledger().balances());
    let stats = running.stats(0);
    #[expect(clippy::cast_precision_loss, reason = "a minute's bytes")]
    let mbps = stats.bytes_acked as f64 * 8.0 / SPAN.as_secs_f64() / 1e6;
    (mbps, stats)
}

/// Prints the goodput with random loss in both directions, and how many transfers complete at 50 %
/// loss.
pub(crate) fn heavy() {
    println!(
        "\n| loss each way, 50 Mbit/s, 40 ms, 60 s, 5 seeds | lost | sent again | timeouts | Mbit/s, least | of rate x (1 - loss) | asked | |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (loss, asked) in [(0.1, 0.9), (0.2, 0.75), (0.3, 0.5)] {
        for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
            let row = Rows::of((0..5).map(|_| losing(loss)), &native(congestion));
            let share = row.least / (RATE_MBPS * (1.0 - loss) * PAYLOAD);
            let bbr = congestion == Algorithm::Bbr;
            let (asked, met) =
                if bbr { (format!("{asked}"), verdict(share >= asked)) } else { ("-".to_owned(), "") };
            let Rows { least, again, lost, timeouts, .. } = row;
            println!(
                "| {congestion}, {:.0} % | {lost} | {again} | {timeouts} | {least:.2} | {share:.3} | {asked} | {met} |",
                loss * 100.0
            );
        }
    }
    println!(
        "\n| 1 MB at 50 % each way | seeds | finished | median, s | 99 %, s | longest, s | asked: all |"
    );
    println!("|---|---|---|---|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        let mut times: Vec<f64> = (1..=SEEDS).filter_map(|seed| at_half(congestion, seed)).collect();
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(f64::NAN);
        let longest = times.last().copied().unwrap_or(f64::NAN);
        let finished = times.len();
        let met = verdict(u64::try_from(finished) == Ok(SEEDS));
        println!(
            "| {congestion} | {SEEDS} | {finished} | {:.1} | {:.1} | {longest:.1} | {met} |",
            at(50),
            at(99)
        );
    }
}

/// Number of 1 MB transfers for each controller.
const SEEDS: u64 = 1000;

/// Returns the duration of a 1 MB transfer at 50 % loss, seconds; `None` if it fails.
fn at_half(congestion: Algorithm, seed: u64) -> Option<f64> {
    let run = Run { seed, bytes: 1_000_000, ..Run::new(losing(0.5), native(congestion)) };
    let mut running = run.start();
    running.simulation.run_senders(Duration::from_secs(36_000));
    let outcome = &running.simulation.sender(running.senders[0]).outcome;
    let took = running.simulation.elapsed().as_secs_f64();
    if !outcome.is_finished() {
        println!("{congestion}, seed {seed}: {outcome:?} after {took:.1} s");
        return None;
    }
    Some(took)
}

/// Prints the goodput with jitter that reorders packets.
pub(crate) fn jitter() {
    println!(
        "\n| normal jitter of 10 ms, unordered, 50 Mbit/s, 40 ms, 60 s, 5 seeds | lost | sent again | Mbit/s, least | spurious of all recoveries | asked: 30, 5 % |"
    );
    println!("|---|---|---|---|---|---|");
    let jitter = Jitter::normal(Duration::from_millis(10)).unordered();
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        for (name, both, loss) in
            [("forward", false, 0.0), ("both ways", true, 0.0), ("forward, 1 % loss", false, 0.01)]
        {
            let mut path = fifty(RTT);
            path.forward.loss = random(loss);
            path.forward.jitter = Some(jitter);
            path.reverse.jitter = both.then_some(jitter);
            let row = Rows::of((0..5).map(|_| path.clone()), &native(congestion));
            let Rows { least, again, lost, spurious, episodes, .. } = row;
            // Random loss limits CUBIC by design.
            let asked = if loss > 0.0 && congestion == Algorithm::Cubic { 0.0 } else { 30.0 };
            let met = verdict(least >= asked && spurious * 20 <= episodes);
            println!(
                "| {congestion}, {name} | {lost} | {again} | {least:.2} | {spurious} of {episodes} | {met} |"
            );
        }
    }
}

/// Prints the goodput with an outage in a fifth of each second, and with an RTT that increases to
/// fifteen times its value.
pub(crate) fn changes() {
    println!(
        "\n| dead for 0.2 s of each second, 50 Mbit/s, 40 ms, 60 s, 5 offsets | timeouts | Mbit/s, mean | of the link |"
    );
    println!("|---|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno] {
        let paths = (0..5).map(|step| {
            let offset = Duration::from_millis(500 + 37 * step);
            let outage = Outage::periodic(Duration::from_secs(1), Duration::from_millis(200), offset);
            let mut path = fifty(RTT);
            path.forward.outage = outage.clone();
            path.reverse.outage = outage;
            path
        });
        let Rows { timeouts, mean, .. } = Rows::of(paths, &native(congestion));
        println!("| {congestion} | {timeouts} | {mean:.2} | {:.3} |", mean / RATE_MBPS);
    }
    println!(
        "\n| round trip from 20 to 300 ms after 2 s, 50 Mbit/s, 40 MB | lost | sent again | timeouts | spurious | s | of rack |"
    );
    println!("|---|---|---|---|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno] {
        let mut by_rack = None;
        for recovery in [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno] {
            let config = SenderConfig { recovery, ..native(congestion) };
            let run = Run { bytes: 40_000_000, ..Run::new(fifty(Duration::from_millis(20)), config) };
            let mut running = run.start();
            running.simulation.run_until(Duration::from_secs(2));
            let longer = running.simulation.add_wire(Path::new(fifty(Duration::from_millis(300)), 1));
            running.simulation.route(running.senders[0], running.server, longer);
            running.simulation.run_senders(Duration::from_secs(600));
            let SenderStats { lost, retransmitted, timeouts, spurious, .. } = running.stats(0);
            let took = running.simulation.elapsed().as_secs_f64();
            let share = took / *by_rack.get_or_insert(took);
            println!(
                "| {congestion}, {recovery} | {lost} | {retransmitted} | {timeouts} | {spurious} | {took:.1} | {share:.2} |"
            );
        }
    }
}
