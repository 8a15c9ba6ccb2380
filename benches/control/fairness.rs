//! Jain's index of two and of ten native flows on a drop-tail link, over 240 s after convergence.
//!
//! BBR draws the times between its probes, so runs differ: its rows have five runs and ask for the
//! median. CUBIC and Reno draw nothing.

use std::ops::Range;
use std::time::Duration;

use rdt::SenderConfig;
use rdt::congestion::Algorithm;

use crate::run::{Run, Running, native, path};
use crate::verdict;

/// Time before the measurement, in which flows converge. Each sawtooth of Reno halves the
/// difference of two windows (RFC 5681 has no other mechanism towards fairness), and lasts 40 s if
/// the full queue increases the RTT to 500 ms. So ten flows that start with an index of 0.93 over
/// 60 s need 300 s.
fn convergence(congestion: Algorithm) -> Duration {
    Duration::from_secs(if congestion == Algorithm::Reno { 300 } else { 60 })
}
const SPAN: Duration = Duration::from_secs(240);

/// Runs of a row, which differ in the seeds of all flows.
fn runs(congestion: Algorithm) -> u64 {
    if congestion == Algorithm::Bbr { 5 } else { 1 }
}

/// Jain's index (Jain et al. 1984), (sum of x)^2 / (n * sum of x^2): 1 if all shares are equal, 1 /
/// n if one flow has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

pub(crate) fn table() {
    println!(
        "\n| native flows, 50 Mbit/s | flows | runs | from, s | Jain's index: median, asked 0.95 | least | of the link | least and largest share | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for congestion in [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno] {
        for rtt in [20, 100] {
            for products in [1.0, 4.0] {
                for flows in [2, 10] {
                    row(congestion, rtt, products, flows);
                }
            }
        }
    }
}

/// Bytes of each flow within the span.
fn acked(congestion: Algorithm, rtt: u64, products: f64, ids: Range<u64>) -> Vec<f64> {
    let path = path(50_000_000, Duration::from_millis(rtt), products);
    let flow = |id| SenderConfig { congestion, ..SenderConfig::native(id) };
    let run = Run { senders: ids.map(flow).collect(), ..Run::new(path, native(congestion)) };
    let mut running = run.start();
    let acked = |running: &Running| -> Vec<f64> {
        (0..run.senders.len()).map(|index| running.stats(index).bytes_acked as f64).collect()
    };
    let from = convergence(congestion);
    running.simulation.run_until(from);
    let before = acked(&running);
    running.simulation.run_until(from + SPAN);
    acked(&running).iter().zip(&before).map(|(after, before)| after - before).collect()
}

fn row(congestion: Algorithm, rtt: u64, products: f64, flows: u64) {
    let runs = runs(congestion);
    // The identifiers of a run's connections are the seeds of their controllers.
    let mut all: Vec<_> = (0..runs)
        .map(|run| {
            let first = 1 + run * flows;
            acked(congestion, rtt, products, first..first + flows)
        })
        .collect();
    all.sort_by(|a, b| jain(a).total_cmp(&jain(b)));
    let (median, least) = (jain(&all[all.len() / 2]), jain(&all[0]));
    let sum = |shares: &[f64]| shares.iter().sum::<f64>();
    let used = all.iter().map(|run| sum(run)).sum::<f64>() / runs as f64 * 8.0 / SPAN.as_secs_f64() / 50e6
        * 1500.0
        / 1432.0;
    let shares = || all.iter().flat_map(|run| run.iter().map(|share| share / sum(run)));
    println!(
        "| {congestion}, {rtt} ms, {products} BDP | {flows} | {runs} | {} | {median:.3} | {least:.3} | {used:.3} | {:.2} to {:.2} | {} |",
        convergence(congestion).as_secs(),
        shares().fold(f64::INFINITY, f64::min),
        shares().fold(0.0, f64::max),
        verdict(median >= 0.95)
    );
}
