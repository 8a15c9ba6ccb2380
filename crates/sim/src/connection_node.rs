//! Node with a set of connections. Each side of a connection writes the array of `rdt-payload` into
//! its stream, and compares every byte of the other stream with the array.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::payload;
use rdt_crypto::Entropy;
use rdt_transport::{Closed, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig, Endpoint};

use crate::node::NodeId;

/// One side of a connection, as its application sees it.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// Length of the outgoing stream, bytes.
    pub bytes: u64,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes read of the other stream.
    pub read: u64,
    /// Length of the other stream, once all of it has arrived.
    pub peer_bytes: Option<u64>,
    /// True if a byte differed from the array.
    pub is_corrupt: bool,
    /// Time at which the handshake was complete.
    pub connected_at: Option<Instant>,
    /// Time at which the peer had confirmed the outgoing stream.
    pub delivered_at: Option<Instant>,
    /// End of the connection.
    pub closed: Option<Closed>,
    /// Time of the end.
    pub closed_at: Option<Instant>,
    is_finished: bool,
}

impl Exchange {
    fn new(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Handles an event. Returns false if there is nothing more to do.
    fn on_event(&mut self, now: Instant, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Connected { .. } => self.connected_at = Some(now),
            ConnectionEvent::Finished { bytes, .. } => self.peer_bytes = Some(bytes),
            ConnectionEvent::Delivered { .. } => self.delivered_at = Some(now),
            ConnectionEvent::Closed(closed) => {
                self.closed = Some(closed);
                self.closed_at = Some(now);
            }
            _ => {}
        }
    }
}

/// Node with a set of connections and their applications.
pub struct ConnectionsNode {
    /// All connections of the node.
    pub set: ConnectionSet<NodeId>,
    /// Each connection that was opened or accepted, also those that have ended.
    pub exchanges: BTreeMap<ConnectionId, Exchange>,
    /// Length of the stream that accepted connections send, bytes.
    pub(crate) answer: u64,
    /// Time before which the applications do nothing. `None`: they are not stalled.
    pub(crate) asleep_until: Option<Instant>,
}

impl ConnectionsNode {
    pub(crate) fn new(config: ConnectionSetConfig<NodeId>, seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            set: ConnectionSet::new(config, Entropy::from_seed(key)),
            exchanges: BTreeMap::new(),
            answer: 0,
            asleep_until: None,
        }
    }

    pub(crate) fn add(&mut self, id: ConnectionId, bytes: u64) {
        self.exchanges.insert(id, Exchange::new(bytes));
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
            let answer = self.answer;
            let exchange = self.exchanges.entry(id).or_insert_with(|| Exchange::new(answer));
            exchange.on_event(now, event);
            self.exchange(now, id);
        }
        busy
    }

    /// Writes what there is room for and reads what has arrived.
    fn exchange(&mut self, now: Instant, id: ConnectionId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        self.set.with(now, id, |connection| {
            while !connection.data().is_empty() {
                let data = connection.data();
                exchange.is_corrupt |= !payload::matches(exchange.read, data);
                let n = data.len();
                exchange.read += n as u64;
                connection.consume(n);
            }
            if exchange.connected_at.is_none() || exchange.closed.is_some() {
                return;
            }
            while exchange.written < exchange.bytes {
                let Ok(spare) = connection.spare() else { return };
                let rest = usize::try_from(exchange.bytes - exchange.written).unwrap_or(usize::MAX);
                let mut n = 0;
                for piece in spare.within(rest) {
                    payload::fill(exchange.written + n as u64, piece);
                    n += piece.len();
                }
                if n == 0 {
                    return;
                }
                connection.advance(n);
                exchange.written += n as u64;
            }
            if !std::mem::replace(&mut exchange.is_finished, true) {
                connection.finish();
            }
        });
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.set.poll_timeout().into_iter().chain(self.asleep_until).min()
    }
}
