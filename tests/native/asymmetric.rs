//! Lines that are faster one way than the other, with data both ways at once: home uplinks (RFC
//! 3449).

use rdt::crypto::{Entropy, StaticKey};
use rdt::emulator::{Bitrate, QueueLimit};
use rdt::sim::Application;
use rdt::transport::{ConnectionConfig, ConnectionSetConfig, InitiatorConfig, ResponderConfig};

use super::*;

/// Time of a run.
const TIME: Duration = secs(30);

/// Line with a rate each way, bit/s, and queues, bytes.
#[derive(Debug, Clone, Copy)]
struct Line {
    forward: u64,
    back: u64,
    rtt_ms: u64,
    queue_back: u64,
}

impl Line {
    /// Rates in kbit/s.
    fn new(forward: u64, back: u64, rtt_ms: u64) -> Self {
        Self { forward: 1000 * forward, back: 1000 * back, rtt_ms, queue_back: 64_000 }
    }

    /// Returns the mean of [`run`](Self::run).
    fn mean(self, congestion: Algorithm, seeds: std::ops::Range<u64>, connections: usize) -> [f64; 2] {
        let count = seeds.clone().count() as f64;
        let runs = seeds.map(|seed| self.run(congestion, seed, connections));
        runs.fold([0.0; 2], |sum, run| [sum[0] + run[0] / count, sum[1] + run[1] / count])
    }

    fn path(self) -> PathConfig {
        let mut path = PathConfig::symmetric(ms(self.rtt_ms), Bitrate::from_bps(self.forward));
        let bdp = self.forward / 8 * self.rtt_ms / 1000;
        path.forward.queue = QueueLimit::bytes(bdp.max(30_000));
        path.reverse.rate = Some(Bitrate::from_bps(self.back));
        path.reverse.queue = QueueLimit::bytes(self.queue_back);
        for link in [&mut path.forward, &mut path.reverse] {
            link.overhead = IP_UDP;
        }
        path
    }

    /// Returns the goodput each way, Mbit/s: of one connection with data both ways, or of two with
    /// data one way each.
    fn run(self, congestion: Algorithm, seed: u64, connections: usize) -> [f64; 2] {
        let sender = SenderConfig { congestion, ..SenderConfig::native(0) };
        let config =
            ConnectionConfig { sender, dangerously_unencrypted: true, ..ConnectionConfig::default() };
        let key = || Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])));
        let endless = || Application { stop: Some(TIME), ..Application::default() };
        let silent = || Application::from(0);
        let pairs = match connections {
            1 => vec![(endless(), endless())],
            _ => vec![(endless(), silent()), (silent(), endless())],
        };
        let mut simulation = Simulation::new();
        let wire = simulation.add_wire(Path::new(self.path(), seed));
        let mut nodes = Vec::new();
        for (n, (there, back)) in pairs.into_iter().enumerate() {
            let seed = 4 * seed + 2 * n as u64;
            let client = simulation.add_connections(ConnectionSetConfig::default(), seed);
            let server = simulation.add_connections(ConnectionSetConfig::default(), seed + 1);
            let responder = ResponderConfig { config: config.clone(), ..ResponderConfig::open(key()) };
            simulation.listen(server, responder, back);
            simulation.route(client, server, wire);
            let keys = InitiatorConfig { remote: Some(key().public()), ..InitiatorConfig::default() };
            simulation.connect(client, server, keys, config.clone(), there).unwrap();
            nodes.push((client, server));
        }
        simulation.run_connections(TIME);
        let received = |node| {
            let exchanges = &simulation.connections(node).exchanges;
            exchanges.values().map(|exchange| exchange.received.bytes).sum::<u64>()
        };
        let mbit = |bytes: u64| bytes as f64 * 8.0 / TIME.as_secs_f64() / 1e6;
        let (there, back): (Vec<_>, Vec<_>) =
            nodes.iter().map(|(client, server)| (received(*server), received(*client))).unzip();
        [mbit(there.iter().sum()), mbit(back.iter().sum())]
    }
}

const CONTROLLERS: [Algorithm; 3] = [Algorithm::Bbr, Algorithm::Cubic, Algorithm::Reno];
/// Lines: forward and back, kbit/s.
const LINES: [(u64, u64); 4] = [(50_000, 500), (100_000, 1000), (20_000, 1000), (8000, 250)];

/// One connection that sends both ways has what two connections have, and the way back is used.
#[test]
fn one_connection_has_as_much_as_two() {
    for (forward, back) in LINES {
        let line = Line::new(forward, back, 40);
        // The drops of CUBIC's queues are the same with each seed.
        for (congestion, seeds) in [(Algorithm::Bbr, 2), (Algorithm::Cubic, 1)] {
            let mean = |connections| line.mean(congestion, seed()..seed() + seeds, connections);
            let (one, two) = (mean(1), mean(2));
            eprintln!("{line:?} {congestion}: {one:?}, two connections {two:?}");
            assert!(one[0] > 0.8 * two[0], "{line:?} {congestion}: {one:?} {two:?}");
            assert!(one[1] > 0.78 * back as f64 / 1000.0, "{line:?} {congestion}: {one:?}");
        }
    }
}

/// For `RDT_SEEDS` seeds, 20 by default.
#[test]
#[ignore = "prints a table, for minutes"]
fn table_of_asymmetric_lines() {
    let seeds = env::var("RDT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    for (forward, back) in LINES {
        for rtt_ms in [10, 40, 200] {
            for congestion in CONTROLLERS {
                let line = Line::new(forward, back, rtt_ms);
                let [one, two] = [1, 2].map(|connections| line.mean(congestion, 1..1 + seeds, connections));
                eprintln!(
                    "| {forward}:{back} | {rtt_ms} ms | {congestion} | {:.2} / {:.3} | {:.2} / {:.3} | {:.2} |",
                    one[0],
                    one[1],
                    two[0],
                    two[1],
                    one[0] / two[0]
                );
            }
        }
    }
}
