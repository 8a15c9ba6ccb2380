//! Heavy loss both ways, unordered jitter, and sudden growth of the RTT. The full tables with their
//! targets: `cargo bench --bench control -- heavy jitter changes`.

use rdt::emulator::Jitter;

use super::*;

fn fifty() -> Run {
    Run::new(50_000_000, ms(40))
}

#[test]
fn bbr_sustains_rate_at_30_percent_loss() {
    for (loss, asked) in [(0.1, 0.9), (0.2, 0.75), (0.3, 0.5)] {
        let run = fifty().loss_both_ways(&bernoulli(loss)).config(native(Algorithm::Bbr));
        let done = run.run_for(secs(20));
        let share = done.goodput() / (50e6 * (1.0 - loss) * 1432.0 / 1472.0);
        eprintln!("{:.0} %: {share:.3}, {} timeouts", loss * 100.0, done.stats.timeouts);
        assert!(share >= asked, "{loss}: {share}: {:?}", done.stats);
        assert_eq!(done.stats.timeouts, 0, "{:?}", done.stats);
    }
}

/// Four flows overflow a queue of five packets: none may mistake the drops for random loss of the
/// path.
#[test]
fn bbr_treats_rate_dependent_loss_as_congestion() {
    let share = drops(4, 5, 50_000_000, seed());
    eprintln!("{share:.3} of all packets found no room");
    assert!(share < 0.25, "{share}");
}

#[test]
fn transfers_finish_at_50_percent_loss() {
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        let run = fifty().bytes(200_000).loss_both_ways(&bernoulli(0.5)).config(native(congestion));
        for seed in seed()..seed() + 20 {
            Run { seed, ..run.clone() }.run();
        }
    }
}

#[test]
fn unordered_jitter_costs_no_rate() {
    let jitter = Jitter::normal(ms(10)).unordered();
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        for both in [false, true] {
            let run = fifty().forward(|link| link.jitter(jitter)).config(native(congestion));
            let run = if both { run.both_ways(|link| link.jitter(jitter)) } else { run };
            let done = run.run_for(secs(20));
            let stats = &done.stats;
            let episodes = stats.recoveries + stats.timeouts;
            eprintln!("{congestion}: {:.1} Mbps, {} of {episodes}", done.goodput() / 1e6, stats.spurious);
            assert!(done.goodput() >= 30e6, "{congestion}: {stats:?}");
            // The first RTTs may add one or two, before the reordering window has adapted.
            assert!(stats.spurious <= 2 + episodes / 20, "{congestion}: {stats:?}");
        }
    }
}

/// The RTT grows from 20 ms to 500 ms: no packet is lost, and the RTO fires too early.
#[test]
fn recovery_undoes_spurious_timeout() {
    for recovery in
        [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly]
    {
        for congestion in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
            let config = SenderConfig { recovery, packet_size: 1200, window: 30, ..native(congestion) };
            let run = Run::new(50_000_000, ms(20)).queue(1000).bytes(u64::MAX / 2).config(config);
            let mut running = run.start();
            running.simulation.run_until(secs(1));
            let before = running.simulation.sender(running.sender).stats();
            let long = Run::new(50_000_000, ms(500)).queue(1000).path;
            let long = running.simulation.add_wire(Path::new(long, 1));
            running.simulation.route(running.sender, running.server, long);
            running.simulation.run_until(secs(3));
            let after = running.simulation.sender(running.sender).stats();
            assert_eq!(before.timeouts, 0, "{recovery}, {congestion}: {before:?}");
            assert!(after.timeouts >= 1, "{recovery}, {congestion}: {after:?}");
            assert_eq!(after.spurious, 1, "{recovery}, {congestion}: {after:?}");
            assert!(after.cwnd >= before.cwnd, "{recovery}, {congestion}: {after:?}");
            assert_eq!(after.ssthresh, before.ssthresh, "{recovery}, {congestion}: {after:?}");
            // The next such delay causes no timeout (RFC 4015, section 3.2, step 9).
            assert!(after.rto >= ms(500), "{recovery}, {congestion}: {after:?}");
        }
    }
}

/// Payload rate in the first `time` over 10 Mbit/s with this loss each way, bits per second, and
/// the number of timeouts.
fn rate_of_ten(rtt: Duration, loss: f64, congestion: Algorithm, seed: u64, time: Duration) -> (f64, u64) {
    let run = Run { seed, ..Run::new(10_000_000, rtt) };
    let done = run.loss_both_ways(&bernoulli(loss)).config(native(congestion)).run_for(time);
    (done.stats.bytes_acked as f64 * 8.0 / time.as_secs_f64(), done.stats.timeouts)
}

#[test]
fn bbr_sustains_rate_at_50_percent_loss() {
    for rtt in [ms(40), ms(100)] {
        for (loss, asked) in [(0.4, 4e6), (0.5, 2e6)] {
            let (rate, timeouts) = rate_of_ten(rtt, loss, Algorithm::Bbr, seed(), secs(60));
            eprintln!("{rtt:?}, {loss}: {:.2} Mbit/s, {timeouts} timeouts", rate / 1e6);
            assert!(rate >= asked, "{rtt:?}, {loss}: {rate}");
        }
    }
}

/// For `RDT_SEEDS` seeds from `RDT_SEED` on, 5 by default.
#[test]
#[ignore = "prints a table, for minutes"]
fn rates_of_heavy_loss() {
    let seeds: u64 = env::var("RDT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    for rtt in [ms(40), ms(100)] {
        for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
            for loss in [0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6] {
                let measure = |seed| rate_of_ten(rtt, loss, congestion, seed, secs(60));
                let mut runs: Vec<_> = (seed()..seed() + seeds).map(measure).collect();
                runs.sort_by(|a, b| a.0.total_cmp(&b.0));
                let timeouts: u64 = runs.iter().map(|(_, timeouts)| timeouts).sum();
                let at = |index: usize| runs[index].0 / 1e6;
                let (least, median) = (at(0), at(runs.len() / 2));
                eprintln!(
                    "{rtt:?} {congestion} {loss}: n {seeds}, least {least:.3}, median {median:.3} Mbit/s, {timeouts} timeouts"
                );
            }
        }
    }
}

/// Returns the share of packets that flows over one short queue find no room for, in 30 s.
fn drops(flows: u64, queue: u32, bps: u64, seed: u64) -> f64 {
    let run = Run { seed, ..Run::new(bps, ms(40)).queue(queue) };
    let mut simulation = Simulation::new();
    let server = simulation.add_server(server_config(receiver()));
    let wire = simulation.add_wire(Path::new(run.path, seed));
    for connection_id in 0..flows {
        let config = SenderConfig::native(connection_id + 100 * seed);
        let sender = simulation.add_sender(config, server, u64::MAX / 2).unwrap();
        simulation.route(sender, server, wire);
    }
    simulation.run_until(secs(30));
    let Ledger { sent, dropped_queue, .. } = *simulation.wire(wire).forward.ledger();
    dropped_queue as f64 / sent as f64
}

/// Means of `RDT_SEEDS` seeds from 1 on, 3 by default.
#[test]
#[ignore = "prints a table, for minutes"]
fn drops_of_short_queues() {
    let seeds: u64 = env::var("RDT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for (flows, queue, mbps) in [(4, 5, 50), (4, 10, 50), (8, 5, 50), (16, 5, 50), (4, 5, 10)] {
        let sum: f64 = (1..=seeds).map(|seed| drops(flows, queue, mbps * 1_000_000, seed)).sum();
        let mean = sum / seeds as f64;
        eprintln!("{flows} flows, queue {queue}, {mbps} Mbit/s: n {seeds}, mean {mean:.3}");
    }
}
