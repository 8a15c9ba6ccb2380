//! Scenario: one transfer over one path, described by a few numbers, and its report.

use std::time::Duration;

use crate::payload;
use rdt_server::{LinkMode, ServerConfig, ServerStats};
use rdt_transport::{Attempts, LinkProperties, ReceiverConfig, SenderConfig, SenderStats};

use crate::{NodeId, Outcome, Simulation, Transfer};

/// A transfer in the classic format over the path that the sender requests of the server.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Window of the sender, packets.
    pub window: u32,
    /// Requested round-trip propagation time of the path, seconds.
    pub rtt_s: f32,
    /// Requested rate of each direction, bits per second.
    pub speed_bps: f32,
    /// Requested loss probability towards the receiver, 0 to 1.
    pub loss_forward: f32,
    /// Requested loss probability towards the sender, 0 to 1.
    pub loss_reverse: f32,
    /// Requested router buffer of each direction, packets.
    pub buffer: u32,
    /// Length of the transfer, bytes.
    pub bytes: u64,
    /// UDP payload of a full datagram, bytes.
    pub packet_size: usize,
    /// Limits on the transmissions of a packet before the sender aborts.
    pub attempts: Attempts,
    /// Seed of the path's random draws.
    pub seed: u64,
    /// True if the server compares every byte, false if only CRC-32 and length are checked.
    pub check_bytes: bool,
}

impl Default for Scenario {
    /// Returns 2^14 words of payload, a window of 10 packets, 100 ms, 1 Gbit/s, no loss.
    fn default() -> Self {
        Self {
            window: 10,
            rtt_s: 0.1,
            speed_bps: 1e9,
            loss_forward: 0.0,
            loss_reverse: 0.0,
            buffer: 60,
            bytes: payload::WORD << 14,
            packet_size: 1472,
            attempts: Attempts::default(),
            seed: 1,
            check_bytes: true,
        }
    }
}

/// Results of a scenario.
#[derive(Debug, Clone)]
pub struct Report {
    /// How the transfer ended; [`Outcome::Running`] if it did not end within the limit.
    pub outcome: Outcome,
    /// Counters of the sender.
    pub sender: SenderStats,
    /// The transfer as the server received it.
    pub received: Transfer,
    /// Counters of the server.
    pub server: ServerStats,
    /// Virtual time from the first SYN to the end of the transfer.
    pub elapsed: Duration,
    /// Hash of all arriving datagrams; see [`Simulation::hash`].
    pub hash: u64,
    /// Number of datagrams that arrived at either end.
    pub datagrams: u64,
}

impl Scenario {
    /// Returns the sender's configuration.
    pub fn sender_config(&self) -> SenderConfig {
        let link = LinkProperties {
            rtt_s: self.rtt_s,
            speed_bps: self.speed_bps,
            loss_forward: self.loss_forward,
            loss_reverse: self.loss_reverse,
            buffer: self.buffer,
        };
        SenderConfig {
            packet_size: self.packet_size,
            attempts: self.attempts,
            ..SenderConfig::new(self.window, link)
        }
    }

    /// Returns the configuration of the reference receiver, for datagrams of this scenario's size.
    pub fn server_config(&self) -> ServerConfig {
        let receiver = ReceiverConfig {
            keep_payload: self.check_bytes,
            max_datagram: self.packet_size.max(ReceiverConfig::REFERENCE_DATAGRAM),
            faithful: true,
            ..ReceiverConfig::reference()
        };
        ServerConfig::new(receiver, LinkMode::Emulated { seed: self.seed })
    }

    /// Creates the simulation without running it, and returns also its sender and its server.
    ///
    /// # Panics
    /// If the numbers are not a valid configuration.
    pub fn prepare(&self) -> (Simulation, NodeId, NodeId) {
        let mut simulation = Simulation::new();
        let server = simulation.add_server(self.server_config());
        let sender = simulation
            .add_sender(self.sender_config(), server, self.bytes)
            .expect("the scenario's numbers are a valid configuration");
        (simulation, sender, server)
    }

    /// Runs the transfer to its end, or until virtual time `limit`.
    pub fn run(&self, limit: Duration) -> Report {
        let (mut simulation, sender, server) = self.prepare();
        simulation.run_senders(limit);
        let node = simulation.sender(sender);
        let server = simulation.server(server);
        Report {
            outcome: node.outcome.clone(),
            sender: node.stats(),
            received: server.transfers.get(&sender).cloned().unwrap_or_default(),
            server: server.server.stats(),
            elapsed: simulation.elapsed(),
            hash: simulation.hash(),
            datagrams: simulation.datagrams(),
        }
    }
}
