//! Whole transfers over impaired links, in virtual time.

use std::time::Duration;

use rdt::emulator::{
    Bitrate, GilbertElliott, Jitter, Ledger, LinkConfig, Loss, Mtu, Outage, Path, PathConfig, Probability,
    QueueSize, Trace,
};
use rdt::sim::payload;
use rdt::sim::{LinkMode, Outcome, ServerConfig, Simulation};
use rdt::transport::LinkProperties;
use rdt::{ReceiverConfig, SenderConfig};

const BYTES: u64 = 300_000;
const LIMIT: Duration = Duration::from_secs(100_000);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn probability(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

/// 10 Mbit/s and 10 ms each way.
fn plain() -> LinkConfig {
    LinkConfig::new(Bitrate::from_bps(10_000_000), ms(10))
}

/// Transfers from two senders over one wire. Returns both ledgers and the hash of all events.
fn transfer(config: impl Into<PathConfig>, seed: u64) -> (Ledger, Ledger, u64) {
    let mut simulation = Simulation::new();
    let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
    let server = simulation.add_server(ServerConfig::new(receiver, LinkMode::None));
    let wire = simulation.add_wire(Path::new(config, seed));
    let link =
        LinkProperties { rtt_s: 0.02, speed_bps: 1e7, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
    let senders: Vec<_> = (0..2)
        .map(|_| {
            let sender = simulation.add_sender(SenderConfig::new(20, link), server, BYTES).unwrap();
            simulation.route(sender, server, wire);
            sender
        })
        .collect();
    assert!(simulation.run_senders(LIMIT), "seed {seed}: all end");
    simulation.run_until(simulation.elapsed() + ms(10_000));

    let mut bytes = vec![0; usize::try_from(BYTES).unwrap()];
    payload::fill(0, &mut bytes);
    let crc = crc32fast::hash(&bytes);
    for id in &senders {
        assert_eq!(simulation.sender(*id).outcome, Outcome::Finished { crc: Some(crc) }, "seed {seed}");
        let transfer = &simulation.server(server).transfers[id];
        assert!(transfer.intact && transfer.crc == Some(crc), "seed {seed}: {transfer:?}");
    }
    let path = simulation.wire(wire);
    let ledgers = [path.forward.ledger(), path.reverse.ledger()];
    for ledger in ledgers {
        assert!(ledger.balances(), "seed {seed}: {ledger:?}");
        assert_eq!(ledger.in_flight, 0, "seed {seed}");
    }
    assert_eq!(simulation.datagrams(), ledgers[0].delivered + ledgers[1].delivered, "seed {seed}");
    (*ledgers[0], *ledgers[1], simulation.hash())
}

#[test]
fn transfers_survive_all_impairments_and_repeat() {
    let bursts = Loss::GilbertElliott(GilbertElliott::all_or_nothing(probability(0.01), probability(0.4)));
    let everything = plain()
        .loss(bursts)
        .outage(Outage::periodic(ms(700), ms(50), ms(100)))
        .jitter(Jitter::normal(ms(1)).unordered())
        .reorder(probability(0.05), ms(15))
        .duplicate(probability(0.05));
    for seed in 0..10 {
        let first = transfer(everything.clone(), seed);
        let forward = &first.0;
        for (name, count) in [
            ("lost", forward.dropped_loss),
            ("duplicated", forward.duplicated),
            ("reordered", forward.reordered),
            ("met an outage", forward.dropped_outage),
        ] {
            assert!(count > 0, "seed {seed}: none {name}: {forward:?}");
        }
        assert_eq!(transfer(everything.clone(), seed), first, "seed {seed}");
    }
}

#[test]
fn duplicates_reach_the_original_destination() {
    let (forward, reverse, _) = transfer(plain().duplicate(Probability::ONE), 1);
    assert_eq!((forward.duplicated, forward.delivered), (forward.sent, 2 * forward.sent));
    assert_eq!((reverse.duplicated, reverse.delivered), (reverse.sent, 2 * reverse.sent));
}

#[test]
fn trace_link_carries_transfer_without_drops() {
    // One packet of 1472 bytes and 28 of overhead each millisecond, but none in the first 500 of
    // each second.
    let lines: Vec<_> = (501..=1_000).map(|millis: u32| millis.to_string()).collect();
    let trace = Trace::parse(&lines.join("\n")).unwrap();
    let forward = LinkConfig::new(None, ms(10)).trace(trace).overhead(28);
    let path = PathConfig::asymmetric(forward, LinkConfig::new(None, ms(10)));
    let path = path.queue_size(QueueSize::BdpMillionths(20_000_000));
    let (forward, ..) = transfer(path, 1);
    assert_eq!(forward.dropped_queue, 0);
    assert!(forward.delivered >= 2 * BYTES / 1_464);
}

#[test]
fn transfer_survives_one_second_outage() {
    let outage = Outage::once(ms(100), ms(1_100));
    let (forward, reverse, _) = transfer(plain().outage(outage), 1);
    assert!(forward.dropped_outage > 0);
    assert_eq!((forward.dropped_loss, reverse.dropped_loss), (0, 0));
}

#[test]
fn queue_disciplines_drop_deterministically() {
    // Two windows of 20 packets over a path that holds 17: some 23 packets wait, for 27 ms.
    for (text, dropped) in [
        ("drop-tail", [true, false, false]),
        ("drop-head", [false, true, false]),
        ("codel:target=5ms,interval=20ms", [false, false, true]),
        ("red:min=5kb,max=15kb,weight=0.1", [false, false, true]),
        ("pie:target=5ms,burst=0s,alpha=2,beta=20", [false, false, true]),
    ] {
        let queue = if dropped[2] { QueueSize::Packets(100) } else { QueueSize::Packets(10) };
        let forward = plain().queue_size(queue, ms(20)).discipline(text.parse().unwrap());
        let config = PathConfig::asymmetric(forward, plain());
        let (forward, _, hash) = transfer(config.clone(), 1);
        let counts = [forward.dropped_queue, forward.dropped_head, forward.dropped_aqm];
        assert_eq!(counts.map(|count| count > 0), dropped, "{text}: {forward:?}");
        assert_eq!(transfer(config, 1).2, hash, "{text}");
    }
}

#[test]
fn packets_above_mtu_have_their_own_counter() {
    // Below the MTU are SYN and FIN; full data packets pass only after it grows.
    let mtu = Mtu::new(600).then(ms(500), 1_500);
    let (forward, reverse, _) = transfer(plain().overhead(28).mtu(mtu), 1);
    assert!(forward.dropped_mtu > 0);
    assert_eq!((reverse.dropped_mtu, forward.dropped_loss), (0, 0));
}
