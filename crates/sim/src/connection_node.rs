//! Node with a set of connections. Each side of a connection has an application that writes the
//! array of [`payload`](crate::payload) into its stream, and one that compares every byte of the
//! other stream with the array.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rdt_crypto::Entropy;
use rdt_transport::{
    Closed, ConfigError, Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet,
    ConnectionSetConfig, Endpoint, FramePool, InitiatorConfig, Observer,
};

use crate::application::Application;
use crate::node_id::NodeId;
use crate::read_policy::{ReadPolicy, Reader};
use crate::transfer::{Finish, Transfer};
use crate::writer::Writer;

/// One side of a connection, as its applications see it.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The other stream, as the application reads it.
    pub received: Transfer,
    /// Time at which this side opened the connection, or its handshake was complete (responder).
    pub opened_at: Instant,
    /// Time at which the handshake was complete.
    pub connected_at: Option<Instant>,
    /// Time at which the peer had confirmed the outgoing stream.
    pub delivered_at: Option<Instant>,
    /// End of the connection.
    pub closed: Option<Closed>,
    /// Time of the end.
    pub closed_at: Option<Instant>,
    writer: Writer,
    /// Read policy; `None` if the application reads immediately.
    reader: Option<Reader>,
    /// Virtual time of the next read, if the policy delays it.
    reads_at: Option<Duration>,
    /// Entry in [`ConnectionsNode::wakes`].
    wakes_at: Option<Duration>,
}

impl Exchange {
    fn new(now: Instant, elapsed: Duration, application: Application, policy: Option<ReadPolicy>) -> Self {
        Self {
            received: Transfer { starts: 1, ..Transfer::default() },
            opened_at: now,
            connected_at: None,
            delivered_at: None,
            closed: None,
            closed_at: None,
            writer: Writer::new(application, elapsed),
            reader: policy.map(Reader::new),
            reads_at: None,
            wakes_at: None,
        }
    }

    /// Returns the bytes written so far.
    pub fn written(&self) -> u64 {
        self.writer.written
    }

    fn on_event(&mut self, now: Instant, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Connected { .. } => self.connected_at = Some(now),
            ConnectionEvent::Finished { bytes, elapsed } => {
                self.received.finish = Some(Finish { bytes, crc: None, elapsed });
            }
            ConnectionEvent::Delivered { .. } => self.delivered_at = Some(now),
            ConnectionEvent::Closed(closed) => {
                self.received.closed = Some(self.received.completed_at.is_none());
                self.closed = Some(closed);
                self.closed_at = Some(now);
                self.writer.stop();
            }
            ConnectionEvent::Readable | ConnectionEvent::Writable => {}
        }
    }

    /// Reads what has arrived and writes what there is room for.
    fn run(&mut self, elapsed: Duration, bin: Option<Duration>, connection: &mut Connection) {
        let read = self.received.read(elapsed, self.reader.as_mut(), bin, connection);
        self.reads_at = read.next;
        if read.is_complete {
            connection.confirm();
        }
        if self.connected_at.is_some() {
            self.writer.write(elapsed, connection);
        }
    }

    /// Returns the virtual time at which one of the applications acts of its own accord.
    fn next(&self) -> Option<Duration> {
        let writes_at = self.writer.wakes_at.filter(|_| self.connected_at.is_some());
        writes_at.into_iter().chain(self.reads_at).min()
    }
}

/// Node with a set of connections and their applications.
pub struct ConnectionsNode {
    /// All connections of the node.
    pub set: ConnectionSet<NodeId>,
    /// Each connection that was opened or accepted, also those that have ended.
    pub exchanges: BTreeMap<ConnectionId, Exchange>,
    /// Application of accepted connections.
    pub(crate) answer: Application,
    /// Time before which the applications do nothing. `None`: they are not stalled.
    pub(crate) asleep_until: Option<Instant>,
    /// Width of the bins of goodput. `None`: not recorded.
    pub(crate) bin: Option<Duration>,
    /// Makes the observer of each connection that is accepted.
    pub(crate) observers: Option<Box<dyn FnMut() -> Box<dyn Observer>>>,
    /// Read policy of connections from now on.
    policy: Option<ReadPolicy>,
    /// Virtual times at which applications act of their own accord.
    wakes: BTreeSet<(Duration, ConnectionId)>,
    /// Start of virtual time.
    epoch: Instant,
}

impl ConnectionsNode {
    pub(crate) fn new(
        config: ConnectionSetConfig<NodeId>,
        entropy: Entropy,
        frames: FramePool,
        epoch: Instant,
    ) -> Self {
        Self {
            set: ConnectionSet::with_memory(config, entropy, frames),
            exchanges: BTreeMap::new(),
            answer: Application::transfer(0),
            asleep_until: None,
            bin: None,
            observers: None,
            policy: None,
            wakes: BTreeSet::new(),
            epoch,
        }
    }

    pub(crate) fn open(
        &mut self,
        now: Instant,
        to: NodeId,
        (keys, config): (InitiatorConfig, ConnectionConfig),
        application: Application,
    ) -> Result<ConnectionId, ConfigError> {
        let id = self.set.connect(now, to, keys, config)?;
        let elapsed = now.saturating_duration_since(self.epoch);
        self.exchanges.insert(id, Exchange::new(now, elapsed, application, self.policy));
        Ok(id)
    }

    /// Reports the events of this side's stream to `observer`.
    pub fn observe(&mut self, now: Instant, id: ConnectionId, observer: Box<dyn Observer>) {
        self.set.with(now, id, |connection| connection.observe(observer));
    }

    /// Sets the read policy of all connections, also of later ones.
    pub(crate) fn set_read_policy(&mut self, policy: ReadPolicy) {
        self.policy = Some(policy);
        for exchange in self.exchanges.values_mut() {
            exchange.reader = Some(Reader::new(policy));
        }
    }

    /// True if every connection has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.exchanges.values().all(|exchange| exchange.closed.is_some())
    }

    /// Handles events, then writes and reads. Returns true if it did anything.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        if self.asleep_until.is_some_and(|until| now < until) {
            return false;
        }
        self.asleep_until = None;
        let mut busy = false;
        while let Some((id, event)) = self.set.poll_event() {
            busy = true;
            let elapsed = now.saturating_duration_since(self.epoch);
            if !self.exchanges.contains_key(&id) {
                let observer = self.observers.as_mut().map(|make| make());
                self.set.with(now, id, |connection| observer.map(|observer| connection.observe(observer)));
                self.exchanges.insert(id, Exchange::new(now, elapsed, self.answer, self.policy));
            }
            let Some(exchange) = self.exchanges.get_mut(&id) else { continue };
            exchange.on_event(now, event);
            self.exchange(now, elapsed, id);
        }
        while let Some(&(at, id)) = self.wakes.first()
            && self.epoch + at <= now
        {
            busy = true;
            self.exchange(now, now.saturating_duration_since(self.epoch), id);
        }
        busy
    }

    /// Runs the applications of a connection.
    fn exchange(&mut self, now: Instant, elapsed: Duration, id: ConnectionId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        if let Some(at) = exchange.wakes_at.take() {
            self.wakes.remove(&(at, id));
        }
        let bin = self.bin;
        if self.set.with(now, id, |connection| exchange.run(elapsed, bin, connection)).is_some() {
            exchange.wakes_at = exchange.next();
            self.wakes.extend(exchange.wakes_at.map(|at| (at, id)));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let wake = match self.asleep_until {
            Some(until) => Some(until),
            None => self.wakes.first().map(|(at, _)| self.epoch + *at),
        };
        self.set.poll_timeout().into_iter().chain(wake).min()
    }
}
