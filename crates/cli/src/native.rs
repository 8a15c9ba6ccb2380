//! State machine of a native transfer: a set with the one connection that carries it.

use std::io;
use std::time::Instant;

use rdt_crypto::Entropy;
use rdt_transport::{
    ConfigError, Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet,
    ConnectionSetConfig, Ecn, Endpoint, FramePool, InitiatorConfig, Observer, SenderConfig, SenderStats,
    TransmitBuf,
};
use rdt_trust::Attempt;

use crate::connection::Protection;
use crate::packets::{Machine, Progress};
use crate::source::Source;

/// What a transfer does with its connection.
pub(crate) trait Role {
    /// Records that a connection begins to open.
    fn opened(&mut self, _now: Instant, _attempt: Attempt) {}

    fn on_event(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        event: ConnectionEvent,
    ) -> Option<Progress>;

    /// Reads from `source` what fits, or takes what has arrived.
    fn work(
        &mut self,
        now: Instant,
        connection: &mut Connection,
        source: &mut Option<Box<dyn Source>>,
    ) -> io::Result<Option<Progress>>;

    /// Returns when to call [`Role::work`] without input.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns the counts of the transfer by those of its connection.
    fn stats(&self, connection: SenderStats) -> SenderStats {
        connection
    }
}

pub(crate) struct Native<R> {
    set: ConnectionSet<()>,
    /// `None` before the first address is tried.
    id: Option<ConnectionId>,
    initiator: InitiatorConfig,
    config: ConnectionConfig,
    /// Number of SYNs sent to the present address.
    syns: u64,
    pub(crate) role: R,
}

impl<R: Role> Native<R> {
    /// Creates a machine without a connection, whose stream will take frames from `memory`.
    pub(crate) fn new(
        role: R,
        (config, environment): (ConnectionConfig, ConnectionSetConfig<()>),
        initiator: InitiatorConfig,
        (entropy, memory): (Entropy, FramePool),
    ) -> Self {
        let set = ConnectionSet::with_memory(environment, entropy, memory);
        Self { set, id: None, initiator, config, syns: 0, role }
    }

    fn connection(&self) -> Option<&Connection> {
        self.set.get(self.id?)
    }

    fn with<T>(&mut self, now: Instant, act: impl FnOnce(&mut R, &mut Connection) -> T) -> Option<T> {
        let role = &mut self.role;
        self.set.with(now, self.id?, |connection| act(role, connection))
    }
}

impl<R: Role> Machine for Native<R> {
    fn open(
        &mut self,
        now: Instant,
        attempt: Attempt,
        keys: Option<InitiatorConfig>,
    ) -> Result<(), ConfigError> {
        let sender = SenderConfig { handshake_give_up: attempt.give_up, ..self.config.sender.clone() };
        let config = ConnectionConfig { sender, ..self.config.clone() };
        self.initiator = keys.unwrap_or_else(|| self.initiator.clone());
        let id = self.set.connect(now, (), self.initiator.clone(), config)?;
        if let Some(earlier) = self.id.replace(id) {
            self.set.release(now, earlier);
        }
        self.syns = 0;
        self.role.opened(now, attempt);
        Ok(())
    }

    fn observe(&mut self, observer: Box<dyn Observer>) {
        self.with(rdt_udp::clock::now(), |_, connection| connection.observe(observer));
    }

    fn progress(&mut self, now: Instant) -> Option<Progress> {
        loop {
            let event = self.poll_event()?;
            let progress = self.with(now, |role, connection| role.on_event(now, connection, event));
            if let Some(progress) = progress.flatten() {
                return Some(progress);
            }
        }
    }

    fn work(&mut self, now: Instant, source: &mut Option<Box<dyn Source>>) -> io::Result<Option<Progress>> {
        self.with(now, |role, connection| role.work(now, connection, source)).unwrap_or(Ok(None))
    }

    fn deadline(&self) -> Option<Instant> {
        self.role.deadline()
    }

    fn abort(&mut self, now: Instant) {
        self.with(now, |_, connection| connection.close(now, 0, ""));
    }

    fn syns(&self) -> u64 {
        self.syns
    }

    fn stats(&self) -> SenderStats {
        self.role.stats(self.connection().map(|connection| connection.stats().sender).unwrap_or_default())
    }

    fn protection(&self) -> Option<Protection> {
        let connection = self.connection()?;
        Protection::of(connection.stats().aead, connection.peer())
    }
}

impl<R: Role> Endpoint for Native<R> {
    type Peer = ();
    type Event = ConnectionEvent;

    fn handle_datagram(&mut self, now: Instant, (): (), ecn: Ecn, datagram: &mut [u8]) {
        self.set.handle_datagram(now, (), ecn, datagram);
    }

    fn handle_datagrams(&mut self, now: Instant, (): (), ecn: Ecn, bytes: &mut [u8], stride: usize) -> usize {
        self.set.handle_datagrams(now, (), ecn, bytes, stride)
    }

    fn handle_refused(&mut self, now: Instant, (): (), reports: u64) {
        self.set.handle_refused(now, (), reports);
    }

    fn handle_overflow(&mut self, messages: u64) {
        self.set.handle_overflow(messages);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.set.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<()> {
        let before = out.segments();
        self.set.poll_transmit(now, out)?;
        if self.connection().is_some_and(|connection| connection.peer().is_none()) {
            self.syns += (out.segments() - before) as u64;
        }
        Some(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.set.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<ConnectionEvent> {
        self.set.poll_event().map(|(_, event)| event)
    }
}
