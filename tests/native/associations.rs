//! Connections one after the other between the same two hosts: they open without a handshake, and
//! share what they know of the path.

use rdt::transport::{ConnectionId, ConnectionSetConfig};
use rdt::{ConnectionConfig, Entropy, InitiatorConfig, ResponderConfig, StaticKey};

use super::*;

/// A client and a server, which answers each connection by `answer` bytes.
struct World {
    simulation: Simulation,
    client: NodeId,
    server: NodeId,
}

impl World {
    fn new(path: PathConfig, seed: u64, answer: u64) -> Self {
        let mut simulation = Simulation::new();
        let unix_time = Some((simulation.epoch(), 1_800_000_000));
        let config =
            ConnectionSetConfig { ip_of: Some(NodeId::ip), unix_time, ..ConnectionSetConfig::default() };
        let client = simulation.add_connections(config, 2 * seed);
        let server = simulation.add_connections(config, 2 * seed + 1);
        simulation.listen(server, ResponderConfig::open(key()), answer);
        let wire = simulation.add_wire(Path::new(path, seed));
        simulation.route(client, server, wire);
        Self { simulation, client, server }
    }

    /// Opens a connection that sends a request.
    fn connect(&mut self) -> ConnectionId {
        let keys = InitiatorConfig { remote: Some(key().public()), ..InitiatorConfig::default() };
        let config = ConnectionConfig::default();
        self.simulation.connect(self.client, self.server, keys, config, 1000).unwrap()
    }

    /// Opens connections at once, waits for all, and returns the times until each has its answer.
    fn get(&mut self, count: usize) -> Vec<Duration> {
        let start = self.simulation.now();
        let ids: Vec<_> = (0..count).map(|_| self.connect()).collect();
        let limit = self.simulation.elapsed() + secs(600);
        assert!(self.simulation.run_connections(limit));
        let exchanges = &self.simulation.connections(self.client).exchanges;
        let times: Vec<_> = ids.iter().map(|id| exchanges[id].received.completed_at.unwrap()).collect();
        let epoch = self.simulation.epoch();
        times.into_iter().map(|at| epoch + at - start).collect()
    }

    fn opened(&self) -> u64 {
        self.simulation.connections(self.server).set.stats().opened
    }
}

fn key() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])))
}

fn path(mbit: u64, rtt: Duration, loss: f64) -> PathConfig {
    Run::new(mbit * 1_000_000, rtt).loss_both_ways(&bernoulli(loss)).path
}

#[test]
fn known_path_answers_in_one_round_trip() {
    let mut world = World::new(path(100, ms(50), 0.0), 1, 100_000);
    let times: Vec<_> = (0..6).map(|_| world.get(1)[0]).collect();
    eprintln!("100 kB, one after the other: {times:?}");
    assert_eq!(world.opened(), 5);
    // Two round trips and the growth of the window; one round trip and the time on the link.
    assert!(times[0] > ms(200) && times[5] < ms(110), "{times:?}");
}

/// Connections that open at the same time have together what one has, and similar shares. Those
/// that go on take what the others have left.
#[test]
fn ten_connections_have_what_one_has() {
    for loss in [0.0, 0.01] {
        let (mut ones, mut lasts, mut shares) = (Duration::ZERO, Duration::ZERO, 0.0);
        for seed in seed()..seed() + 3 {
            let mut alone = World::new(path(100, ms(100), loss), seed, 50_000_000);
            alone.get(1);
            let one = alone.get(1)[0];
            let mut world = World::new(path(100, ms(100), loss), seed, 5_000_000);
            world.get(1);
            for _ in 0..3 {
                let ten = world.get(10);
                let (first, last) = (*ten.iter().min().unwrap(), *ten.iter().max().unwrap());
                eprintln!("loss {loss}: 50 MB by one in {one:?}, by ten in {first:?} to {last:?}");
                assert!(last < one.mul_f64(1.25), "{loss}, {seed}: {last:?}, one {one:?}");
                let fair = jain(ten.iter().map(|time| 1.0 / time.as_secs_f64()));
                assert!(fair > 0.85, "{loss}, {seed}: Jain's index {fair:.3}, {ten:?}");
                (ones, lasts, shares) = (ones + one, lasts + last, shares + fair / 9.0);
            }
        }
        assert!(lasts < ones.mul_f64(1.05), "{loss}: {:?}, one {:?}", lasts / 9, ones / 9);
        assert!(shares > 0.96, "{loss}: Jain's index is {shares:.3} on average");
    }
}

/// Jain's fairness index of the rates: 1 if all are equal, 1/n if one has everything.
fn jain(rates: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = rates.len() as f64;
    let (sum, squares) = rates.fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    sum * sum / (count * squares)
}

#[test]
fn megabyte_on_known_path_takes_three_or_four_round_trips() {
    for loss in [0.0, 0.01] {
        let mut times = Vec::new();
        for seed in seed()..seed() + 10 {
            let mut world = World::new(path(100, ms(100), loss), seed, 1_000_000);
            world.get(1);
            world.get(1);
            times.extend((0..4).map(|_| world.get(1)[0]));
        }
        times.sort();
        eprintln!("loss {loss}: 1 MB in {:?} to {:?}, median {:?}", times[0], times[39], times[20]);
        assert!(times[20] < if loss == 0.0 { ms(300) } else { ms(400) }, "{times:?}");
    }
}
