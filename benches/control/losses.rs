//! Rates of Reno and CUBIC with random loss after a start without loss: 100 Mbit/s, 100 ms, a queue
//! of one bandwidth-delay product.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rdt::congestion::Algorithm;
use rdt::emulator::{CoDelConfig, Discipline, Loss, QueueLimit};
use rdt::sim::WindowRecorder;

use crate::run::{Run, Running, native, path};
use crate::verdict;

/// Number of packets before the first loss: those that the link transmits in 15 s.
const CLEAN: u64 = 125_000;
const FROM: Duration = Duration::from_secs(25);
const SPAN: Duration = Duration::from_secs(600);

/// Returns random loss with probability `p`, from packet `first` on.
pub(crate) fn random_from(first: u64, p: f64, seed: u64) -> Loss {
    let mut rng = SmallRng::seed_from_u64(seed);
    Loss::script((first..first + 1_000_000).filter(move |_| rng.random_bool(p)))
}

/// Returns a loss of every `n`-th packet, from packet `first` on.
fn every_from(first: u64, n: u64) -> Loss {
    Loss::script((first..first + 2_000_000).filter(move |index| index % n == 0))
}

/// Returns the mean window for losses at equal distances, in segments (Mathis et al. 1997; RFC
/// 9438, section 5.1). For CUBIC at least Reno's window.
fn model(congestion: Algorithm, p: f64, rtt: f64) -> f64 {
    let reno = (1.5 / p).sqrt();
    match congestion {
        Algorithm::Cubic => reno.max((0.4_f64 * 3.7 / 1.2).powf(0.25) * (rtt / p).powf(0.75)),
        _ => reno,
    }
}

/// Returns the payload rate over `span` after `from`, Mbit/s.
fn rate(running: &mut Running, from: Duration, span: Duration) -> f64 {
    running.simulation.run_until(from);
    let before = running.stats(0).bytes_acked;
    running.simulation.run_until(from + span);
    (running.stats(0).bytes_acked - before) as f64 * 8.0 / span.as_secs_f64() / 1e6
}

pub(crate) fn table() {
    random();
    on_the_way_down();
    codel();
}

fn random() {
    println!(
        "\n| random loss from 15 s on, 100 Mbit/s, 100 ms | Mbit/s | model | ratio, asked 0.9 to 1.4 | ssthresh / cwnd, reductions | timeouts, lost, spurious | |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (congestion, beta) in [(Algorithm::Cubic, 0.7), (Algorithm::Reno, 0.5)] {
        for p in [0.005, 0.01, 0.02] {
            let mut run = Run::new(path(100_000_000, Duration::from_millis(100), 1.0), native(congestion));
            run.path.forward.loss = random_from(CLEAN, p, run.seed);
            let mut running = run.start();
            let windows = WindowRecorder::default();
            running.observe(0, Box::new(windows.clone()));
            let mbps = rate(&mut running, FROM, SPAN);
            let model = model(congestion, p, 0.1) * 1432.0 * 8.0 / 0.1 / 1e6;
            let ratio = mbps / model;
            let halvings = windows.history().halvings;
            let ratios = halvings.iter().map(|(_, cwnd, ssthresh)| *ssthresh as f64 / *cwnd as f64);
            let count = halvings.len();
            let mean = ratios.sum::<f64>() / count.max(1) as f64;
            let met = (0.9..=1.4).contains(&ratio) && (mean - beta).abs() <= 0.02;
            let stats = running.stats(0);
            println!(
                "| {congestion}, {:.1} % | {mbps:.2} | {model:.2} | {ratio:.2} | {mean:.3}, {count} | {}, {}, {} | {} |",
                p * 100.0,
                stats.timeouts,
                stats.lost,
                stats.spurious,
                verdict(met)
            );
        }
    }
}

fn on_the_way_down() {
    println!(
        "\n| every 50th packet lost from packet 40,000 on, 100 Mbit/s, 100 ms | Mbit/s, 0 to 20 s | lost on the way, asked at most 227 | kernel CUBIC | |"
    );
    println!("|---|---|---|---|---|");
    for congestion in [Algorithm::Cubic, Algorithm::Reno] {
        let mut run = Run::new(path(100_000_000, Duration::from_millis(100), 1.0), native(congestion));
        run.path.forward.loss = every_from(40_000, 50);
        let mut running = run.start();
        let mbps = rate(&mut running, Duration::ZERO, Duration::from_secs(20));
        let lost = running.simulation.wire(running.wire).forward.ledger().dropped_loss;
        println!(
            "| {congestion} | {mbps:.1} | {lost} | 26 to 27 Mbit/s, 175 lost | {} |",
            verdict(lost <= 227)
        );
    }
}

fn codel() {
    println!("\n| CoDel, 50 Mbit/s, 40 ms, 30 s | Mbit/s | drops, asked at most 30 | |");
    println!("|---|---|---|---|");
    for congestion in [Algorithm::Cubic, Algorithm::Reno] {
        let mut run = Run::new(path(50_000_000, Duration::from_millis(40), 1.0), native(congestion));
        run.path.forward.queue = QueueLimit::packets(1000);
        run.path.forward.discipline = Discipline::CoDel(CoDelConfig::default());
        run.senders[0].ecn = false;
        let mut running = run.start();
        let mbps = rate(&mut running, Duration::ZERO, Duration::from_secs(30));
        let drops = running.simulation.wire(running.wire).forward.ledger().dropped_aqm;
        println!("| {congestion} | {mbps:.1} | {drops} | {} |", verdict(drops <= 30));
    }
}
