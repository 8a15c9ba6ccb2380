//! Encrypted connections in virtual time, over paths with a rate, delay and faults.

use std::sync::Arc;
use std::time::Duration;

use rdt::crypto::{Entropy, StaticKey};
use rdt::emulator::{Bitrate, Loss, Outage, Path, PathConfig, Probability, QueueLimit};
use rdt::sim::{Exchange, NodeId, Simulation};
use rdt::transport::{
    Closed, ConnectionConfig, ConnectionId, ConnectionSetConfig, InitiatorConfig, ResponderConfig,
    SenderConfig,
};

const MINUTE: Duration = Duration::from_secs(60);

fn path(rate_mbit: u64, rtt_ms: u64) -> PathConfig {
    PathConfig::symmetric(Duration::from_millis(rtt_ms), Bitrate::from_bps(rate_mbit * 1_000_000))
}

fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])))
}

/// Two nodes and the path between them.
struct World {
    simulation: Simulation,
    client: NodeId,
    server: NodeId,
}

impl World {
    /// The server answers each connection with `answer` bytes.
    fn new(path: PathConfig, seed: u64, config: &ConnectionConfig, answer: u64) -> Self {
        let mut simulation = Simulation::new();
        let client = simulation.add_connections(ConnectionSetConfig::default(), 2 * seed);
        let server = simulation.add_connections(ConnectionSetConfig::default(), 2 * seed + 1);
        let responder = ResponderConfig { config: config.clone(), ..ResponderConfig::open(identity()) };
        simulation.listen(server, responder, answer);
        let wire = simulation.add_wire(Path::new(path, seed));
        simulation.route(client, server, wire);
        Self { simulation, client, server }
    }

    fn connect(&mut self, config: &ConnectionConfig, bytes: u64) -> ConnectionId {
        let keys = InitiatorConfig { remote: Some(identity().public()), ..InitiatorConfig::default() };
        self.simulation.connect(self.client, self.server, keys, config.clone(), bytes).unwrap()
    }

    fn run(&mut self) -> &mut Self {
        assert!(
            self.simulation.run_connections(10 * MINUTE),
            "unfinished: {:?}",
            self.exchanges(self.client)
        );
        self
    }

    fn exchanges(&self, node: NodeId) -> Vec<&Exchange> {
        self.simulation.connections(node).exchanges.values().collect()
    }

    /// Checks that all streams of both nodes arrived whole, and returns the time of the last end.
    fn finished(&self, bytes: u64, answer: u64) -> Duration {
        let mut last = self.simulation.epoch();
        for (node, read) in [(self.client, answer), (self.server, bytes)] {
            for exchange in self.exchanges(node) {
                assert_eq!(exchange.closed, Some(Closed::Finished));
                assert_eq!((exchange.read, exchange.is_corrupt), (read, false));
                last = last.max(exchange.closed_at.unwrap());
            }
        }
        last - self.simulation.epoch()
    }
}

fn goodput_mbit(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64() / 1e6
}

#[test]
fn stream_each_way_fills_both_links() {
    let config = ConnectionConfig::default();
    let (bytes, answer) = (100_000_000, 100_000_000);
    let mut shallow = path(100, 20);
    for link in [&mut shallow.forward, &mut shallow.reverse] {
        link.queue = QueueLimit::bytes(250_000);
    }
    let mut world = World::new(shallow, 1, &config, answer);
    world.connect(&config, bytes);
    let time = world.run().finished(bytes, answer);
    assert!(goodput_mbit(bytes, time) > 80.0, "{:.1} Mbit/s each way", goodput_mbit(bytes, time));
}

/// Version 2 has 28 bytes more in each packet than version 1.
#[test]
fn one_way_stream_is_as_fast_as_version_1() {
    let bytes = 20_000_000;
    let config = ConnectionConfig { one_way: true, ..ConnectionConfig::default() };
    let mut world = World::new(path(100, 50), 1, &config, 0);
    world.connect(&config, bytes);
    let encrypted = world.run().finished(bytes, 0);
    let mut simulation = Simulation::new();
    let receiver =
        rdt::transport::ReceiverConfig { keep_payload: true, ..rdt::transport::ReceiverConfig::reference() };
    let mut server = rdt::server::ServerConfig::new(receiver, rdt::server::LinkMode::None);
    server.listener.secret = Some([1; 32]);
    let server = simulation.add_server(server);
    let sender = simulation.add_sender(SenderConfig::native(7), server, bytes).unwrap();
    let wire = simulation.add_wire(Path::new(path(100, 50), 1));
    simulation.route(sender, server, wire);
    assert!(simulation.run_senders(MINUTE));
    let clear = simulation.elapsed();
    let ratio = encrypted.as_secs_f64() / clear.as_secs_f64();
    assert!((0.9..1.05).contains(&ratio), "{encrypted:?} for {clear:?}");
}

#[test]
fn rate_limit_holds_for_each_stream() {
    // 20 Mbit/s each way, on a path of 1 Gbit/s.
    let mut config = ConnectionConfig::default();
    config.sender.max_rate = Some(2_500_000);
    let bytes = 25_000_000;
    let mut world = World::new(path(1000, 10), 1, &config, bytes);
    world.connect(&config, bytes);
    let time = world.run().finished(bytes, bytes).as_secs_f64();
    assert!((9.9..10.2).contains(&time), "{time} s instead of 10");
}

#[test]
fn hundred_connections_share_a_link() {
    let config = ConnectionConfig::default();
    let mut world = World::new(path(100, 20), 3, &config, 50_000);
    for _ in 0..100 {
        world.connect(&config, 100_000);
    }
    world.run().finished(100_000, 50_000);
    assert_eq!(world.exchanges(world.server).len(), 100);
}

#[test]
fn equal_seeds_send_equal_datagrams() {
    let config = ConnectionConfig::default();
    let run = |seed: u64| {
        let mut lossy = path(20, 30);
        lossy.forward.loss = Loss::Bernoulli(Probability::new(0.03).unwrap());
        let mut world = World::new(lossy, seed, &config, 300_000);
        world.connect(&config, 500_000);
        world.run().finished(500_000, 300_000);
        world.simulation.hash()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn outage_shorter_than_idle_timeout_is_survived() {
    let config = ConnectionConfig::default();
    let mut broken = path(10, 40);
    let outage = Outage::once(Duration::from_secs(1), Duration::from_secs(21));
    broken.forward.outage = outage.clone();
    broken.reverse.outage = outage;
    let mut world = World::new(broken, 4, &config, 1_000_000);
    world.connect(&config, 3_000_000);
    world.run().finished(3_000_000, 1_000_000);
}

#[test]
fn unread_stream_stops_its_sender_and_goes_on() {
    let config = ConnectionConfig::default();
    let mut world = World::new(path(1000, 5), 5, &config, 0);
    world.connect(&config, 200_000_000);
    world.simulation.run_until(Duration::from_millis(200));
    world.simulation.stall_connections(world.server, MINUTE / 2);
    world.simulation.run_until(MINUTE / 3);
    let there = world.simulation.connections(world.server);
    assert!(there.set.memory() < 600 << 20, "{} bytes wait", there.set.memory());
    world.run().finished(200_000_000, 0);
}

#[test]
fn restarted_responder_resets_its_old_connections() {
    let config = ConnectionConfig::default();
    let mut world = World::new(path(10, 20), 6, &config, 0);
    world.connect(&config, 10_000_000);
    world.simulation.run_until(Duration::from_secs(2));
    world.simulation.restart_connections(world.server, ConnectionSetConfig::default(), 99);
    world.simulation.listen(world.server, ResponderConfig::open(identity()), 0);
    world.simulation.run_until(Duration::from_secs(3));
    assert_eq!(world.exchanges(world.client)[0].closed, Some(Closed::Reset), "at once, not by a timeout");
}

/// A host that changes the versions of the SYN cannot make the two sides speak clear text: there is
/// no handshake then.
#[test]
fn responder_without_version_2_is_named() {
    let mut simulation = Simulation::new();
    let client = simulation.add_connections(ConnectionSetConfig::default(), 1);
    let receiver = rdt::transport::ReceiverConfig::reference();
    let mut server = rdt::server::ServerConfig::new(receiver, rdt::server::LinkMode::None);
    server.listener.secret = Some([1; 32]);
    let server = simulation.add_server(server);
    let id = simulation
        .connect(client, server, InitiatorConfig::default(), ConnectionConfig::default(), 10)
        .unwrap();
    assert!(simulation.run_connections(MINUTE));
    let closed = simulation.connections(client).exchanges[&id].closed.clone().unwrap();
    assert_eq!(
        closed.to_string(),
        "the peer speaks version 1 of the protocol, and the connection needs version 2"
    );
}
