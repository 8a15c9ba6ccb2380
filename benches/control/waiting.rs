//! Waiting times of transfers: for a stalled reader, during an outage, after a decrease of the MTU,
//! and in a handshake with heavy loss.

use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{GilbertElliott, Loss, Mtu, Outage, Path, PathConfig, Probability};
use rdt::sim::{LinkMode, ReadPolicy, ServerConfig, Simulation};
use rdt::transport::LossDetection;
use rdt::{ReceiverConfig, SenderConfig};

use crate::run::{Run, Running, native, path};
use crate::verdict;

const CONTROLLERS: [Algorithm; 3] = [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno];
const RULES: [LossDetection; 4] =
    [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
/// Resolution of the measured times.
const TICK: Duration = Duration::from_millis(10);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn table() {
    stalls();
    outages();
    shrinking_paths();
    handshakes();
    lossy_paths();
}

/// Prints, for a reader that stalls for 120 s, the number of zero-window probes, and the time from
/// its return to the first ACK of new data.
fn stalls() {
    const STALL: Duration = secs(120);
    const FROM: Duration = secs(2);
    println!(
        "\n| reader stalled for 120 s, 20 Mbit/s, 100 ms | packets | asked | goes on after, ms | asked |  |"
    );
    println!("|---|---|---|---|---|---|");
    for recovery in RULES {
        let config = SenderConfig { recovery, ..native(Algorithm::Bbr) };
        let mut running = start_small(config);
        running.simulation.set_read_policy(running.server, ReadPolicy::Stalled { from: FROM, length: STALL });
        let mut at = FROM + ms(50);
        loop {
            running.simulation.run_until(at);
            let stats = running.stats(0);
            // The receiver's window is full, so further packets are zero-window probes.
            if stats.snd_nxt - stats.snd_una <= 1500 || at > FROM + secs(2) {
                break;
            }
            at += TICK;
        }
        let before = sent(&running);
        running.simulation.run_until((FROM + STALL).saturating_sub(TICK));
        let probes = sent(&running) - before;
        let took = until_progress(&mut running, FROM + STALL);
        let met = verdict(probes <= 15 && took.is_some_and(|took| took <= ms(500)));
        println!("| {recovery} | {probes} | 15 | {} | 500 | {met} |", millis(took));
    }
}

/// Prints the time to recover after outages of both links.
fn outages() {
    const FROM: Duration = secs(5);
    println!("\n| outage, 10 Mbit/s, 40 ms | goes on after, ms (worst of bbr, cubic, reno) | asked |  |");
    println!("|---|---|---|---|");
    for length in [25, 60, 90] {
        for recovery in RULES {
            let mut worst = Some(Duration::ZERO);
            for congestion in CONTROLLERS {
                let config = SenderConfig { recovery, ..native(congestion) };
                let outage = Outage::once(FROM, FROM + secs(length));
                let run = Run::new(both_ways(10_000_000, ms(40), |link| link.outage(outage.clone())), config);
                let mut running = run.start();
                running.simulation.run_until(FROM + secs(length));
                let took = until_progress(&mut running, FROM + secs(length));
                worst = worst.zip(took).map(|(worst, took)| worst.max(took));
            }
            let met = verdict(worst.is_some_and(|worst| worst <= secs(2)));
            println!("| {length} s, {recovery} | {} | 2000 | {met} |", millis(worst));
        }
    }
}

/// Prints the durations of transfers whose MTU decreases after 2 s in both directions, with every
/// controller and recovery algorithm.
fn shrinking_paths() {
    // Base-only recovery repairs one segment each timeout: 0.23 s each for the 52 segments in
    // flight at the fall, and for the queue of 25 packets if each of ten bandwidth probes
    // overfills it. The search for the size and the sending take 20 s.
    const LIMIT: Duration = secs(120);
    println!(
        "\n| MTU after 2 s, 5 MB at 10 Mbit/s, 30 ms | finished of 12 | slowest, s | base-only, s | datagrams at the end |  |"
    );
    println!("|---|---|---|---|---|---|");
    for mtu in [1000, 600, 576] {
        let (mut finished, mut slowest, mut sizes) = (0, [Duration::ZERO; 2], Vec::new());
        for (seed, (congestion, recovery)) in (1..).zip(pairs()) {
            let config = SenderConfig { recovery, ..native(congestion) };
            let mtu = Mtu::new(1500).then(secs(2), mtu);
            let mut run = Run::new(both_ways(10_000_000, ms(30), |link| link.mtu(mtu.clone())), config);
            (run.bytes, run.seed) = (5_000_000, seed);
            let mut running = run.start();
            let _ = running.simulation.run_senders(LIMIT);
            let stats = running.stats(0);
            if running.has_finished(0) {
                finished += 1;
                let slowest = &mut slowest[usize::from(recovery == LossDetection::BaseOnly)];
                *slowest = running.simulation.elapsed().max(*slowest);
                sizes.push(stats.packet_size);
            }
        }
        let met = verdict(finished == 12);
        let (least, most) = (sizes.iter().min().unwrap_or(&0), sizes.iter().max().unwrap_or(&0));
        let [slowest, base_only] = slowest.map(|time| time.as_secs_f64());
        println!("| {mtu} | {finished} | {slowest:.1} | {base_only:.1} | {least} to {most} | {met} |");
    }
}

/// Starts an endless sender to a receiver with a window of 256 KiB, over 20 Mbit/s and 100 ms.
fn start_small(config: SenderConfig) -> Running {
    let mut simulation = Simulation::new();
    let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
    let mut server = ServerConfig::new(receiver, LinkMode::None);
    server.receiver.stream_window.max = 256 << 10;
    let server = simulation.add_server(server);
    let sender = simulation.add_sender(config, server, u64::MAX / 2).expect("the configuration is valid");
    let wire = simulation.add_wire(Path::new(path(20_000_000, ms(100), 1.0), 1));
    simulation.route(sender, server, wire);
    Running { simulation, server, senders: vec![sender], wire }
}

fn sent(running: &Running) -> u64 {
    running.simulation.wire(running.wire).forward.ledger().sent
}

/// Returns the time from `from`, which must be now, to the next advance of the cumulative ACK;
/// `None` without one.
fn until_progress(running: &mut Running, from: Duration) -> Option<Duration> {
    let before = running.stats(0).bytes_acked;
    let mut at = from;
    while at < from + secs(60) {
        at += TICK;
        running.simulation.run_until(at);
        if running.stats(0).bytes_acked > before {
            return Some(at.saturating_sub(from));
        }
    }
    None
}

fn pairs() -> impl Iterator<Item = (Algorithm, LossDetection)> {
    CONTROLLERS.into_iter().flat_map(|congestion| RULES.map(|recovery| (congestion, recovery)))
}

/// Prints the durations of handshakes with 50 % loss in both directions.
fn handshakes() {
    println!("\n| handshakes at 50 % loss each way, 40 ms | within 60 s | asked | slowest, s |  |");
    println!("|---|---|---|---|---|");
    for (runs, asked) in [(50_u64, 50_u64), (1000, 1000)] {
        let (mut done, mut slowest) = (0, Duration::ZERO);
        for seed in 1..=runs {
            let half = Probability::new(0.5).expect("a half is a probability");
            let path = both_ways(50_000_000, ms(40), |link| link.loss(Loss::Bernoulli(half)));
            let mut run = Run::new(path, native(Algorithm::Bbr));
            (run.bytes, run.seed) = (1000, seed);
            let mut running = run.start();
            let mut at = Duration::ZERO;
            let sender = running.senders[0];
            let is_open = |running: &Running| running.simulation.sender(sender).connection().aead.is_some();
            while at < secs(180) && !is_open(&running) {
                at += ms(100);
                running.simulation.run_until(at);
            }
            done += u64::from(is_open(&running) && at <= secs(60));
            slowest = slowest.max(at);
        }
        let met = verdict(done >= asked);
        println!("| {runs} | {done} | {asked} | {:.1} | {met} |", slowest.as_secs_f64());
    }
}

/// Prints how many transfers of 1 MB complete with loss so heavy that a sender could give up.
fn lossy_paths() {
    const RUNS: u64 = 100;
    let half = |p| Loss::Bernoulli(Probability::new(p).expect("a probability"));
    let bursts = Loss::GilbertElliott(GilbertElliott {
        p: Probability::new(0.001).expect("a probability"),
        r: Probability::new(0.05).expect("a probability"),
        loss_good: Probability::default(),
        loss_bad: Probability::new(1.0).expect("a probability"),
    });
    println!("\n| loss each way, 1 MB at 50 Mbit/s, 40 ms | finished | asked | slowest, s |  |");
    println!("|---|---|---|---|---|");
    for (name, loss) in [("30 %", half(0.3)), ("50 %", half(0.5)), ("bursts of 20, 0.1 %", bursts)] {
        for congestion in CONTROLLERS {
            let (mut finished, mut slowest) = (0, Duration::ZERO);
            for seed in 1..=RUNS {
                let path = both_ways(50_000_000, ms(40), |link| link.loss(loss.clone()));
                let mut run = Run::new(path, native(congestion));
                (run.bytes, run.seed) = (1_000_000, seed);
                let mut running = run.start();
                let _ = running.simulation.run_senders(secs(36_000));
                finished += u64::from(running.has_finished(0));
                slowest = slowest.max(running.simulation.elapsed());
            }
            let met = verdict(finished == RUNS);
            println!("| {name}, {congestion} | {finished} | {RUNS} | {:.0} | {met} |", slowest.as_secs_f64());
        }
    }
}

fn both_ways(
    bps: u64,
    rtt: Duration,
    change: impl Fn(rdt::emulator::LinkConfig) -> rdt::emulator::LinkConfig,
) -> PathConfig {
    let mut path = path(bps, rtt, 1.0);
    path.forward = change(path.forward);
    path.reverse = change(path.reverse);
    path
}

fn millis(took: Option<Duration>) -> String {
    took.map_or_else(|| "never".to_owned(), |took| took.as_millis().to_string())
}
