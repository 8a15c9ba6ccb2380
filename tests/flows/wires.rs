use super::*;
use rdt::emulator::Ledger;
use rdt::sim::Source;

/// 20 Mbit/s and 5 ms each way, then 8 Mbit/s and 7 ms each way.
fn two_wires(simulation: &mut Simulation) -> [WireId; 2] {
    [path(20_000_000, ms(10)), path(8_000_000, ms(14))]
        .map(|path| simulation.add_wire(Path::new(path, seed())))
}

fn ledgers(simulation: &Simulation, wires: [WireId; 2]) -> [Ledger; 4] {
    let [first, second] = wires.map(|wire| simulation.wire(wire));
    let ledgers =
        [first.forward.ledger(), second.forward.ledger(), second.reverse.ledger(), first.reverse.ledger()];
    ledgers.map(|ledger| {
        assert!(ledger.balances(), "{ledger:?}");
        *ledger
    })
}

#[test]
fn series_has_slower_rate_and_both_delays() {
    let mut simulation = Simulation::new();
    let wires = two_wires(&mut simulation);
    let sink = simulation.add_sink();
    let source = simulation.add_source(Source::constant(10_000_000, 1000), sink);
    simulation.route_over(source, sink, &wires);
    simulation.record_arrivals(sink, ms(100));
    simulation.run_until(Duration::from_secs(10));
    let arrived = &simulation.sink(sink).sources[&source];
    assert_eq!(arrived.min_delay, Duration::from_micros(12_000 + 400 + 1000));
    assert_eq!(arrived.goodput.as_ref().unwrap().bytes()[50], 100_000);
    let [first, second, ..] = ledgers(&simulation, wires);
    assert_eq!((first.sent, first.dropped_queue), (simulation.source(source).sent, 0));
    assert_eq!((first.delivered, second.delivered), (second.sent, arrived.packets));
    assert_eq!(
        simulation.drops(source, sink),
        [(wires[1], rdt::emulator::DropCause::QueueFull, second.dropped_queue)]
    );
    assert!(second.dropped_queue > 2000, "{second:?}");
}

#[test]
fn transfer_passes_wires_both_ways() {
    for reverse in [false, true] {
        let mut shared = Shared::new(path(1, ms(1)));
        let wires = two_wires(&mut shared.simulation);
        let application = Application::transfer(1_000_000);
        let sender = shared.simulation.add_application(reno(), shared.server, application).unwrap();
        if reverse {
            shared.simulation.route_over(shared.server, sender, &wires);
        } else {
            shared.simulation.route_over(sender, shared.server, &wires);
        }
        shared.finish();
        assert_eq!(shared.delivered(sender), 1_000_000);
        let rtt = shared.simulation.sender(sender).stats().min_rtt.unwrap();
        // Two small packets, or a full one and an ACK, pass two wires.
        assert!(rtt > ms(24) && rtt < ms(27), "{rtt:?}");
        let took = shared.simulation.elapsed();
        assert!(took > ms(1000) && took < ms(1300), "8 Mbit/s carry 1 MB in 1 s: {took:?}");
        shared.simulation.run_until(took + ms(100));
        let ledgers = ledgers(&shared.simulation, wires);
        assert_eq!(ledgers[0].delivered, ledgers[1].sent);
        assert_eq!(ledgers[2].delivered, ledgers[3].sent);
        let to_server = if reverse { ledgers[3].delivered } else { ledgers[1].delivered };
        assert_eq!(shared.simulation.server(shared.server).server.stats().connections.received, to_server);
    }
}

#[test]
#[should_panic(expected = "uses a wire once")]
fn route_rejects_repeated_wire() {
    let mut simulation = Simulation::new();
    let [first, _] = two_wires(&mut simulation);
    let sink = simulation.add_sink();
    let source = simulation.add_source(Source::constant(1_000_000, 1000), sink);
    simulation.route_over(source, sink, &[first, first]);
}
