//! Many senders on one server, in virtual time.

use std::time::Duration;

use rdt::sim::{Outcome, Scenario, Simulation};

#[test]
fn concurrent_senders_keep_their_own_links() {
    let mut simulation = Simulation::new();
    let server = simulation.add_server(Scenario::default().server_config());
    let senders: Vec<_> = (0..64_u16)
        .map(|i| {
            let scenario = Scenario {
                window: 8 + u32::from(i),
                rtt_s: 0.01 * f32::from(i),
                loss_forward: 0.002 * f32::from(i),
                buffer: 100,
                ..Scenario::default()
            };
            simulation.add_sender(scenario.sender_config(), server, 4 << 14).unwrap()
        })
        .collect();
    assert!(simulation.run_senders(Duration::from_secs(10_000)), "all end");
    for id in &senders {
        let node = simulation.sender(*id);
        assert_eq!(node.outcome, Outcome::Finished { crc: Some(0xFC19_A074) }, "{id:?}");
        let transfer = &simulation.server(server).transfers[id];
        assert!(transfer.intact && transfer.bytes == 4 << 14, "{transfer:?}");
    }
    // Handshakes show that every peer had its own delay.
    for (i, id) in senders.iter().enumerate().skip(1) {
        let rtt = simulation.sender(*id).stats().handshake_rtt.unwrap().as_secs_f64();
        assert!((rtt - 0.01 * i as f64).abs() < 0.001, "sender {i}: {rtt}");
    }
    let stats = simulation.server(server).server.stats();
    assert_eq!((stats.classic.admitted, stats.classic.max_active), (64, 64));
    assert!(stats.forward.balances() && stats.reverse.balances());
    assert!(stats.connections.max_memory > 0, "memory is reported");
    assert!(stats.connections.max_memory + stats.max_link_memory < 64 * 100 * 2 * 1472, "{stats:?}");
}

#[test]
fn idle_timeout_frees_peer_and_settles_link() {
    let (mut simulation, sender, server) = Scenario::default().prepare();
    assert!(simulation.run_senders(Duration::from_secs(100)));
    assert!(matches!(simulation.sender(sender).outcome, Outcome::Finished { .. }));
    let end = simulation.elapsed();
    simulation.run_until(end + Duration::from_secs(20));
    assert_eq!(simulation.server(server).server.classic().active(), 1);
    simulation.run_until(end + Duration::from_secs(30));
    let node = simulation.server(server);
    assert_eq!((node.server.classic().active(), node.server.memory()), (0, 0));
    assert_eq!(node.server.stats().forward.sent, 47, "SYN, 45 packets, FIN");
}

#[test]
fn rtt_above_idle_timeout_does_not_end_transfer() {
    let scenario = Scenario { rtt_s: 29.5, bytes: 3000, ..Scenario::default() };
    let report = scenario.run(Duration::from_secs(1000));
    assert!(matches!(report.outcome, Outcome::Finished { .. }), "{report:?}");
}
