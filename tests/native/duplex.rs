//! Connections with a stream each way: both at once over bad paths, with keys that update and
//! addresses that move.

use std::sync::Arc;

use rdt::emulator::{Jitter, Marking, Mtu, Outage, QueueLimit};
use rdt::sim::{Application, Exchange, Mark, Marks, Recorder};
use rdt::transport::{Connection, ConnectionId, ConnectionSetConfig, EcnState};
use rdt::{Aead, Closed, ConnectionConfig, Entropy, InitiatorConfig, ResponderConfig, StaticKey};

use super::*;

const MINUTE: Duration = secs(60);

fn path(rate_mbit: u64, rtt_ms: u64) -> PathConfig {
    PathConfig::symmetric(ms(rtt_ms), Bitrate::from_bps(rate_mbit * 1_000_000))
}

fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])))
}

/// Connection without a cipher.
fn clear() -> ConnectionConfig {
    ConnectionConfig { dangerously_unencrypted: true, ..ConnectionConfig::default() }
}

/// Connection without a cipher whose sides send so.
fn sending(sender: SenderConfig) -> ConnectionConfig {
    ConnectionConfig { sender, ..clear() }
}

/// Two nodes and the path between them.
struct World {
    simulation: Simulation,
    client: NodeId,
    server: NodeId,
    wire: WireId,
}

impl World {
    /// The server answers each connection by `answer`.
    fn new(path: PathConfig, seed: u64, config: &ConnectionConfig, answer: impl Into<Application>) -> Self {
        let mut simulation = Simulation::new();
        let client = simulation.add_connections(ConnectionSetConfig::default(), 2 * seed);
        let server = simulation.add_connections(ConnectionSetConfig::default(), 2 * seed + 1);
        let responder = ResponderConfig { config: config.clone(), ..ResponderConfig::open(identity()) };
        simulation.listen(server, responder, answer);
        let wire = simulation.add_wire(Path::new(path, seed));
        simulation.route(client, server, wire);
        Self { simulation, client, server, wire }
    }

    fn connect(&mut self, config: &ConnectionConfig, application: impl Into<Application>) -> ConnectionId {
        let keys = InitiatorConfig { remote: Some(identity().public()), ..InitiatorConfig::default() };
        self.simulation.connect(self.client, self.server, keys, config.clone(), application).unwrap()
    }

    fn run(&mut self) -> &mut Self {
        let ended = self.simulation.run_connections(10 * MINUTE);
        assert!(ended, "unfinished: {:?}", self.exchanges(self.client));
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
                assert_eq!((exchange.received.bytes, exchange.received.intact), (read, true));
                last = last.max(exchange.closed_at.unwrap());
            }
        }
        last - self.simulation.epoch()
    }

    /// Counters of the only connection, at the client and at the server.
    fn stats(&self) -> [SenderStats; 2] {
        [self.client, self.server].map(|node| {
            let node = self.simulation.connections(node);
            let id = node.exchanges.keys().next().unwrap();
            node.set.get(*id).unwrap().stats().sender
        })
    }

    /// Makes the next key update of both ends due.
    fn update_keys(&mut self) {
        let now = self.simulation.now();
        for node in [self.client, self.server] {
            let node = self.simulation.connections_mut(node);
            for id in node.exchanges.keys().copied().collect::<Vec<_>>() {
                node.set.with(now, id, Connection::use_up_key);
            }
        }
    }

    /// Gives the client another address.
    fn move_client(&mut self) {
        self.client = self.simulation.move_node(self.client);
        self.simulation.route(self.client, self.server, self.wire);
    }

    /// Runs to the end, with keys that update 0.5 s, 1 s, 2 s ... after the handshake, and
    /// addresses that move every second time.
    fn run_restlessly(&mut self) -> &mut Self {
        while self.exchanges(self.client)[0].connected_at.is_none() {
            self.simulation.run_until(self.simulation.elapsed() + ms(10));
        }
        let connected = self.simulation.elapsed();
        for turn in 0..10 {
            if self.simulation.run_connections(connected + ms(500 << turn)) {
                break;
            }
            self.update_keys();
            if turn % 2 == 1 {
                self.move_client();
            }
        }
        self.run()
    }
}

fn goodput_mbit(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64() / 1e6
}

/// Path of 10 Mbit/s and 40 ms with queues of one bandwidth-delay product, changed both ways.
fn changed(change: impl Fn(LinkConfig) -> LinkConfig) -> PathConfig {
    Run::new(10_000_000, ms(40)).both_ways(change).path
}

fn bad_paths() -> Vec<(&'static str, PathConfig)> {
    let share = |p| Probability::new(p).unwrap();
    let mut thin = changed(|link| link);
    thin.reverse.rate = Some(Bitrate::from_bps(500_000));
    thin.reverse.queue = QueueLimit::packets(30);
    let shrinking = Mtu::new(1500).then(secs(1), 1000);
    vec![
        ("loss of 5 %", changed(|link| link.loss(bernoulli(0.05)))),
        ("loss of 20 %", changed(|link| link.loss(bernoulli(0.2)))),
        ("a thin reverse link", thin),
        ("reordering", changed(|link| link.reorder(share(0.05), ms(60)))),
        ("jitter", changed(|link| link.jitter(Jitter::normal(ms(10)).unordered()))),
        ("copies", changed(|link| LinkConfig { duplicate: share(0.1), ..link })),
        ("damage", changed(|link| link.corrupt(share(0.03)))),
        ("a shrinking MTU", changed(|link| link.overhead(IP_UDP).mtu(shrinking.clone()))),
        ("outages", changed(|link| link.outage(Outage::periodic(secs(4), ms(700), ms(900))))),
        ("a short queue", changed(|link| LinkConfig { queue: QueueLimit::packets(6), ..link })),
    ]
}

#[test]
fn both_streams_survive_bad_paths_key_updates_and_moves() {
    let rules = [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno];
    for (name, path) in bad_paths() {
        for (congestion, recovery) in
            [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno].into_iter().zip(rules)
        {
            let what = format!("{name}, {congestion}, {recovery}");
            let _note = PanicNote::new(&what, seed());
            let mut config = sending(SenderConfig { recovery, ..native(congestion) });
            if congestion == Algorithm::Reno {
                (config.dangerously_unencrypted, config.aead) = (false, Some(Aead::ChaCha20Poly1305));
            }
            let (bytes, answer) = (2_000_000, 1_500_000);
            let mut world = World::new(path.clone(), seed(), &config, answer);
            world.connect(&config, bytes);
            let time = world.run_restlessly().finished(bytes, answer);
            let moved = world.simulation.connections(world.server).set.stats().moved;
            eprintln!("{what}: {time:?}, moved {moved} times");
            assert!(moved > 0, "{what}");
        }
    }
}

#[test]
fn recovery_and_controller_matrix_delivers_both_streams() {
    for recovery in matrix::RULES {
        for congestion in matrix::CONTROLLERS {
            let config = sending(SenderConfig { recovery, ..native(congestion) });
            let path = Run::new(20_000_000, ms(20)).loss_both_ways(&bernoulli(0.02)).path;
            let run = || {
                let mut world = World::new(path.clone(), seed(), &config, 400_000);
                world.connect(&config, 400_000);
                world.run().finished(400_000, 400_000);
                world.simulation.hash()
            };
            assert_eq!(run(), run(), "{recovery}, {congestion}");
        }
    }
}

#[test]
fn stream_each_way_fills_both_links() {
    let config = clear();
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

#[test]
fn marking_queues_are_filled_both_ways() {
    for congestion in [Algorithm::Reno, Algorithm::Cubic, Algorithm::Bbr] {
        let marking = Marking::above(QueueLimit::packets(68));
        let path = Run::new(20_000_000, ms(40)).queue(300).both_ways(|link| link.marking(marking)).path;
        let config = sending(native(congestion));
        let (bytes, answer) = (20_000_000, 20_000_000);
        let mut world = World::new(path, 1, &config, answer);
        world.connect(&config, bytes);
        let rate = goodput_mbit(bytes, world.run().finished(bytes, answer));
        assert!(rate > 16.0, "{congestion}: {rate} of 20 Mbit/s");
        for stats in world.stats() {
            // Slow start overshoots: the queue of the other direction delays the news of the marks.
            assert_eq!((stats.ecn, stats.timeouts), (EcnState::On, 0), "{congestion}: {stats:?}");
            assert!(stats.ecn_reductions > 0, "{congestion}: {stats:?}");
        }
    }
}

#[test]
fn rate_limit_holds_for_each_stream() {
    // 20 Mbit/s each way, on a path of 1 Gbit/s.
    let mut config = clear();
    config.sender.max_rate = Some(2_500_000);
    let bytes = 25_000_000;
    let mut world = World::new(path(1000, 10), 1, &config, bytes);
    world.connect(&config, bytes);
    let time = world.run().finished(bytes, bytes).as_secs_f64();
    assert!((9.9..10.2).contains(&time), "{time} s instead of 10");
}

#[test]
fn applications_of_both_sides_keep_their_times() {
    let config = clear();
    let rate = |rate, stop| Application { rate: Some(rate), stop: Some(stop), ..Application::default() };
    let answer = Application { on_off: Some((ms(500), ms(500))), ..rate(4_000_000, secs(5)) };
    let mut world = World::new(path(10, 40), 1, &config, answer);
    for node in [world.client, world.server] {
        world.simulation.record_goodput(node, ms(500));
    }
    world.connect(&config, Application { start: secs(1), ..rate(1_000_000, secs(8)) });
    world.run();
    let bins = |node| world.exchanges(node)[0].received.goodput.as_ref().unwrap().bytes().to_vec();
    let (asked, answered) = (bins(world.server), bins(world.client));
    assert_eq!(asked[..2], [0, 0], "it starts after a second");
    assert!(asked[4..14].iter().all(|bytes| bytes.abs_diff(62_500) < 2800), "{asked:?}");
    // Half of a second at 4 Mbit/s each second, which arrives 60 ms later.
    assert!((0..5).all(|second| answered[2 * second..][..2].iter().sum::<u64>().abs_diff(250_000) < 2800));
    assert_eq!((asked.len(), answered.len()), (17, 10), "{asked:?}, {answered:?}");
}

#[test]
fn slow_readers_of_both_sides_get_everything() {
    let mut config = clear();
    config.receiver.stream_window = rdt::transport::WindowConfig::fixed(256 << 10, 1432);
    let mut world = World::new(path(100, 20), 1, &config, 1_000_000);
    world.simulation.set_read_policy(world.client, ReadPolicy::AtRate(500_000));
    let stalled = ReadPolicy::Stalled { from: ms(100), length: secs(5) };
    world.simulation.set_read_policy(world.server, stalled);
    world.connect(&config, 2_000_000);
    let time = world.run().finished(2_000_000, 1_000_000);
    assert!((secs(5)..secs(6)).contains(&time), "{time:?}");
    let at = |node| world.exchanges(node)[0].received.completed_at.unwrap();
    assert!((ms(2000)..ms(2200)).contains(&at(world.client)), "{:?}", at(world.client));
    assert!((secs(5)..secs(6)).contains(&at(world.server)), "{:?}", at(world.server));
}

#[test]
fn both_streams_have_observers_marks_and_limits() {
    let config = sending(native(Algorithm::Reno));
    let lossy = Run::new(10_000_000, ms(40)).loss_both_ways(&bernoulli(0.01)).path;
    let mut world = World::new(lossy, 1, &config, 3_000_000);
    let (client, server) = (world.client, world.server);
    let ends = [(client, server), (server, client)];
    let limits = ends.map(|ends| world.simulation.measure_limits_between(ends));
    world.connect(&config, 3_000_000);
    world.simulation.run_until(ms(200));
    let (now, epoch) = (world.simulation.now(), world.simulation.epoch());
    let watched = ends.map(|(node, _)| node).into_iter().zip(limits).map(|(node, limits)| {
        let (marks, series) = (Marks::new(epoch), Recorder::new(epoch, ms(50)));
        let observers: Vec<Box<dyn Observer>> =
            vec![Box::new(marks.clone()), Box::new(series.clone()), Box::new(limits.clone())];
        let there = world.simulation.connections_mut(node);
        let id = *there.exchanges.keys().next().unwrap();
        there.observe(now, id, Box::new(observers));
        (node, id, marks, series, limits)
    });
    let watched: Vec<_> = watched.collect();
    world.run().finished(3_000_000, 3_000_000);
    for ((node, id, marks, series, limits), stats) in watched.into_iter().zip(world.stats()) {
        let resent = marks.marks().iter().filter(|(_, mark)| *mark == Mark::Retransmission).count();
        assert_eq!(resent as u64, stats.retransmitted);
        assert!(series.series().len() > 40);
        let limits = world.simulation.limits_of_connection(node, id, &limits);
        let exchange = &world.simulation.connections(node).exchanges[&id];
        assert_eq!(limits.life(), exchange.delivered_at.unwrap() - exchange.opened_at);
    }
}

#[test]
fn hundred_connections_share_a_link() {
    let config = clear();
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
        lossy.forward.loss = bernoulli(0.03);
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
    let outage = Outage::once(secs(1), secs(21));
    let broken = Run::new(10_000_000, ms(40)).both_ways(|link| link.outage(outage.clone())).path;
    let mut world = World::new(broken, 4, &clear(), 1_000_000);
    world.connect(&clear(), 3_000_000);
    world.run().finished(3_000_000, 1_000_000);
}

#[test]
fn unread_stream_stops_its_sender_and_goes_on() {
    let mut world = World::new(path(1000, 5), 5, &clear(), 0);
    world.connect(&clear(), 200_000_000);
    world.simulation.run_until(ms(200));
    world.simulation.stall(world.server, MINUTE / 2);
    world.simulation.run_until(MINUTE / 3);
    let there = world.simulation.connections(world.server);
    assert!(there.set.memory() < 600 << 20, "{} bytes wait", there.set.memory());
    world.run().finished(200_000_000, 0);
}

#[test]
fn restarted_responder_resets_its_old_connections() {
    let config = clear();
    let mut world = World::new(path(10, 20), 6, &config, 0);
    world.connect(&config, 10_000_000);
    world.simulation.run_until(secs(2));
    world.simulation.restart_connections(world.server, ConnectionSetConfig::default(), 99);
    let responder = ResponderConfig { config, ..ResponderConfig::open(identity()) };
    world.simulation.listen(world.server, responder, 0);
    world.simulation.run_until(secs(3));
    assert_eq!(world.exchanges(world.client)[0].closed, Some(Closed::Reset), "at once, not by a timeout");
}
