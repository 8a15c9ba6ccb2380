//! Jain's index of two and of ten native flows on a drop-tail link, over 240 s after convergence.

use std::time::Duration;

use rdt::transport::SenderConfig;
use rdt::transport::congestion::Algorithm;

use crate::run::{Run, native, path};
use crate::verdict;

/// Time before the measurement, in which flows converge. Each sawtooth of Reno halves the
/// difference of two windows (RFC 5681 has no other mechanism towards fairness), and lasts 40 s if
/// the full queue increases the RTT to 500 ms. So ten flows that start with an index of 0.93 over
/// 60 s need 300 s.
fn convergence(congestion: Algorithm) -> Duration {
    Duration::from_secs(if congestion == Algorithm::Reno { 300 } else { 60 })
}
const SPAN: Duration = Duration::from_secs(240);

/// Jain's index (Jain et al. 1984), (sum of x)^2 / (n * sum of x^2): 1 if all shares are equal, 1 /
/// n if one flow has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

pub(crate) fn table() {
    println!(
        "\n| native flows, 50 Mbit/s | flows | from, s | Jain's index, asked 0.95 | of the link | least and largest share | |"
    );
    println!("|---|---|---|---|---|---|---|");
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

fn row(congestion: Algorithm, rtt: u64, products: f64, flows: u64) {
    let path = path(50_000_000, Duration::from_millis(rtt), products);
    let flow = |id| SenderConfig { congestion, ..SenderConfig::native(id) };
    let run = Run { senders: (1..=flows).map(flow).collect(), ..Run::new(path, native(congestion)) };
    let mut running = run.start();
    let acked = |running: &crate::run::Running| -> Vec<f64> {
        (0..run.senders.len()).map(|index| running.stats(index).bytes_acked as f64).collect()
    };
    let from = convergence(congestion);
    running.simulation.run_until(from);
    let before = acked(&running);
    running.simulation.run_until(from + SPAN);
    let shares: Vec<f64> =
        acked(&running).iter().zip(&before).map(|(after, before)| after - before).collect();
    let sum: f64 = shares.iter().sum();
    let used = sum * 8.0 / SPAN.as_secs_f64() / 50e6 * 1500.0 / 1444.0;
    let bound = |of: fn(f64, f64) -> f64, first| shares.iter().copied().fold(first, of) / sum;
    let index = jain(&shares);
    println!(
        "| {congestion}, {rtt} ms, {products} BDP | {flows} | {} | {index:.3} | {used:.3} | {:.2} to {:.2} | {} |",
        from.as_secs(),
        bound(f64::min, f64::INFINITY),
        bound(f64::max, 0.0),
        verdict(index >= 0.95)
    );
}
