//! Reno and CUBIC once a path begins to lose packets at random: 100 Mbit/s, 100 ms, a queue of one bandwidth-delay
//! product.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt::emulator::Loss;
use rdt::transport::congestion::Algorithm;

use crate::run::{Run, native, path};
use crate::verdict;

/// Packets that the link carries in the 15 s before losses begin.
const CLEAN: u64 = 125_000;
/// Losses are measured from here on for [`SPAN`].
const FROM: Duration = Duration::from_secs(25);
const SPAN: Duration = Duration::from_secs(600);

/// Losses with probability `p` from packet `first` on.
fn random_from(first: u64, p: f64, seed: u64) -> Loss {
    let mut rng = SmallRng::seed_from_u64(seed);
    Loss::script((first..first + 1_000_000).filter(move |_| rng.random_bool(p)))
}

/// Segments of the mean window with losses at equal distances: Mathis et al. 1997; RFC 9438, section 5.1, with Reno's
/// rule where its window is larger.
fn model(congestion: Algorithm, p: f64, rtt: f64) -> f64 {
    let reno = (1.5 / p).sqrt();
    match congestion {
        Algorithm::Cubic => reno.max((0.4_f64 * 3.7 / 1.2).powf(0.25) * (rtt / p).powf(0.75)),
        _ => reno,
    }
}

pub(crate) fn table() {
    println!(
        "\n| random loss from 15 s on, 100 Mbit/s, 100 ms | Mbit/s | model | ratio | asked 0.9 to 1.4 |"
    );
    println!("|---|---|---|---|---|");
    for congestion in [Algorithm::Cubic, Algorithm::Reno] {
        for p in [0.005, 0.01, 0.02] {
            let mut run = Run::new(path(100_000_000, Duration::from_millis(100), 1.0), native(congestion));
            run.path.forward.loss = random_from(CLEAN, p, run.seed);
            let mut running = run.start();
            running.simulation.run_until(FROM);
            let before = running.stats(0).bytes_acked;
            running.simulation.run_until(FROM + SPAN);
            let bytes = running.stats(0).bytes_acked - before;
            #[expect(clippy::cast_precision_loss, reason = "a minute's bytes")]
            let mbps = bytes as f64 * 8.0 / SPAN.as_secs_f64() / 1e6;
            let model = model(congestion, p, 0.1) * 1444.0 * 8.0 / 0.1 / 1e6;
            let ratio = mbps / model;
            let met = verdict((0.9..=1.4).contains(&ratio));
            println!("| {congestion}, {:.1} % | {mbps:.2} | {model:.2} | {ratio:.2} | {met} |", p * 100.0);
        }
    }
}
