use super::*;
use rdt::Observer;
use rdt::emulator::{Direction, Discipline, LinkConfig, Loss, Marking, Probability, WifiConfig};
use rdt::sim::{Mark, Marks, Recorder, Source};

/// Run with three transfers. With `watched` everything is measured.
fn run(config: &PathConfig, watched: bool) -> (u64, u64) {
    let mut shared = Shared::new(config.clone());
    let senders = [1, 2, 3].map(|n| shared.add(reno(), Application::transfer(n * 1_000_000)));
    if watched {
        for direction in [Direction::Forward, Direction::Reverse] {
            shared.simulation.sample_queue(shared.wire, direction, Duration::from_micros(700));
        }
        for sender in senders {
            let limits = shared.simulation.measure_limits(sender);
            let epoch = shared.simulation.epoch();
            let observers: Vec<Box<dyn Observer>> =
                vec![Box::new(limits), Box::new(Recorder::new(epoch, ms(25))), Box::new(Marks::new(epoch))];
            shared.simulation.sender_mut(sender).observe(Box::new(observers));
        }
    }
    shared.finish();
    (shared.simulation.hash(), shared.simulation.datagrams())
}

#[test]
fn measuring_changes_no_run() {
    let wifi = LinkConfig::new(None, ms(5)).wifi(WifiConfig::g());
    let wifi = PathConfig::from(LinkConfig { queue: QueueLimit::packets(50), ..wifi });
    let mut configs = vec![wifi];
    for discipline in ["drop-tail", "drop-head", "codel", "red", "pie"] {
        let mut config = path(10_000_000, ms(20));
        config.forward.discipline = discipline.parse::<Discipline>().unwrap();
        config.forward.loss = Loss::Bernoulli(Probability::new(0.005).unwrap());
        configs.push(config);
    }
    for config in configs {
        assert_eq!(run(&config, false), run(&config, true), "{config:?}, seed {}", seed());
    }
}

#[test]
fn queue_samples_follow_model() {
    // A burst of 10 packets of 1250 bytes each 100 ms at 10 Mbit/s: one is served each millisecond.
    for discipline in ["drop-tail", "drop-head", "codel", "red", "pie"] {
        let mut config = path(10_000_000, ms(20));
        config.forward.discipline = discipline.parse::<Discipline>().unwrap();
        let mut simulation = Simulation::new();
        let wire = simulation.add_wire(Path::new(config, seed()));
        let sink = simulation.add_sink();
        let source = Source { start: ms(10), packets: Some(2), ..Source::constant(100_000, 1250) };
        for _ in 0..10 {
            let source = simulation.add_source(source, sink);
            simulation.route(source, sink, wire);
        }
        simulation.sample_queue(wire, Direction::Forward, Duration::from_micros(500));
        simulation.run_until(ms(300));
        let series = simulation.queue_series(wire, Direction::Forward).unwrap();
        assert_eq!(series.queued.len(), 601);
        let packets: Vec<u64> = series.queued[20..42].iter().map(|queued| queued.packets).collect();
        // Before the burst, in it, then one less after each millisecond. A packet that starts at
        // the time of the sample does not wait.
        let expected = [0, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0];
        assert_eq!(packets, expected, "{discipline}");
        assert!(series.queued.iter().all(|queued| queued.bytes == queued.packets * 1250), "{discipline}");
    }
}

#[test]
fn marks_agree_with_counters() {
    let mut config = path(10_000_000, ms(20));
    config.forward.loss = Loss::Bernoulli(Probability::new(0.03).unwrap());
    config.forward.marking = Some(Marking::above(QueueLimit::packets(20)));
    let mut shared = Shared::new(config);
    let sender = shared.add(SenderConfig { ecn: true, ..reno() }, Application::transfer(3_000_000));
    let marks = Marks::new(shared.simulation.epoch());
    shared.simulation.sender_mut(sender).observe(Box::new(marks.clone()));
    shared.finish();
    let (marks, stats) = (marks.marks(), shared.simulation.sender(sender).stats());
    let count = |mark| marks.iter().filter(|(_, other)| *other == mark).count() as u64;
    let note = format!("{stats:?}, seed {}", shared.seed);
    assert_eq!(count(Mark::FastRetransmit), stats.recoveries, "{note}");
    assert_eq!(count(Mark::EcnReduced), stats.ecn_reductions, "{note}");
    assert_eq!(count(Mark::SpuriousUndone), stats.spurious, "{note}");
    assert_eq!(count(Mark::Retransmission), stats.retransmitted, "{note}");
    assert!(count(Mark::Timeout) >= stats.timeouts, "{note}");
    assert!(stats.recoveries > 5, "{note}");
    let episodes = count(Mark::FastRetransmit) + count(Mark::TimeoutRecovery);
    let ended = count(Mark::Recovered) + count(Mark::SpuriousUndone);
    assert!(ended <= episodes && episodes <= ended + count(Mark::TimeoutRecovery) + 1, "{note}");
    assert!(marks.is_sorted_by_key(|(at, _)| *at), "{note}");
}
