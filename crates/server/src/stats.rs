//! Counters of a server, with sums over its links.

use std::fmt::Debug;
use std::hash::Hash;

use rdt_emulator::{DelayHistogram, Ledger};
use rdt_transport::ListenerStats;

use crate::Server;

/// Counters of a server.
#[derive(Debug, Clone)]
pub struct ServerStats {
    /// Counters of the listener: datagrams and receivers.
    pub listener: ListenerStats,
    /// Sum over all forward links, including those of removed peers.
    pub forward: Ledger,
    /// Sum over all reverse links, including those of removed peers.
    pub reverse: Ledger,
    /// Delays from the due times of packets in reverse links until the server handled them.
    pub lateness: DelayHistogram,
    /// Highest memory of the packets inside all links together, bytes.
    pub max_link_memory: u64,
    /// Number of replies dropped because too many waited for the socket.
    pub outgoing_dropped: u64,
}

impl ServerStats {
    /// Adds the counters of another server. Maxima are added too, although the servers may have
    /// reached them at different times.
    pub fn merge(&mut self, other: &Self) {
        self.listener.merge(&other.listener);
        self.forward.merge(&other.forward);
        self.reverse.merge(&other.reverse);
        self.lateness.merge(&other.lateness);
        self.max_link_memory += other.max_link_memory;
        self.outgoing_dropped += other.outgoing_dropped;
    }
}

impl<P: Copy + Ord + Debug + Hash> Server<P> {
    /// Returns the current counters.
    pub fn stats(&self) -> ServerStats {
        let (mut forward, mut reverse) = (self.removed_forward, self.removed_reverse);
        for peer in self.paths.values() {
            forward.merge(peer.path.forward.ledger());
            reverse.merge(peer.path.reverse.ledger());
        }
        ServerStats {
            listener: self.listener.stats(),
            forward,
            reverse,
            lateness: self.lateness.clone(),
            max_link_memory: self.max_link_memory,
            outgoing_dropped: self.outgoing_dropped,
        }
    }
}
