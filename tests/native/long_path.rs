//! Paths with an RTT above the handshake timeout, emulated by the receiver. The cookie precedes the
//! emulated link, so its RTT is not that of the path. Without loss no packet is sent again.

use rdt::transport::wire::native::LinkRequest;

use super::*;

#[test]
fn slow_start_fills_600_ms_path_quickly() {
    // 20 MB at 25 Mbit/s take 6.4 s, the handshake two RTTs of 0.6 s, and the FIN one.
    let run = Run::new(25_000_000, ms(600)).bytes(20_000_000).forward(|link| link.overhead(IP_UDP));
    let done = run.clone().run();
    assert!(done.took <= Duration::from_millis(9187), "{:?}: {:?}", done.took, done.stats);
    assert_eq!(done.stats.retransmitted, 0, "{:?}", done.stats);
    // With a queue of a hundred packets.
    let tenth = run.queue(100).run();
    assert!(tenth.took <= ms(10_600), "{:?}: {:?}", tenth.took, tenth.stats);
    assert!(tenth.stats.retransmitted < 1500, "{:?}", tenth.stats);
}

/// `HyStart++` slows down when eight samples show a longer RTT, which come early in each round.
#[test]
fn cubic_leaves_slow_start_soon() {
    // 833 packets in flight, and as many in the queue. With 16 ACKs a window, 1717 are lost.
    let cubic = SenderConfig { congestion: Algorithm::Cubic, ..SenderConfig::native(7) };
    let done = Run::new(100_000_000, ms(100)).queue(833).bytes(25_000_000).config(cubic).run();
    assert!(done.stats.lost < 1400, "{:?}", done.stats);
}

#[test]
fn default_window_holds_125_megabytes() {
    let run = Run::new(2_000_000_000, ms(500)).bytes(u64::MAX / 2);
    let mut running = run.forward(|link| link.overhead(IP_UDP)).start();
    running.simulation.run_until(secs(6));
    let acked = |running: &Running| running.simulation.sender(running.sender).stats().bytes_acked;
    let before = acked(&running);
    running.simulation.run_until(secs(7));
    let mbps = (acked(&running) - before) as f64 * 8.0 / 1e6;
    assert!(mbps >= 0.9 * 0.9627 * 2000.0, "{mbps} Mbit/s in the seventh second");
}

#[test]
fn emulated_link_rtt_is_measured_before_loss_detection() {
    for rtt in [ms(999), ms(1500), ms(2500), secs(8)] {
        for (mbps, bytes) in [(100, 300_000), (10, 300_000), (10, 1000), (10, 3_000_000)] {
            let link = LinkRequest {
                rtt_us: u32::try_from(rtt.as_micros()).unwrap(),
                rate_bps: mbps * 1_000_000,
                loss_forward_ppb: 0,
                loss_reverse_ppb: 0,
                queue_bytes: 10_000_000,
            };
            let config = SenderConfig { link_request: Some(link), ..SenderConfig::native(7) };
            let server = ServerConfig::new(receiver(), LinkMode::Emulated { seed: 1 });
            let mut simulation = Simulation::new();
            let server = simulation.add_server(server);
            let near = PathConfig::symmetric(Duration::from_micros(100), Bitrate::from_bps(10_000_000_000));
            let wire = simulation.add_wire(Path::new(near, 1));
            let sender = simulation.add_sender(config, server, bytes).unwrap();
            simulation.route(sender, server, wire);
            assert!(simulation.run_senders(secs(600)), "{rtt:?}, {mbps} Mbps, {bytes} bytes");
            let stats = simulation.sender(sender).stats();
            let resent = (stats.retransmitted, stats.timeouts, stats.spurious, stats.lost);
            assert_eq!(resent, (0, 0, 0, 0), "{rtt:?}, {mbps} Mbps, {bytes} bytes: {stats:?}");
            let range = Some(rtt)..Some(rtt + ms(20));
            assert!(range.contains(&stats.min_rtt), "{rtt:?}, {mbps} Mbps: {stats:?}");
        }
    }
}
