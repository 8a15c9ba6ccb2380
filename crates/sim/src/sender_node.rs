//! Sender of one transfer to a server: a classic sender, or the side that opens a connection.

use std::time::{Duration, Instant};

use rdt_crypto::Aead;
use rdt_transport::{
    Closed, ConfigError, Connection, ConnectionConfig, ConnectionId, ConnectionSetConfig, ConnectionStats,
    Endpoint, FramePool, InitiatorConfig, Observer, Phase, Sender, SenderConfig, SenderEvent, SenderStats,
    TransferError, Wire,
};

use crate::application::Application;
use crate::connection_node::{ConnectionsNode, Exchange};
use crate::node_id::{NodeId, entropy};
use crate::server_node::identity;
use crate::writer::Writer;

/// Bounds of the silence of the server after which a connection ends. Between them it is the
/// sender's give-up time, as in `rdt-send`.
const IDLE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(86_400));

/// State of a sender's transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The transfer has not ended.
    Running,
    /// The transfer succeeded: the FIN-ACK arrived.
    Finished {
        /// CRC-32 of the stream, computed by the receiver (classic).
        crc: Option<u32>,
    },
    /// The transfer failed (classic).
    Failed {
        /// Phase of the transfer at the failure.
        phase: Phase,
        /// Cause of the failure.
        error: TransferError,
    },
    /// The connection ended before the server confirmed the transfer (native).
    Closed(Closed),
}

impl Outcome {
    /// True if the transfer succeeded.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }
}

/// What a simulation gives to each of its senders.
pub(crate) struct SenderEnv {
    pub(crate) id: NodeId,
    pub(crate) epoch: Instant,
    pub(crate) now: Instant,
    pub(crate) frames: FramePool,
    pub(crate) cipher: Aead,
}

/// A sender and its application.
pub struct SenderNode {
    pub(crate) machine: Machine,
    /// State of the transfer.
    pub outcome: Outcome,
    /// Time at which the application opened the connection. `None` before its start.
    pub opened_at: Option<Instant>,
    /// Time at which the transfer succeeded or failed. `None` while it is running.
    pub ended_at: Option<Instant>,
    pub(crate) server: NodeId,
    /// Start of virtual time.
    epoch: Instant,
    /// Virtual time at which the application opens the connection.
    start: Duration,
}

pub(crate) enum Machine {
    Classic { sender: Box<Sender>, writer: Writer },
    Native(Box<Initiator>),
}

/// Set with the one connection that carries a transfer.
pub(crate) struct Initiator {
    pub(crate) node: ConnectionsNode,
    config: ConnectionConfig,
    application: Application,
    /// `None` before the start.
    id: Option<ConnectionId>,
    /// Observer that is not attached yet.
    observer: Option<Box<dyn Observer>>,
}

impl Initiator {
    fn new(config: SenderConfig, application: Application, env: &SenderEnv) -> Self {
        let entropy = entropy(config.seed, env.id, env.now - env.epoch);
        let set = ConnectionSetConfig::default();
        let idle_timeout = config.give_up.clamp(IDLE.0, IDLE.1);
        Self {
            node: ConnectionsNode::new(set, entropy, env.frames.clone(), env.epoch),
            config: ConnectionConfig {
                sender: config,
                one_way: true,
                idle_timeout,
                aead: Some(env.cipher).filter(|cipher| cipher.is_encrypted()),
                dangerously_unencrypted: !env.cipher.is_encrypted(),
                ..ConnectionConfig::default()
            },
            application,
            id: None,
            observer: None,
        }
    }

    fn open(&mut self, now: Instant, server: NodeId) {
        let keys = InitiatorConfig { remote: Some(identity().public()), ..InitiatorConfig::default() };
        let opened = self.node.open(now, server, (keys, self.config.clone()), self.application);
        // The configuration was checked before.
        self.id = opened.ok();
    }

    fn pump(&mut self, now: Instant) -> bool {
        if let (Some(id), Some(observer)) = (self.id, self.observer.take_if(|_| self.id.is_some())) {
            self.node.observe(now, id, observer);
        }
        self.node.pump(now)
    }

    /// Returns why the connection ended; `None` before.
    fn closed(&self) -> Option<&Closed> {
        self.node.exchanges.get(&self.id?)?.closed.as_ref()
    }
}

impl SenderNode {
    /// Creates a sender, which opens the connection at once if its application has started.
    pub(crate) fn new(
        config: SenderConfig,
        server: NodeId,
        application: Application,
        env: &SenderEnv,
    ) -> Result<Self, ConfigError> {
        let elapsed = env.now - env.epoch;
        let machine = match config.wire {
            Wire::Classic => Machine::Classic {
                sender: Box::new(Sender::with_memory(config, env.frames.clone())?),
                writer: Writer::new(application, elapsed),
            },
            Wire::Native => {
                config.validate()?;
                Machine::Native(Box::new(Initiator::new(config, application, env)))
            }
        };
        let mut node = Self {
            machine,
            outcome: Outcome::Running,
            opened_at: None,
            ended_at: None,
            server,
            epoch: env.epoch,
            start: application.start.max(elapsed),
        };
        node.open_if_due(env.now);
        Ok(node)
    }

    /// Returns the configuration of the sender.
    pub fn config(&self) -> &SenderConfig {
        match &self.machine {
            Machine::Classic { sender, .. } => sender.config(),
            Machine::Native(initiator) => &initiator.config.sender,
        }
    }

    /// Returns the counters and gauges of the sender; those of a connection begin with its
    /// handshake complete.
    pub fn stats(&self) -> SenderStats {
        match &self.machine {
            Machine::Classic { sender, .. } => sender.stats(),
            Machine::Native(_) => self.connection().sender,
        }
    }

    /// Returns the counters and gauges of the connection (native). All are zero before the
    /// handshake is complete.
    pub fn connection(&self) -> ConnectionStats {
        let Machine::Native(initiator) = &self.machine else { return ConnectionStats::default() };
        let connection = initiator.id.and_then(|id| initiator.node.set.get(id));
        connection.map(Connection::stats).unwrap_or_default()
    }

    /// Returns the bytes that the application has written so far.
    pub fn written(&self) -> u64 {
        match &self.machine {
            Machine::Classic { writer, .. } => writer.written,
            Machine::Native(initiator) => {
                let exchange = initiator.id.and_then(|id| initiator.node.exchanges.get(&id));
                exchange.map_or(0, Exchange::written)
            }
        }
    }

    /// Reports the events of the sender to `observer`.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        match &mut self.machine {
            Machine::Classic { sender, .. } => sender.observe(observer),
            Machine::Native(initiator) => initiator.observer = Some(observer),
        }
    }

    fn open_if_due(&mut self, now: Instant) {
        if self.opened_at.is_some() || now < self.epoch + self.start {
            return;
        }
        self.opened_at = Some(now);
        match &mut self.machine {
            // Cannot fail: the sender is new.
            Machine::Classic { sender, .. } => drop(sender.open()),
            Machine::Native(initiator) => initiator.open(now, self.server),
        }
    }

    /// Writes what the application has and handles events. Returns true if another call may have
    /// more to do.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        self.open_if_due(now);
        if self.opened_at.is_none() {
            return false;
        }
        let (busy, outcome) = match &mut self.machine {
            Machine::Classic { sender, writer, .. } => {
                let mut busy = writer.write(now - self.epoch, &mut **sender);
                let mut outcome = None;
                while let Some(event) = sender.poll_event() {
                    busy = true;
                    outcome = match event {
                        SenderEvent::Connected { .. } => continue,
                        SenderEvent::Finished { crc } => Some(Outcome::Finished { crc: Some(crc) }),
                        SenderEvent::Failed { phase, error } => Some(Outcome::Failed { phase, error }),
                    };
                    writer.stop();
                }
                (busy, outcome)
            }
            Machine::Native(initiator) => {
                if !initiator.pump(now) {
                    return false;
                }
                let closed = initiator.closed().filter(|_| self.ended_at.is_none());
                let outcome = closed.map(|closed| match closed {
                    Closed::Finished => Outcome::Finished { crc: None },
                    closed => Outcome::Closed(closed.clone()),
                });
                (true, outcome)
            }
        };
        if let Some(outcome) = outcome {
            self.outcome = outcome;
            self.ended_at = Some(now);
        }
        busy
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.opened_at.is_none() {
            return Some(self.epoch + self.start);
        }
        match &self.machine {
            Machine::Classic { sender, writer, .. } => {
                sender.poll_timeout().into_iter().chain(writer.wakes_at.map(|at| self.epoch + at)).min()
            }
            Machine::Native(initiator) => initiator.node.deadline(),
        }
    }
}
