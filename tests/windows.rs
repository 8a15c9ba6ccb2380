//! Windows and rates of native transfers against published models, in virtual time: RTT 100 ms, a
//! link that no window fills, random loss. Windows are means over time, in segments.

use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, Loss, Path, PathConfig, Probability, QueueLimit};
use rdt::sim::{LinkMode, NodeId, Recorder, Series, ServerConfig, Simulation, WindowRecorder};
use rdt::transport::Reordering;
use rdt::{ReceiverConfig, SenderConfig};

const RTT: f64 = 0.1;

/// Endless transfer over one path.
struct Transfer {
    congestion: Algorithm,
    rate: u64,
    loss: Loss,
    /// Bytes of a full datagram.
    packet_size: usize,
    queue: u64,
    seed: u64,
}

impl Transfer {
    /// 10 Gbit/s: with small packets no window of these tests fills it.
    fn wide(congestion: Algorithm, loss: Loss) -> Self {
        Self { congestion, rate: 10_000_000_000, loss, packet_size: 128, queue: 1 << 40, seed: 1 }
    }

    fn simulation(&self) -> (Simulation, NodeId) {
        let mut path = PathConfig::symmetric(Duration::from_secs_f64(RTT), Bitrate::from_bps(self.rate));
        path.forward.queue = QueueLimit::bytes(self.queue);
        path.forward.loss = self.loss.clone();
        let server = ServerConfig::new(ReceiverConfig::reference(), LinkMode::None);
        let mut simulation = Simulation::new();
        let server = simulation.add_server(server);
        let wire = simulation.add_wire(Path::new(path, self.seed));
        let config = SenderConfig {
            congestion: self.congestion,
            packet_size: self.packet_size,
            // As in the models and RFCs: a loss is detected one RTT after it.
            reordering: Reordering::OnceSeen,
            ..SenderConfig::native(7)
        };
        let config = SenderConfig { window: config.largest_window().min(1 << 20), ..config };
        let sender = simulation.add_sender(config, server, u64::MAX / 2).unwrap();
        simulation.route(sender, server, wire);
        (simulation, sender)
    }

    fn mss(&self) -> f64 {
        let config = SenderConfig { packet_size: self.packet_size, ..SenderConfig::native(7) };
        config.payload_size() as f64
    }

    /// Samples every `interval` until `end`.
    fn record(&self, interval: Duration, end: Duration) -> Series {
        let (mut simulation, sender) = self.simulation();
        let recorder = Recorder::new(simulation.epoch(), interval);
        simulation.sender_mut(sender).observe(Box::new(recorder.clone()));
        simulation.run_until(end);
        recorder.series()
    }

    /// Mean congestion window in segments from `settle` to `end`, s.
    fn mean_window(&self, settle: f64, end: f64) -> f64 {
        let series = self.record(Duration::from_millis(20), Duration::from_secs_f64(end));
        let windows = series.time_s.iter().zip(&series.cwnd);
        let inside: Vec<u64> = windows.filter(|(t, _)| (settle..end).contains(*t)).map(|(_, w)| *w).collect();
        inside.iter().sum::<u64>() as f64 / inside.len() as f64 / self.mss()
    }

    /// Mean of `ssthresh / cwnd` at each reduction until `end`, s.
    fn mean_reduction(&self, end: f64) -> f64 {
        let (mut simulation, sender) = self.simulation();
        let windows = WindowRecorder::default();
        simulation.sender_mut(sender).observe(Box::new(windows.clone()));
        simulation.run_until(Duration::from_secs_f64(end));
        let halvings = windows.history().halvings;
        let ratios = halvings.iter().map(|(_, cwnd, ssthresh)| *ssthresh as f64 / *cwnd as f64);
        ratios.sum::<f64>() / halvings.len() as f64
    }
}

/// sqrt(3 / (2 b p)) (Mathis et al. 1997). The window grows by bytes and not by ACKs (RFC 3465), so
/// ACKs of every second packet do not slow it: b = 1. Random losses instead of equal distances
/// raise it by 7 %.
fn reno_model(p: f64) -> f64 {
    (1.5 / p).sqrt()
}

/// RFC 9438, section 5.1, with C 0.4 and beta 0.7: losses at equal distances, without Reno's rule.
fn cubic_model(p: f64) -> f64 {
    (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * (RTT / p).powf(0.75)
}

const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// RFC 9438, sections 4.2 to 4.7, one RTT at a time, with random losses. They raise the mean by 13
/// %. If the cubic window and Reno's estimate are close, their maximum exceeds both formulas.
fn cubic_rounds(p: f64, seed: u64) -> f64 {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut cwnd, mut w_max, mut cwnd_prior): (f64, f64, f64) = (10.0, 10.0, 10.0);
    let (mut w_est, mut k, mut t): (f64, f64, f64) = (7.0, 0.0, 0.0);
    let (mut sum, mut rounds) = (0.0, 0);
    while rounds < 300_000 {
        let intact = (1.0 - p).powf(cwnd.round());
        rounds += 1;
        sum += cwnd;
        if random.random::<f64>() < intact {
            t += RTT;
            let alpha = if w_est < cwnd_prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
            w_est += alpha;
            let w_cubic = |t: f64| C * (t - k).powi(3) + w_max;
            cwnd =
                if w_cubic(t) < w_est { cwnd.max(w_est) } else { cwnd.max(w_cubic(t + RTT).min(1.5 * cwnd)) };
            continue;
        }
        // Recovery takes one RTT with a constant window.
        w_max = if cwnd < cwnd_prior { cwnd * f64::midpoint(1.0, BETA) } else { cwnd };
        cwnd_prior = cwnd;
        cwnd = (cwnd * BETA).max(2.0);
        (w_est, k, t) = (cwnd, ((w_max - cwnd).max(0.0) / C).cbrt(), 0.0);
        rounds += 1;
        sum += cwnd;
    }
    sum / f64::from(rounds)
}

/// Random loss of one packet in `n`.
fn at_random(n: u32) -> Loss {
    Loss::Bernoulli(Probability::new(1.0 / f64::from(n)).unwrap())
}

fn at_equal_distances(n: u32) -> Loss {
    Loss::EveryNth(NonZeroU64::from(NonZeroU32::new(n).unwrap()))
}

fn assert_window(congestion: Algorithm, loss: Loss, model: f64, seconds: f64) {
    let line = format!("{congestion}, {loss:?}");
    let run = Transfer::wide(congestion, loss);
    let measured = run.mean_window(seconds / 10.0, seconds);
    let (ratio, seed) = (measured / model, run.seed);
    let line = format!("{line}, seed {seed}: mean window {measured:.1} segments, model {model:.1}");
    println!("{line}, ratio {ratio:.3}");
    assert!((ratio - 1.0).abs() <= 0.15, "{line}, ratio {ratio:.3}");
}

#[test]
fn reno_mean_window_matches_model() {
    for (n, seconds) in [(20, 200.0), (100, 500.0), (1000, 1000.0), (10_000, 2400.0)] {
        let model = reno_model(1.0 / f64::from(n));
        assert_window(Algorithm::Reno, at_random(n), model, seconds);
        // A window of five segments is in recovery for a fifth of its time, which the formula
        // ignores.
        if n > 20 {
            assert_window(Algorithm::Reno, at_equal_distances(n), model, seconds / 4.0);
        }
    }
}

#[test]
fn cubic_mean_window_matches_formula() {
    for (n, seconds) in [(100, 200.0), (1000, 500.0), (10_000, 500.0)] {
        let p = 1.0 / f64::from(n);
        let model = cubic_model(p).max(reno_model(p));
        assert_window(Algorithm::Cubic, at_equal_distances(n), model, seconds);
    }
}

#[test]
fn cubic_mean_window_under_random_loss() {
    for (n, seconds) in [(20, 200.0), (100, 500.0), (1000, 1000.0), (10_000, 1200.0)] {
        let model = cubic_rounds(1.0 / f64::from(n), 1);
        assert_window(Algorithm::Cubic, at_random(n), model, seconds);
    }
}

#[test]
fn reductions_match_controller_beta() {
    for (congestion, beta) in [(Algorithm::Reno, 0.5), (Algorithm::Cubic, BETA)] {
        for (n, seconds) in [(20, 100.0), (100, 200.0), (1000, 300.0), (10_000, 500.0)] {
            for loss in [at_random(n), at_equal_distances(n)] {
                let run = Transfer::wide(congestion, loss);
                let mean = run.mean_reduction(seconds);
                println!("{congestion}, {:?}, seed {}: {mean:.3} of the window", run.loss, run.seed);
                // The minimum of two segments exceeds the share at one loss in twenty.
                let most = if n == 20 { 0.1 } else { 0.02 };
                assert!((-0.02..=most).contains(&(mean - beta)), "{congestion}, {:?}: {mean:.3}", run.loss);
            }
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn mean_windows_at_loss_of_1e5() {
    let (n, p) = (100_000, 1e-5);
    assert_window(Algorithm::Reno, at_equal_distances(n), reno_model(p), 3000.0);
    assert_window(Algorithm::Cubic, at_equal_distances(n), cubic_model(p), 1000.0);
    assert_window(Algorithm::Cubic, at_random(n), cubic_rounds(p, 1), 3000.0);
}

/// Share of the link's payload rate that BBR uses.
fn bbr_share(loss: f64) -> f64 {
    let rate: u64 = 50_000_000;
    // Queue of two bandwidth-delay products.
    let run = Transfer {
        rate,
        packet_size: 1472,
        queue: rate / 8 / 5,
        ..Transfer::wide(Algorithm::Bbr, Loss::Bernoulli(Probability::new(loss).unwrap()))
    };
    let (mut simulation, sender) = run.simulation();
    simulation.run_until(Duration::from_secs(10));
    let before = simulation.sender(sender).stats();
    simulation.run_until(Duration::from_secs(70));
    let after = simulation.sender(sender).stats();
    let time = after.last_ack_at.unwrap() - before.last_ack_at.unwrap();
    let payload = (after.bytes_acked - before.bytes_acked) as f64 * 8.0 / time.as_secs_f64();
    payload / (rate as f64 * run.mss() / 1472.0)
}

#[test]
fn bbr_fills_link_at_random_loss() {
    for loss in [0.0, 0.001, 0.01] {
        let share = bbr_share(loss);
        // Lost packets use the link and carry nothing.
        let model = 1.0 - loss;
        assert!((share / model - 1.0).abs() <= 0.05, "loss {loss}, seed 1: {share:.4} of the link");
    }
}

#[test]
fn slow_start_into_cubic_trajectory() {
    let run = Transfer {
        rate: 20_000_000,
        packet_size: 1472,
        queue: 250_000,
        ..Transfer::wide(Algorithm::Cubic, Loss::None)
    };
    let series = run.record(Duration::from_secs_f64(RTT), Duration::from_secs_f64(5.95));
    let mut table = String::from("second: window in packets at each tenth of it\n");
    for (second, windows) in series.cwnd.chunks(10).enumerate() {
        let packets = windows.iter().map(|bytes| format!(" {:3.0}", *bytes as f64 / run.mss()));
        writeln!(table, "{second}:{}", packets.collect::<String>()).unwrap();
    }
    assert_eq!(table, TRAJECTORY, "\n{table}");
}

/// Reference trajectory:
/// - Handshake of one RTT.
/// - Slow start doubles ten packets of the smallest size, which are eight of the size that path MTU
///   discovery then finds. Beyond the path's 172 packets, `HyStart++` slows it, after the first
///   eight ACKs of a round.
/// - Two reductions by 0.7, because the first leaves about the capacity of path and queue (170
///   packets).
/// - The concave part of the cubic function.
const TRAJECTORY: &str = "\
second: window in packets at each tenth of it
0:   0   0   8  16  31  61 121 238 362 405
1: 304 304 304 304 306 311 316 321 326 331
2: 336 340 345 349 353 357 361 253 253 253
3: 254 258 261 263 266 269 271 273 275 278
4: 280 282 284 285 287 289 290 291 293 294
5: 295 296 297 298 299 300 301 302 302 303
";
