//! Counters of a server, with sums over its links.

use rdt_emulator::{DelayHistogram, Ledger};
use rdt_transport::{AddressKey, ClassicStats, ConnectionSetStats, ReceiverStats};

use crate::Server;

/// Counters of a server.
#[derive(Debug, Clone)]
pub struct ServerStats {
    /// Counters of the classic senders.
    pub classic: ClassicStats,
    /// Counters of the native connections, and the largest memory of the receivers of both formats.
    pub connections: ConnectionSetStats,
    /// Sums over the receivers of all senders, including removed ones.
    pub receivers: ReceiverStats,
    /// Largest number of senders at once.
    pub max_active: usize,
    /// Sum over all forward links, including those of removed peers.
    pub forward: Ledger,
    /// Sum over all reverse links, including those of removed peers.
    pub reverse: Ledger,
    /// Delays from the due times of packets in reverse links until the server handled them.
    pub lateness: DelayHistogram,
    /// Highest memory of the packets inside all links together, bytes.
    pub max_link_memory: u64,
    /// Number of datagrams that were not native, which a server without classic senders dropped.
    pub classic_dropped: u64,
    /// Number of replies dropped because too many waited for the socket.
    pub outgoing_dropped: u64,
}

impl ServerStats {
    /// Returns the number of senders that connected.
    pub fn senders(&self) -> u64 {
        self.classic.admitted + self.connections.accepted
    }

    /// Returns an upper bound of the memory of receivers and links, bytes: the sum of both maxima.
    pub fn max_memory(&self) -> u64 {
        self.connections.max_memory + self.max_link_memory
    }

    /// Adds the counters of another server. Maxima are added too, although their times may differ.
    pub fn merge(&mut self, other: &Self) {
        self.classic.merge(&other.classic);
        self.connections.merge(&other.connections);
        self.receivers.merge(&other.receivers);
        self.max_active += other.max_active;
        self.forward.merge(&other.forward);
        self.reverse.merge(&other.reverse);
        self.lateness.merge(&other.lateness);
        self.max_link_memory += other.max_link_memory;
        self.classic_dropped += other.classic_dropped;
        self.outgoing_dropped += other.outgoing_dropped;
    }
}

impl<P: AddressKey> Server<P> {
    /// Returns the current counters.
    pub fn stats(&self) -> ServerStats {
        let classic = self.classic().stats();
        let mut receivers = classic.receivers;
        receivers.merge(&self.transfers.receivers(&self.peers));
        let (mut forward, mut reverse) = (self.links.removed_forward, self.links.removed_reverse);
        for peer in self.links.paths.values() {
            forward.merge(peer.path.forward.ledger());
            reverse.merge(peer.path.reverse.ledger());
        }
        ServerStats {
            classic,
            connections: self.peers.stats(),
            receivers,
            max_active: self.max_active,
            forward,
            reverse,
            lateness: self.lateness.clone(),
            max_link_memory: self.links.max_memory,
            classic_dropped: self.classic_dropped,
            outgoing_dropped: self.outgoing.dropped,
        }
    }
}
