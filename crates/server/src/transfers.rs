//! Native connections of a server: one transfer each, from the initiator to the server.

use std::collections::BTreeSet;
use std::time::Instant;

use rdt_crypto::Entropy;
use rdt_transport::{
    AddressKey, ClassicConfig, Closed, Confirm, ConnectionConfig, ConnectionEvent, ConnectionId,
    ConnectionSet, ConnectionSetConfig, Endpoint, ReceiverConfig, ReceiverEvent, ReceiverStats,
    ResponderConfig,
};

use crate::ServerConfig;

/// What a server knows of its native connections.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// Connections whose transfers are unfinished.
    pub(crate) open: BTreeSet<ConnectionId>,
    /// Finished connections with a link, which may repeat their last answers.
    pub(crate) ended: BTreeSet<ConnectionId>,
    /// Connections that the set has removed and whose links may still carry their last answers.
    pub(crate) draining: BTreeSet<ConnectionId>,
    /// [`ConnectionSet::removed`] when `ended` was last looked through.
    pub(crate) removed_before: u64,
    /// Counters of connections that have ended.
    removed: ReceiverStats,
}

/// Returns the limits of the peers of a server. `base` has what its configuration leaves open.
pub(crate) fn limits<P: Copy>(
    config: &ServerConfig,
    base: &ConnectionSetConfig<P>,
) -> ConnectionSetConfig<P> {
    let classic = ClassicConfig { receiver: config.receiver, idle: config.idle };
    ConnectionSetConfig {
        classic: config.classic.then_some(classic),
        max_connections: config.max_peers,
        max_connections_per_source: config.max_peers_per_source,
        memory_limit: config.memory_limit,
        connection_memory_limit: config.peer_memory_limit,
        socket_buffer: config.socket_buffer,
        ..*base
    }
}

/// Returns a set that accepts native connections, too.
pub(crate) fn listening<P: AddressKey>(
    config: &ServerConfig,
    mut responder: ResponderConfig,
    base: ConnectionSetConfig<P>,
    entropy: Entropy,
) -> ConnectionSet<P> {
    responder.config = ConnectionConfig {
        receiver: ReceiverConfig { checksum: false, ..config.receiver },
        idle_timeout: config.native_idle,
        confirm: Confirm::ByApplication,
        one_way: true,
        ..responder.config
    };
    let mut set = ConnectionSet::new(limits(config, &base), entropy);
    set.listen(responder);
    set
}

impl Transfers {
    /// Returns the next event of a connection as an event of its transfer. Ended connections are
    /// released: their last answers are repeated, and what was not read is void.
    pub(crate) fn poll_event<P: AddressKey>(
        &mut self,
        now: Instant,
        set: &mut ConnectionSet<P>,
    ) -> Option<(ConnectionId, ReceiverEvent)> {
        loop {
            let (id, event) = set.poll_event()?;
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
                    if let Some(connection) = set.get(id) {
                        self.removed.merge(&connection.stats().receiver);
                    }
                    set.release(now, id);
                    ReceiverEvent::Closed { unfinished: closed != Closed::Finished }
                }
                ConnectionEvent::Writable | ConnectionEvent::Delivered { .. } => continue,
            };
            return Some((id, event));
        }
    }

    /// Returns the sum of the counters of all receivers.
    pub(crate) fn receivers<P: AddressKey>(&self, set: &ConnectionSet<P>) -> ReceiverStats {
        let mut sum = self.removed;
        for connection in self.open.iter().filter_map(|id| set.get(*id)) {
            sum.merge(&connection.stats().receiver);
        }
        sum
    }
}
