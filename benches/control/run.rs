//! Transfers over one path, for all tables.

use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, Path, PathConfig, QueueSize};
use rdt::sim::{LinkMode, NodeId, ServerConfig, Simulation, WireId};
use rdt::{Observer, ReceiverConfig, SenderConfig, SenderStats};

/// Bytes of the IP and UDP headers.
pub(crate) const IP_UDP: u32 = 28;

/// Configuration of one or more senders that share a path to one receiver.
pub(crate) struct Run {
    pub(crate) path: PathConfig,
    pub(crate) senders: Vec<SenderConfig>,
    pub(crate) bytes: u64,
    pub(crate) seed: u64,
}

pub(crate) struct Running {
    pub(crate) simulation: Simulation,
    pub(crate) server: NodeId,
    pub(crate) senders: Vec<NodeId>,
    pub(crate) wire: WireId,
}

/// Returns a symmetric path that counts IP and UDP headers, with queues of `products`
/// bandwidth-delay products.
pub(crate) fn path(bps: u64, rtt: Duration, products: f64) -> PathConfig {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few products")]
    let millionths = (products * 1e6) as u64;
    let mut path =
        PathConfig::symmetric(rtt, Bitrate::from_bps(bps)).queue_size(QueueSize::BdpMillionths(millionths));
    path.forward.overhead = IP_UDP;
    path.reverse.overhead = IP_UDP;
    path
}

/// Returns the configuration of a native sender with this controller.
pub(crate) fn native(congestion: Algorithm) -> SenderConfig {
    SenderConfig { congestion, ..SenderConfig::native(7) }
}

impl Run {
    /// Creates a run of one endless sender.
    pub(crate) fn new(path: PathConfig, config: SenderConfig) -> Self {
        Self { path, senders: vec![config], bytes: u64::MAX / 2, seed: 1 }
    }

    pub(crate) fn start(&self) -> Running {
        let mut simulation = Simulation::new();
        let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
        let server = simulation.add_server(ServerConfig::new(receiver, LinkMode::None));
        let wire = simulation.add_wire(Path::new(self.path.clone(), self.seed));
        let add = |config: &SenderConfig| {
            let sender = simulation.add_sender(config.clone(), server, self.bytes);
            let sender = sender.expect("a table's configuration is valid");
            simulation.route(sender, server, wire);
            sender
        };
        let senders = self.senders.iter().map(add).collect();
        Running { simulation, server, senders, wire }
    }
}

impl Running {
    pub(crate) fn observe(&mut self, index: usize, observer: Box<dyn Observer>) {
        self.simulation.sender_mut(self.senders[index]).observe(observer);
    }

    pub(crate) fn has_finished(&self, index: usize) -> bool {
        self.simulation.sender(self.senders[index]).outcome.is_finished()
    }

    pub(crate) fn stats(&self, index: usize) -> SenderStats {
        self.simulation.sender(self.senders[index]).stats()
    }
}
