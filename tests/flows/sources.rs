use super::*;
use rdt::emulator::{CoDelConfig, Discipline, DropCause, LinkConfig, Loss, Probability};
use rdt::sim::{Arrivals, Source};

/// Ethernet at 100 Mbit/s: 28 bytes of IP and UDP, 38 of frame, preamble and gap.
fn ethernet(queue: u64, delay: Duration) -> LinkConfig {
    let link = LinkConfig::new(Bitrate::from_bps(100_000_000), delay);
    LinkConfig {
        overhead: 28,
        framing: 38,
        queue: QueueLimit::packets(u32::try_from(queue).unwrap()),
        ..link
    }
}

/// Datagrams of iperf at 10 Mbit/s.
fn iperf(start: Duration) -> Source {
    Source { start, ..Source::constant(10_000_000, 1470) }
}

#[test]
fn every_datagram_has_a_place() {
    for (discipline, arrivals) in [
        (Discipline::DropTail, Arrivals::Constant { bps: 12_000_000 }),
        (Discipline::DropTail, Arrivals::Poisson { bps: 9_900_000, seed: seed() }),
        (Discipline::DropHead, Arrivals::OnOff { bps: 40_000_000, on: ms(50), off: ms(150) }),
        (Discipline::CoDel(CoDelConfig::default()), Arrivals::Constant { bps: 12_000_000 }),
    ] {
        let mut config = path(10_000_000, ms(20));
        config.forward.discipline = discipline;
        config.forward.loss = Loss::Bernoulli(Probability::new(0.01).unwrap());
        config.forward.duplicate = Probability::new(0.01).unwrap();
        let mut simulation = Simulation::new();
        let wire = simulation.add_wire(Path::new(config, seed()));
        let sink = simulation.add_sink();
        let stop = Some(Duration::from_secs(20));
        let config = Source { arrivals, stop, ..Source::constant(1, 1000) };
        let source = simulation.add_source(config, sink);
        simulation.route(source, sink, wire);
        simulation.record_arrivals(sink, ms(25));
        simulation.run_until(Duration::from_secs(21));
        let (arrived, ledger) =
            (&simulation.sink(sink).sources[&source], simulation.wire(wire).forward.ledger());
        let drops = simulation.drops(source, sink);
        let dropped: u64 = drops.iter().map(|(_, _, count)| count).sum();
        let sent = simulation.source(source).sent;
        let note = format!("{arrivals:?}, {drops:?}, seed {}", seed());
        assert_eq!(sent + ledger.duplicated, arrived.packets + dropped, "{note}");
        assert_eq!(drops[0], (wire, DropCause::Loss, ledger.dropped_loss), "{note}");
        assert!(drops.len() > 1 || matches!(arrivals, Arrivals::Poisson { .. }), "{note}");
        assert_eq!(arrived.goodput.as_ref().unwrap().total(), arrived.bytes, "{note}");
        assert_eq!(arrived.bytes, arrived.packets * 1000, "{note}");
    }
}

#[test]
fn constant_source_sends_exact_rate_without_jitter() {
    let mut simulation = Simulation::new();
    let wire = simulation.add_wire(Path::new(PathConfig::from(ethernet(64, ms(5))), seed()));
    let sink = simulation.add_sink();
    let source = simulation.add_source(Source { stop: Some(ms(60_005)), ..iperf(ms(5)) }, sink);
    simulation.route(source, sink, wire);
    simulation.run_until(Duration::from_secs(61));
    let arrived = &simulation.sink(sink).sources[&source];
    // 10 Mbit/s for 60 s are 51,020.4 datagrams of 1470 bytes.
    assert_eq!((simulation.source(source).sent, arrived.packets), (51_021, 51_021));
    assert!(arrived.jitter.seconds() < 1e-9, "the rounding of nanoseconds: {arrived:?}");
    // 1536 bytes at 100 Mbit/s, and 5 ms.
    assert_eq!(arrived.mean_delay(), Some(Duration::from_nanos(5_122_880)));
    assert!(arrived.longest_gap <= Duration::from_nanos(1_176_001));
    assert_eq!(arrived.reordered, 0);
}

/// Rates of a transfer and of datagrams at 10 Mbit/s in the last 20 of 30 s, Mbit/s. `device` is
/// the queue of the sending host, packets; `None`: each has a host of its own.
fn beside(sources: usize, device: Option<u64>) -> (f64, Vec<f64>) {
    let router = PathConfig::from(ethernet(64, ms(1)));
    let mut shared = Shared::new(router);
    let Shared { simulation, server, wire, .. } = &mut shared;
    let mut wires = vec![*wire];
    if let Some(queue) = device {
        wires.insert(
            0,
            simulation.add_wire(Path::new(PathConfig::from(ethernet(queue, Duration::ZERO)), seed())),
        );
    }
    let sender = simulation.add_application(reno(), *server, Application::default()).unwrap();
    simulation.route_over(sender, *server, &wires);
    let sink = simulation.add_sink();
    let ids: Vec<NodeId> = (0..sources)
        .map(|n| {
            let send_buffer = device.map(|_| 48);
            let source = Source { send_buffer, ..iperf(Duration::from_micros(317 * n as u64)) };
            let id = simulation.add_source(source, sink);
            simulation.route_over(id, sink, &wires);
            id
        })
        .collect();
    simulation.record_arrivals(sink, ms(1000));
    simulation.run_until(Duration::from_secs(30));
    let mbit = |bytes: u64| bytes as f64 * 8.0 / 20e6;
    let of_source = |id: &NodeId| {
        let bins = simulation.sink(sink).sources[id].goodput.as_ref().unwrap();
        mbit(bins.bytes()[10..30].iter().sum())
    };
    let rates = ids.iter().map(of_source).collect();
    (mbit(shared.read(sender, ms(10_000), ms(30_000))), rates)
}

#[test]
fn datagrams_keep_rate_beside_transfer_in_router() {
    for sources in [1, 3] {
        let (transfer, rates) = beside(sources, None);
        let mss = reno().payload_size() as f64;
        let expected = (100.0 - 10.0 * 1536.0 / 1470.0 * sources as f64) * mss / (mss + 94.0);
        let note = format!("{transfer} of {expected}, {rates:?}, seed {}", seed());
        assert!((transfer / expected - 1.0).abs() < 0.03, "{note}");
        assert!(rates.iter().all(|rate| *rate > 9.9), "{note}");
    }
}

#[test]
fn full_device_queue_blocks_datagrams() {
    let (transfer, rates) = beside(1, Some(1000));
    let note = format!("{transfer}, {rates:?}, seed {}", seed());
    // 48 packets per passage of a queue between 500 and 1000 packets.
    assert!(rates[0] > 4.0 && rates[0] < 8.0, "{note}");
    assert!(transfer > 85.0, "{note}");
}

/// Four datagrams fill the send buffer for 48 ms; the fifth waits when the source stops.
#[test]
fn blocked_source_stops_with_a_datagram_waiting() {
    let mut simulation = Simulation::new();
    let slow = LinkConfig::new(Bitrate::from_bps(1_000_000), Duration::ZERO);
    let wire = simulation.add_wire(Path::new(PathConfig::from(slow), seed()));
    let sink = simulation.add_sink();
    let stop = Some(ms(10));
    let source = Source { stop, send_buffer: Some(4), ..Source::constant(10_000_000, 1500) };
    let source = simulation.add_source(source, sink);
    simulation.route(source, sink, wire);
    simulation.run_until(Duration::from_secs(1));
    let node = simulation.source(source);
    assert_eq!((node.sent, simulation.sink(sink).sources[&source].packets), (4, 4));
    // The fifth datagram is due after 4.8 ms.
    assert_eq!(node.blocked, Duration::from_micros(10_000 - 4_800));
}

/// 1718 bytes with the UDP header leave as 1448 and 270, each with 48 bytes of headers.
#[test]
fn datagram_without_one_of_its_pieces_is_lost() {
    for (rate, lossless) in [(10_000_000, true), (54_000_000, false)] {
        let mut simulation = Simulation::new();
        let link = LinkConfig::new(Bitrate::from_bps(25_000_000), Duration::ZERO);
        let config = LinkConfig { overhead: 48, queue: QueueLimit::packets(100), ..link };
        let wire = simulation.add_wire(Path::new(PathConfig::from(config), seed()));
        let sink = simulation.add_sink();
        let source =
            Source { header: 8, piece: Some(1448), stop: Some(ms(1000)), ..Source::constant(rate, 1710) };
        let source = simulation.add_source(source, sink);
        simulation.route(source, sink, wire);
        simulation.run_until(Duration::from_secs(2));
        let (sent, arrived) = (simulation.source(source).sent, &simulation.sink(sink).sources[&source]);
        let ledger = simulation.wire(wire).forward.ledger();
        assert_eq!((ledger.sent, arrived.bytes), (2 * sent, 1710 * arrived.packets), "seed {}", seed());
        assert_eq!(ledger.dropped_queue == 0, lossless);
        if lossless {
            assert_eq!(arrived.packets, sent);
        } else {
            // The link carries 14 MB/s of pieces, but most of them miss the other one.
            let whole = ledger.delivered / 2;
            assert!(arrived.packets * 2 < whole, "{} of {whole}, seed {}", arrived.packets, seed());
        }
    }
}
