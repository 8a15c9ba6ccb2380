//! Several senders on one wire in virtual time: their shares, drops, and the ledger of all packets.

use std::collections::BTreeMap;
use std::time::Duration;

use rdt::emulator::{
    Bitrate, Direction, Ledger, Link, LinkConfig, Loss, Path, PathConfig, Probability, QueueLimit,
};
use rdt::sim::payload;
use rdt::sim::{LinkMode, NodeId, Outcome, ServerConfig, Simulation, WireId};
use rdt::transport::LinkProperties;
use rdt::{ReceiverConfig, SenderConfig};

const RATE: u64 = 10_000_000;
const RTT: Duration = Duration::from_millis(20);
/// Payload and size of a full packet, bytes.
const PAYLOAD: u64 = 1464;
const PACKET: u64 = 1472;
/// Bandwidth-delay product: 10 Mbit/s for 20 ms is 17 packets.
const PIPE: u32 = 17;
const LIMIT: Duration = Duration::from_secs(10_000);

/// Wire with a queue of `queue` packets each way.
fn bottleneck(rate: u64, queue: u32) -> PathConfig {
    let mut config = PathConfig::symmetric(RTT, Bitrate::from_bps(rate));
    config.forward.queue = QueueLimit::packets(queue);
    config.reverse.queue = QueueLimit::packets(queue);
    config
}

/// Server without an emulated link.
fn server_config() -> ServerConfig {
    let receiver =
        ReceiverConfig { keep_payload: true, max_datagram: usize::MAX, ..ReceiverConfig::reference() };
    ServerConfig::new(receiver, LinkMode::None)
}

fn sender_config(window: u32) -> SenderConfig {
    let link =
        LinkProperties { rtt_s: 0.02, speed_bps: 1e7, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };
    SenderConfig::new(window, link)
}

/// Senders to one server, all over one wire.
struct Shared {
    simulation: Simulation,
    server: NodeId,
    senders: Vec<NodeId>,
    wire: WireId,
}

impl Shared {
    /// Adds one sender of `bytes` bytes for each of `windows`.
    fn new(config: PathConfig, seed: u64, windows: &[u32], bytes: u64) -> Self {
        let mut simulation = Simulation::new();
        let server = simulation.add_server(server_config());
        let wire = simulation.add_wire(Path::new(config, seed));
        let senders = windows
            .iter()
            .map(|&window| {
                let sender = simulation.add_sender(sender_config(window), server, bytes).unwrap();
                simulation.route(sender, server, wire);
                sender
            })
            .collect();
        Self { simulation, server, senders, wire }
    }

    fn forward(&self) -> &Ledger {
        self.simulation.wire(self.wire).forward.ledger()
    }

    fn reverse(&self) -> &Ledger {
        self.simulation.wire(self.wire).reverse.ledger()
    }

    /// Runs until every transfer has ended and the wire is empty. Checks that each transfer is
    /// complete and that the ledgers contain every datagram.
    fn finish(&mut self, bytes: u64) {
        assert!(self.simulation.run_senders(LIMIT), "all end");
        self.check_ledgers();
        self.simulation.run_until(self.simulation.elapsed() + Duration::from_secs(1));
        self.check_ledgers();
        assert_eq!((self.forward().in_flight, self.reverse().in_flight), (0, 0));

        let crc = crc_of_array(bytes);
        let (mut sent, mut received) = (0, 0);
        for id in &self.senders {
            let node = self.simulation.sender(*id);
            assert_eq!(node.outcome, Outcome::Finished { crc: Some(crc) }, "{id:?}");
            let transfer = &self.simulation.server(self.server).transfers[id];
            assert!(transfer.intact && transfer.bytes == bytes, "{id:?}: {transfer:?}");
            assert_eq!((transfer.crc, transfer.starts), (Some(crc), 1), "{id:?}");
            sent += node.stats().datagrams_sent;
            received += node.stats().datagrams_received;
        }
        let listener = self.simulation.server(self.server).server.stats().classic;
        assert_eq!((self.forward().sent, self.forward().delivered), (sent, listener.received));
        assert_eq!((self.reverse().sent, self.reverse().delivered), (listener.receivers.replies, received));
        assert_eq!(self.simulation.datagrams(), self.forward().delivered + self.reverse().delivered);
    }

    fn check_ledgers(&self) {
        for ledger in [self.forward(), self.reverse()] {
            assert!(ledger.balances(), "{ledger:?}");
            assert_eq!(
                ledger.sent,
                ledger.delivered + ledger.dropped_loss + ledger.dropped_queue + ledger.in_flight,
                "{ledger:?}"
            );
        }
    }

    /// Retransmissions of all senders.
    fn resent(&self) -> u64 {
        let stats = self.senders.iter().map(|id| self.simulation.sender(*id).stats());
        stats.map(|stats| stats.timeouts + stats.fast_retransmits).sum()
    }

    /// Payload rate of each sender in the steady state, bits per second.
    fn goodputs(&mut self) -> Vec<f64> {
        let acked = |shared: &Self| -> Vec<u64> {
            let senders = shared.senders.iter();
            senders.map(|id| shared.simulation.sender(*id).stats().bytes_acked).collect()
        };
        let (settle, span) = (Duration::from_secs(2), Duration::from_secs(20));
        self.simulation.run_until(settle);
        let before = acked(self);
        self.simulation.run_until(settle + span);
        let after = acked(self);
        self.check_ledgers();
        after.iter().zip(&before).map(|(a, b)| (a - b) as f64 * 8.0 / span.as_secs_f64()).collect()
    }
}

fn crc_of_array(bytes: u64) -> u32 {
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    payload::fill(0, &mut data);
    crc32fast::hash(&data)
}

fn assert_within(measured: f64, model: f64, tolerance: f64, what: &str) {
    let ratio = measured / model;
    assert!(
        (ratio - 1.0).abs() <= tolerance,
        "{what}: measured {measured:.0}, model {model:.0}, ratio {ratio:.5}"
    );
}

#[test]
fn shared_wire_delivers_every_transfer() {
    let bytes = 4 << 16;
    for windows in [&[25, 25][..], &[12, 13, 14, 15]] {
        let mut shared = Shared::new(bottleneck(RATE, 60), 1, windows, bytes);
        shared.finish(bytes);
        assert_eq!(shared.resent(), 0, "all windows together fit");
        let packets = windows.len() as u64 * (bytes.div_ceil(PAYLOAD) + 2);
        assert_eq!(shared.forward().sent, packets, "SYN, data and FIN of each");
        assert_eq!(shared.forward().dropped_queue, 0);
        assert!(shared.forward().max_occupancy > 1, "packets waited");
    }
}

#[test]
fn fitting_windows_share_rate_proportionally() {
    // On a link that is never idle, each sender's share is its share of the queue.
    let link = (RATE * PAYLOAD) as f64 / PACKET as f64;
    for windows in [&[60][..], &[30, 30], &[20, 40], &[15, 15, 15, 15], &[6, 12, 18, 24]] {
        let total: u32 = windows.iter().sum();
        let mut shared = Shared::new(bottleneck(RATE, total), 1, windows, u64::MAX / 2);
        let goodputs = shared.goodputs();
        assert_within(goodputs.iter().sum(), link, 0.01, &format!("{windows:?} together"));
        for (goodput, window) in goodputs.iter().zip(windows) {
            let share = link * f64::from(*window) / f64::from(total);
            assert_within(*goodput, share, 0.01, &format!("{window} of {windows:?}"));
        }
        assert_eq!((shared.resent(), shared.forward().dropped_queue), (0, 0), "{windows:?}");
    }
}

#[test]
fn last_sender_gets_full_rate() {
    let bytes = 4 << 18;
    let mut shared = Shared::new(bottleneck(RATE, 60), 1, &[30], u64::MAX / 2);
    let other = shared.simulation.add_sender(sender_config(30), shared.server, bytes).unwrap();
    shared.simulation.route(other, shared.server, shared.wire);
    let acked = |shared: &Shared| shared.simulation.sender(shared.senders[0]).stats().bytes_acked;
    let rate = |shared: &mut Shared, from: f64, to: f64| {
        shared.simulation.run_until(Duration::from_secs_f64(from));
        let before = acked(shared);
        shared.simulation.run_until(Duration::from_secs_f64(to));
        (acked(shared) - before) as f64 * 8.0 / (to - from)
    };
    let link = (RATE * PAYLOAD) as f64 / PACKET as f64;
    // The other sender's 1 MiB takes 1.7 s at half the rate.
    let together = rate(&mut shared, 0.5, 1.5);
    assert_eq!(shared.simulation.sender(other).outcome, Outcome::Running);
    let alone = rate(&mut shared, 3.0, 13.0);
    assert_eq!(shared.simulation.sender(other).outcome, Outcome::Finished { crc: Some(crc_of_array(bytes)) });
    assert_within(together, link / 2.0, 0.02, "with another");
    assert_within(alone, link, 0.01, "alone");
}

#[test]
fn queue_drops_are_retransmitted() {
    let bytes = 4 << 16;
    for windows in [&[30, 30][..], &[20, 20, 20, 20]] {
        assert!(windows.iter().sum::<u32>() > PIPE + 10, "the windows do not fit");
        let mut shared = Shared::new(bottleneck(RATE, 10), 1, windows, bytes);
        shared.finish(bytes);
        let (forward, resent) = (*shared.forward(), shared.resent());
        assert!(forward.dropped_queue > 0 && forward.dropped_loss == 0, "{forward:?}");
        assert_eq!(forward.max_occupancy, 10, "{forward:?}");
        // Retransmissions beyond the drops arrived twice.
        let once = windows.len() as u64 * (bytes.div_ceil(PAYLOAD) + 2);
        assert_eq!(forward.sent, once + resent);
        assert_eq!(resent, forward.dropped_queue + (forward.delivered - once));
    }
}

#[test]
fn seed_determines_run() {
    let bytes = 4 << 16;
    let run = |seed| {
        let mut config = bottleneck(RATE, 10);
        config.forward.loss = Loss::Bernoulli(Probability::new(0.02).unwrap());
        let mut shared = Shared::new(config, seed, &[30, 20, 10], bytes);
        shared.finish(bytes);
        let ledgers = (*shared.forward(), *shared.reverse());
        (shared.simulation.hash(), shared.simulation.datagrams(), shared.simulation.elapsed(), ledgers)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn shared_losses_are_independent_of_rate() {
    let (bytes, seed) = (4 << 15, 7);
    let loss = Loss::Bernoulli(Probability::new(0.05).unwrap());
    // Reference link with loss alone: the number of losses among the first n packets.
    let mut reference =
        Link::new(LinkConfig { loss: loss.clone(), ..LinkConfig::default() }, seed, Direction::Forward);
    let epoch = Simulation::new().epoch();
    let lost: Vec<u64> = (0..2000)
        .map(|_| {
            let lost = reference.ledger().dropped_loss;
            let _ = reference.push(epoch, vec![0]);
            lost
        })
        .collect();

    let mut by_rate = BTreeMap::new();
    for rate in [1_000_000, RATE, 1_000_000_000] {
        let mut config = bottleneck(rate, 10);
        config.forward.loss = loss.clone();
        let mut shared = Shared::new(config, seed, &[20, 20, 20], bytes);
        let mut seen = 0;
        let mut time = Duration::ZERO;
        while shared.senders.iter().any(|id| shared.simulation.sender(*id).outcome == Outcome::Running) {
            time += Duration::from_millis(1);
            shared.simulation.run_until(time);
            let forward = shared.forward();
            let n = usize::try_from(forward.sent).unwrap();
            assert_eq!(forward.dropped_loss, lost[n], "of the first {n} at {rate} bit/s");
            seen = n;
        }
        shared.finish(bytes);
        by_rate.insert(rate, (seen, shared.forward().dropped_queue));
    }
    assert!(by_rate[&1_000_000].1 > 0, "a slow wire's full queue moves no loss: {by_rate:?}");
    assert!(by_rate.values().all(|(seen, _)| lost[*seen] > 5), "{by_rate:?}");
}

#[test]
fn wire_carries_only_routed_pairs() {
    let bytes = 4 << 14;
    let mut shared = Shared::new(bottleneck(RATE, 60), 1, &[10], bytes);
    let (server, wire) = (shared.server, shared.wire);
    // One pair has its own wire with its server at the near end; one pair has none.
    let own = shared.simulation.add_wire(Path::new(bottleneck(RATE / 10, 60), 1));
    let apart = shared.simulation.add_sender(sender_config(10), server, bytes).unwrap();
    shared.simulation.route(server, apart, own);
    let perfect = shared.simulation.add_sender(sender_config(10), server, bytes).unwrap();
    assert!(shared.simulation.run_senders(LIMIT));

    let simulation = &shared.simulation;
    let wire_time = |rate: f64| 0.02 + 24.0 * 8.0 / rate;
    for (id, at_least) in [(shared.senders[0], wire_time(1e7)), (apart, wire_time(1e6)), (perfect, 0.0)] {
        let node = simulation.sender(id);
        assert_eq!(node.outcome, Outcome::Finished { crc: Some(0xFC19_A074) }, "{id:?}");
        let rtt = node.stats().handshake_rtt.unwrap().as_secs_f64();
        assert!((at_least..=at_least + 0.001).contains(&rtt), "{id:?}: {rtt}");
    }
    // SYN, 45 data packets, FIN.
    assert_eq!(simulation.wire(wire).forward.ledger().sent, 47);
    assert_eq!(simulation.wire(own).reverse.ledger().sent, 47);
    assert_eq!(simulation.wire(own).forward.ledger().sent, simulation.wire(wire).reverse.ledger().sent);
}
