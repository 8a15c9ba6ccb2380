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
    let run = fifty().queue(5).config(native(Algorithm::Bbr));
    let mut simulation = Simulation::new();
    let server = simulation.add_server(server_config(receiver()));
    let wire = simulation.add_wire(Path::new(run.path.clone(), run.seed));
    for connection_id in 0..4 {
        let config = SenderConfig::native(connection_id);
        let sender = simulation.add_sender(config, server, u64::MAX / 2).unwrap();
        simulation.route(sender, server, wire);
    }
    simulation.run_until(secs(30));
    let Ledger { sent, dropped_queue, .. } = *simulation.wire(wire).forward.ledger();
    let share = dropped_queue as f64 / sent as f64;
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
