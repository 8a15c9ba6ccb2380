//! Flows in virtual time: applications, series, limits, datagram sources, wires in series.

mod applications;
mod limits;
mod series;
mod sources;
mod wires;

use std::env;
use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, Path, PathConfig, QueueLimit};
use rdt::sim::{Application, LinkMode, NodeId, Outcome, ServerConfig, Simulation, WireId};
use rdt::{ReceiverConfig, SenderConfig};

/// Seed from `RDT_SEED`, or 1.
fn seed() -> u64 {
    env::var("RDT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Path without random loss, of a rate in bits per second, with a queue of 64 packets.
fn path(rate: u64, rtt: Duration) -> PathConfig {
    let mut path = PathConfig::symmetric(rtt, Bitrate::from_bps(rate));
    path.forward.queue = QueueLimit::packets(64);
    path
}

fn reno() -> SenderConfig {
    SenderConfig { congestion: Algorithm::Reno, ..SenderConfig::native(7) }
}

/// Server with one wire to it, which all senders share.
struct Shared {
    simulation: Simulation,
    server: NodeId,
    wire: WireId,
    seed: u64,
}

impl Shared {
    fn new(path: PathConfig) -> Self {
        Self::with_receiver(path, ReceiverConfig::reference())
    }

    fn with_receiver(path: PathConfig, receiver: ReceiverConfig) -> Self {
        let receiver = ReceiverConfig { keep_payload: true, ..receiver };
        let config = ServerConfig::new(receiver, LinkMode::None);
        let mut simulation = Simulation::new();
        let server = simulation.add_server(config);
        let seed = seed();
        let wire = simulation.add_wire(Path::new(path, seed));
        simulation.record_goodput(server, ms(25));
        Self { simulation, server, wire, seed }
    }

    fn add(&mut self, config: SenderConfig, application: Application) -> NodeId {
        let sender = self.simulation.add_application(config, self.server, application).unwrap();
        self.simulation.route(sender, self.server, self.wire);
        sender
    }

    /// Runs until all transfers have succeeded.
    fn finish(&mut self) {
        let seed = self.seed;
        assert!(self.simulation.run_senders(Duration::from_secs(1000)), "seed {seed}");
    }

    /// Bytes that the application read of a sender from time `from` on, before time `to`. Both are
    /// multiples of 25 ms.
    fn read(&self, sender: NodeId, from: Duration, to: Duration) -> u64 {
        let goodput = self.simulation.server(self.server).transfers[&sender].goodput.as_ref().unwrap();
        let bin = |at: Duration| (at.as_millis() / 25) as usize;
        let bytes = goodput.bytes();
        bytes[bin(from).min(bytes.len())..bin(to).min(bytes.len())].iter().sum()
    }

    /// Checks a finished transfer: all bytes are intact and in the bins. Returns their number.
    fn delivered(&self, sender: NodeId) -> u64 {
        let (node, seed) = (self.simulation.sender(sender), self.seed);
        assert!(node.outcome.is_finished(), "seed {seed}: {:?}", node.outcome);
        let transfer = &self.simulation.server(self.server).transfers[&sender];
        assert!(transfer.intact, "seed {seed}");
        assert_eq!(transfer.goodput.as_ref().map_or(0, rdt::sim::Bins::total), transfer.bytes, "seed {seed}");
        assert_eq!(transfer.bytes, node.stats().bytes_written, "seed {seed}");
        transfer.bytes
    }
}
