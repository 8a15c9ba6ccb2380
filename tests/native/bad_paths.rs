//! Heavy loss each way, unordered jitter, and round trips that become long at once. The whole tables, with what is asked:
//! `cargo bench --bench control -- heavy jitter changes`.

use rdt::emulator::Jitter;
use rdt::transport::Attempts;

use super::*;

fn fifty() -> Run {
    Run::new(50_000_000, ms(40))
}

#[test]
fn bbr_uses_paths_that_lose_a_third_each_way() {
    for (loss, asked) in [(0.1, 0.9), (0.2, 0.75), (0.3, 0.5)] {
        let run = fifty().loss_both_ways(&bernoulli(loss)).config(native(Algorithm::Bbr));
        let done = run.run_for(secs(20));
        let share = done.goodput() / (50e6 * (1.0 - loss) * 1444.0 / 1472.0);
        eprintln!("{:.0} %: {share:.3}, {} timeouts", loss * 100.0, done.stats.timeouts);
        assert!(share >= asked, "{loss}: {share}: {:?}", done.stats);
        assert_eq!(done.stats.timeouts, 0, "{:?}", done.stats);
    }
}

/// Four flows that a queue of five packets makes lose: none takes that for the path's own loss.
#[test]
fn loss_that_answers_to_the_rate_stays_congestion() {
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
fn half_of_all_packets_lost_delays_and_ends_nothing() {
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        let attempts = Attempts { syn: 90, data: u32::MAX, fin: 90 };
        let rto = RtoPolicy::Rfc6298 { min: ms(200), backoff_max: secs(2) };
        let config = SenderConfig { give_up: secs(100), rto, attempts, ..native(congestion) };
        let run = fifty().bytes(200_000).loss_both_ways(&bernoulli(0.5)).config(config);
        for seed in seed()..seed() + 20 {
            Run { seed, ..run.clone() }.run();
        }
    }
}

#[test]
fn unordered_jitter_is_learnt_and_costs_no_rate() {
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
            // In the first round trips one or two before it is known how late segments come.
            assert!(stats.spurious <= 2 + episodes / 20, "{congestion}: {stats:?}");
        }
    }
}

/// A round trip of 20 ms becomes one of 500 ms: nothing is lost, and the timer fires too early.
#[test]
fn every_rule_takes_a_spurious_timeout_back() {
    for recovery in
        [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly]
    {
        for congestion in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
            let config = SenderConfig { recovery, packet_size: 1200, window: 30, ..native(congestion) };
            let run = Run::new(50_000_000, ms(20)).queue(1000).bytes(u64::MAX / 2).config(config);
            let mut running = run.start();
            running.simulation.run_until(secs(1));
            let before = running.simulation.sender(running.sender).sender.stats();
            let long = Run::new(50_000_000, ms(500)).queue(1000).path;
            let long = running.simulation.add_wire(Path::new(long, 1));
            running.simulation.route(running.sender, running.server, long);
            running.simulation.run_until(secs(3));
            let after = running.simulation.sender(running.sender).sender.stats();
            assert_eq!(before.timeouts, 0, "{recovery}, {congestion}: {before:?}");
            assert!(after.timeouts >= 1, "{recovery}, {congestion}: {after:?}");
            assert_eq!(after.spurious, 1, "{recovery}, {congestion}: {after:?}");
            assert!(after.cwnd >= before.cwnd, "{recovery}, {congestion}: {after:?}");
            assert_eq!(after.ssthresh, before.ssthresh, "{recovery}, {congestion}: {after:?}");
            // The next such delay is no timeout (RFC 4015, section 3.2, step 9).
            assert!(after.rto >= ms(500), "{recovery}, {congestion}: {after:?}");
        }
    }
}
