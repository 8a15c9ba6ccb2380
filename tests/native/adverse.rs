//! Paths of the QUIC interop tests: 10 Mbps, 30 ms, a queue of 25 packets, with one impairment
//! each.

use rdt::emulator::Outage;

use super::*;

fn path() -> Run {
    Run::new(10_000_000, ms(30)).queue(25)
}

fn probability(share: f64) -> Probability {
    Probability::new(share).unwrap()
}

/// Virtual time in which all 50 transfers must end.
const LIMIT: Duration = secs(120);

/// Fifty concurrent transfers of 1 KiB over one wire, for ten seeds.
fn fifty_small_ones(change: impl Fn(Run) -> Run) {
    for seed in seed()..seed() + 10 {
        let run = Run { seed, ..change(path()) };
        let _note = PanicNote::new(&run, seed);
        let mut simulation = Simulation::new();
        let server = simulation.add_server(server_config(receiver()));
        let wire = simulation.add_wire(Path::new(run.path.clone(), seed));
        let senders: Vec<NodeId> = (0..50)
            .map(|index| {
                let config = SenderConfig::native(seed * 1000 + index);
                let sender = simulation.add_sender(config, server, 1024).unwrap();
                simulation.route(sender, server, wire);
                sender
            })
            .collect();
        simulation.run_senders(LIMIT);
        let mut times: Vec<Duration> = Vec::new();
        for (index, id) in senders.iter().enumerate() {
            let node = simulation.sender(*id);
            let received = simulation.server(server).transfers.get(id).cloned().unwrap_or_default();
            let stats = node.stats();
            assert!(node.outcome.is_finished(), "transfer {index}: {:?}, {stats:?}", node.outcome);
            assert!(received.intact && received.bytes == 1024, "transfer {index}: {received:?}");
            times.push(node.ended_at.unwrap() - simulation.epoch());
        }
        times.sort_unstable();
        let Ledger { dropped_queue, dropped_loss, corrupted, .. } = *simulation.wire(wire).forward.ledger();
        assert!(dropped_loss + corrupted > 50, "the wire was bad");
        eprintln!(
            "seed {seed}: 50 of 50; half within {:?}, all within {:?}; {dropped_loss} lost, {corrupted} corrupted, \
             {dropped_queue} found no room",
            times[24], times[49]
        );
    }
}

#[test]
fn fifty_small_transfers_survive_30_percent_loss() {
    fifty_small_ones(|run| run.loss_both_ways(&Loss::bounded(probability(0.3), 3)));
}

#[test]
fn fifty_small_transfers_survive_30_percent_corruption() {
    fifty_small_ones(|run| run.both_ways(|link| link.corrupt(probability(0.3))));
}

#[test]
fn transfer_with_2_percent_loss_is_fast() {
    for seed in seed()..seed() + 10 {
        let run = Run { seed, limit: secs(10), ..path().bytes(2 << 20).loss_both_ways(&bernoulli(0.02)) };
        let done = run.run();
        eprintln!("seed {seed}: {:?}, {} timeouts", done.took, done.stats.timeouts);
    }
}

#[test]
fn transfer_with_2_percent_corruption_is_fast() {
    for seed in seed()..seed() + 10 {
        let run = path().bytes(2 << 20).both_ways(|link| link.corrupt(probability(0.02)));
        let done = Run { seed, limit: secs(10), ..run }.run();
        assert!(done.forward.corrupted > 0 && done.reverse.corrupted > 0);
        eprintln!("seed {seed}: {:?}, {} timeouts", done.took, done.stats.timeouts);
    }
}

#[test]
fn periodic_outages_delay_transfer_within_bound() {
    // Outages begin at the start, within the handshake, after 1 s, and later.
    for offset in [0, 100, 1000, 2500, 5000] {
        let outage = Outage::periodic(secs(7), secs(2), ms(offset));
        let run = path().bytes(10 << 20).both_ways(|link| link.outage(outage.clone()));
        let done = Run { limit: secs(20), ..run }.run();
        eprintln!("offset {offset} ms: {:?}, {} timeouts", done.took, done.stats.timeouts);
    }
}

#[test]
fn long_rtt_causes_no_timeout() {
    for (bytes, limit) in [(1024, 12), (2 << 20, 30)] {
        let run = Run::new(10_000_000, ms(1500)).queue(25).bytes(bytes);
        let done = Run { limit: secs(limit), ..run }.run();
        eprintln!("{bytes} bytes: {:?}", done.took);
        assert_eq!((done.stats.spurious, done.stats.timeouts), (0, 0), "{:?}", done.stats);
        assert!(done.stats.min_rtt >= Some(ms(1500)), "{:?}", done.stats);
    }
}

#[test]
fn clean_path_exceeds_9_2_mbps() {
    for overhead in [0, IP_UDP] {
        let done = path().bytes(10 << 20).both_ways(|link| link.overhead(overhead)).run();
        eprintln!(
            "overhead {overhead}: {:.3} Mbps, {} resent",
            done.goodput() / 1e6,
            done.stats.retransmitted
        );
        assert!(done.goodput() >= 9.2e6, "{}", done.goodput());
    }
}
