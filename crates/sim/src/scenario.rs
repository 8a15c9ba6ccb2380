//! Scenario: one transfer over one link, described by a few numbers, and its report.

use std::time::Duration;

use rdt_payload as payload;
use rdt_server::{LinkMode, ServerConfig, ServerStats};
use rdt_transport::{Attempts, LinkProperties, ReceiverConfig, SenderConfig, SenderStats};

use crate::{NodeId, Outcome, Simulation, Transfer};

/// A transfer from one sender to one server over the link that the sender asks for.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Sender's window, packets.
    pub window: u32,
    /// Round-trip propagation time, seconds.
    pub rtt_s: f32,
    /// Rate of each direction, bits per second.
    pub speed_bps: f32,
    /// Loss probability towards the receiver.
    pub loss_forward: f32,
    /// Loss probability towards the sender.
    pub loss_reverse: f32,
    /// Router buffer, packets.
    pub buffer: u32,
    /// Bytes to transfer.
    pub bytes: u64,
    /// Bytes of a full datagram.
    pub packet_size: usize,
    /// Attempt limits.
    pub attempts: Attempts,
    /// Seed of every draw.
    pub seed: u64,
    /// True to keep and check every byte at the receiver; false to check only the CRC-32 and the
    /// count.
    pub check_bytes: bool,
}

impl Default for Scenario {
    /// 2^14 words, window 10, 100 ms, 1 Gbit/s, no loss.
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

/// Result of a scenario.
#[derive(Debug, Clone)]
pub struct Report {
    /// End of the transfer.
    pub outcome: Outcome,
    /// The sender's counters.
    pub sender: SenderStats,
    /// The transfer as received.
    pub received: Transfer,
    /// The server's counters.
    pub server: ServerStats,
    /// Virtual time from the first SYN to the end.
    pub elapsed: Duration,
    /// Hash of all arrivals; see [`Simulation::hash`].
    pub hash: u64,
    /// Datagrams that arrived at either end.
    pub datagrams: u64,
}

impl Scenario {
    /// The sender's configuration.
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

    /// The server's configuration: the reference receiver, for datagrams of this scenario's size.
    pub fn server_config(&self) -> ServerConfig {
        let receiver = ReceiverConfig {
            keep_payload: self.check_bytes,
            max_datagram: self.packet_size.max(ReceiverConfig::REFERENCE_DATAGRAM),
            ..ReceiverConfig::reference()
        };
        ServerConfig::new(receiver, LinkMode::Emulated { seed: self.seed })
    }

    /// A simulation with this sender (returned first) and its server, not yet run.
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

    /// Runs the transfer to its end, at most `limit` of virtual time.
    pub fn run(&self, limit: Duration) -> Report {
        let (mut simulation, sender, server) = self.prepare();
        simulation.run_senders(limit);
        let node = simulation.sender(sender);
        let server = simulation.server(server);
        Report {
            outcome: node.outcome.clone(),
            sender: node.sender.stats(),
            received: server.transfers.get(&sender).cloned().unwrap_or_default(),
            server: server.server.stats(),
            elapsed: simulation.elapsed(),
            hash: simulation.hash(),
            datagrams: simulation.datagrams(),
        }
    }
}
