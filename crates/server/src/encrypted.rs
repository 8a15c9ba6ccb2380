//! Encrypted connections of a server (version 2 of the native format): one transfer each, whose
//! stream goes from the initiator to the server.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use rdt_transport::{
    Closed, Confirm, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig,
    ReceiverConfig, ReceiverEvent, ReceiverStats, ResponderConfig, TransmitBuf,
};

use crate::ServerConfig;

/// Datagrams in the batch from which replies enter the links.
const BATCH_SEGMENTS: usize = 64;

#[derive(Debug)]
pub(crate) struct Encrypted<P> {
    pub(crate) set: ConnectionSet<P>,
    /// Connections whose transfers are unfinished.
    pub(crate) open: BTreeSet<ConnectionId>,
    /// Finished connections with a link, which may repeat their last answers.
    pub(crate) ended: BTreeSet<ConnectionId>,
    /// Connections that the set has removed and whose links may still carry their last answers.
    pub(crate) draining: BTreeSet<ConnectionId>,
    /// [`ConnectionSet::removed`] when `ended` was last looked through.
    pub(crate) removed_before: u64,
    /// Batch of replies that enter the links.
    pub(crate) batch: TransmitBuf,
    /// True if the listener had the last turn to transmit.
    pub(crate) is_next: bool,
    /// Counters of connections that have ended.
    removed: ReceiverStats,
}

impl<P: Copy + Ord + Debug + Hash> Encrypted<P> {
    /// Creates a set that accepts connections. `base` has what the limits of the server leave open.
    pub(crate) fn new(
        config: &ServerConfig,
        mut responder: ResponderConfig,
        base: ConnectionSetConfig<P>,
        entropy: rdt_crypto::Entropy,
    ) -> Self {
        let limits = config.listener;
        responder.config = ConnectionConfig {
            receiver: ReceiverConfig { checksum: false, ..limits.receiver },
            idle_timeout: limits.native_idle,
            confirm: Confirm::ByApplication,
            one_way: true,
            ..responder.config
        };
        let per_source = usize::try_from(limits.max_peers_per_source).unwrap_or(usize::MAX);
        let set_config = ConnectionSetConfig {
            max_connections: limits.max_peers,
            max_connections_per_source: per_source,
            memory_limit: limits.memory_limit,
            connection_memory_limit: limits.peer_memory_limit,
            socket_buffer: limits.socket_buffer,
            ..base
        };
        let mut set = ConnectionSet::new(set_config, entropy);
        set.listen(responder);
        Self {
            set,
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            draining: BTreeSet::new(),
            removed_before: 0,
            batch: TransmitBuf::new(BATCH_SEGMENTS),
            is_next: false,
            removed: ReceiverStats::default(),
        }
    }

    /// Returns the next event of a connection as an event of its transfer. Ended connections are
    /// released: their last answers are repeated, and what was not read is void.
    pub(crate) fn poll_event(&mut self, now: Instant) -> Option<(ConnectionId, ReceiverEvent)> {
        use rdt_transport::Endpoint as _;
        loop {
            let (id, event) = self.set.poll_event()?;
            let event = match event {
                ConnectionEvent::Connected { .. } => {
                    self.open.insert(id);
                    ReceiverEvent::Connected
                }
                ConnectionEvent::Readable => ReceiverEvent::Readable,
                // A stream has no checksum: its packets are authentic.
                ConnectionEvent::Finished { bytes, elapsed } => {
                    ReceiverEvent::Finished { bytes, crc: 0, elapsed }
                }
                ConnectionEvent::Closed(closed) => {
                    self.open.remove(&id);
                    if let Some(connection) = self.set.get(id) {
                        self.removed.merge(&connection.stats().receiver);
                    }
                    self.set.release(now, id);
                    ReceiverEvent::Closed { unfinished: closed != Closed::Finished }
                }
                ConnectionEvent::Writable | ConnectionEvent::Delivered { .. } => continue,
            };
            return Some((id, event));
        }
    }

    /// Returns the sum of the counters of all receivers.
    pub(crate) fn receivers(&self) -> ReceiverStats {
        let mut sum = self.removed;
        for connection in self.open.iter().filter_map(|id| self.set.get(*id)) {
            sum.merge(&connection.stats().receiver);
        }
        sum
    }
}
