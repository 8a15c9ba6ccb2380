//! Sender of a native transfer: a set with the one connection that carries it.

use std::io;
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;
use rdt_transport::{
    Closed, ConfigError, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig,
    Ecn, Endpoint, FramePool, InitiatorConfig, Observer, SenderConfig, SenderStats, TransmitBuf,
};

use super::sending::{Outcome, Progress, Sending};
use crate::connection::{Protection, idle_timeout};
use crate::source::{Sink, Source, fill};

pub(crate) struct NativeSender {
    set: ConnectionSet<()>,
    id: ConnectionId,
    initiator: InitiatorConfig,
    config: ConnectionConfig,
    /// Number of SYNs sent to the present address.
    syns: u64,
}

impl NativeSender {
    /// Begins to open a connection to the peer of the socket, which has `give_up` to answer. The
    /// connection's stream takes frames from `memory`.
    pub(crate) fn open(
        now: Instant,
        config: ConnectionConfig,
        initiator: InitiatorConfig,
        give_up: Duration,
        (entropy, memory): (Entropy, FramePool),
    ) -> Result<Self, ConfigError> {
        let mut set = ConnectionSet::with_memory(ConnectionSetConfig::default(), entropy, memory);
        let id = set.connect(now, (), initiator.clone(), limited(&config, give_up))?;
        Ok(Self { set, id, initiator, config, syns: 0 })
    }
}

pub(crate) fn config_of(sender: SenderConfig, unencrypted: bool) -> ConnectionConfig {
    ConnectionConfig {
        idle_timeout: idle_timeout(&sender),
        sender,
        one_way: true,
        dangerously_unencrypted: unencrypted,
        ..ConnectionConfig::default()
    }
}

fn limited(config: &ConnectionConfig, handshake_give_up: Duration) -> ConnectionConfig {
    let sender = SenderConfig { handshake_give_up, ..config.sender.clone() };
    ConnectionConfig { sender, ..config.clone() }
}

impl Sending for NativeSender {
    fn observe(&mut self, observer: Box<dyn Observer>) {
        let now = rdt_udp::clock::now();
        self.set.with(now, self.id, |connection| connection.observe(observer));
    }

    fn open_again(&mut self, now: Instant, give_up: Duration, keys: Option<InitiatorConfig>) {
        let config = limited(&self.config, give_up);
        self.initiator = keys.unwrap_or_else(|| self.initiator.clone());
        // Cannot fail: `open` has checked the same configuration and keys.
        if let Ok(id) = self.set.connect(now, (), self.initiator.clone(), config) {
            self.set.release(now, self.id);
            self.id = id;
            self.syns = 0;
        }
    }

    fn progress(&mut self) -> Option<Progress> {
        loop {
            return Some(match self.poll_event()? {
                ConnectionEvent::Connected { .. } => Progress::Connected { rtt: None },
                ConnectionEvent::Delivered { .. } => Progress::Ended(Outcome::Finished { crc: None }),
                // Already reported as `Finished`, or caused by `abort`.
                ConnectionEvent::Closed(Closed::Finished | Closed::Local) => continue,
                ConnectionEvent::Closed(closed) => Progress::Ended(Outcome::Closed(closed)),
                _ => continue,
            });
        }
    }

    fn fill(&mut self, now: Instant, source: &mut Option<Box<dyn Source>>) -> io::Result<()> {
        self.set.with(now, self.id, |connection| fill(source, Sink::Connection(connection))).unwrap_or(Ok(()))
    }

    fn abort(&mut self, now: Instant) {
        self.set.with(now, self.id, |connection| connection.close(now, 0, ""));
    }

    fn syns(&self) -> u64 {
        self.syns
    }

    fn stats(&self) -> SenderStats {
        self.set.get(self.id).map(|connection| connection.stats().sender).unwrap_or_default()
    }

    fn protection(&self) -> Option<Protection> {
        let connection = self.set.get(self.id)?;
        Protection::of(connection.stats().aead, connection.peer())
    }
}

impl Endpoint for NativeSender {
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
        if self.set.get(self.id).is_some_and(|connection| connection.peer().is_none()) {
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
