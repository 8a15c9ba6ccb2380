//! Equal seeds give equal runs, event for event; other seeds give other runs.

use std::time::Duration;

use rdt::sim::Scenario;

const LIMIT: Duration = Duration::from_secs(10_000);

fn presets() -> Vec<Scenario> {
    let base = Scenario::default();
    vec![
        base.clone(),
        Scenario { loss_forward: 0.1, loss_reverse: 0.1, window: 64, buffer: 100, ..base.clone() },
        Scenario { speed_bps: 1e6, buffer: 4, window: 40, ..base.clone() },
        Scenario { loss_forward: 0.3, rtt_s: 0.0, packet_size: 100, ..base.clone() },
        Scenario { window: 1000, speed_bps: 10e9, rtt_s: 0.01, bytes: 4 << 20, loss_reverse: 0.2, ..base },
    ]
}

#[test]
fn presets_repeat_exactly() {
    for scenario in presets() {
        let (a, b) = (scenario.run(LIMIT), scenario.run(LIMIT));
        assert_eq!((a.hash, a.datagrams, a.elapsed), (b.hash, b.datagrams, b.elapsed), "{scenario:?}");
        assert_eq!(a.outcome, b.outcome);
        assert_eq!(a.server.forward, b.server.forward);
    }
}

#[test]
fn seed_changes_only_random_runs() {
    for scenario in presets() {
        let other = Scenario { seed: scenario.seed + 1, ..scenario.clone() };
        let chance = scenario.loss_forward + scenario.loss_reverse > 0.0;
        let same = scenario.run(LIMIT).hash == other.run(LIMIT).hash;
        assert_eq!(same, !chance, "{scenario:?}");
    }
}

#[test]
fn losses_are_independent_of_delay_and_rate() {
    // One packet at a time: packet n of the link is packet n of the transfer until the first loss.
    // So the first loss hits the same packet on any link.
    let first_resent = |rtt_s: f32, speed_bps: f32| {
        let scenario = Scenario {
            window: 1,
            loss_forward: 0.05,
            rtt_s,
            speed_bps,
            bytes: 1464 * 200,
            ..Scenario::default()
        };
        let (mut simulation, sender, _) = scenario.prepare();
        let mut step = Duration::ZERO;
        loop {
            step += Duration::from_secs_f32(rtt_s / 4.0 + 0.001);
            simulation.run_until(step);
            let stats = simulation.sender(sender).stats();
            if stats.timeouts > 0 {
                return stats.snd_una;
            }
            assert!(step < Duration::from_secs(3600), "5 % of 200 packets are lost");
        }
    };
    let reference = first_resent(0.1, 1e9);
    assert_eq!(first_resent(1.0, 1e9), reference);
    assert_eq!(first_resent(0.02, 1e6), reference);
}
