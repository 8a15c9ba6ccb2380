//! Counters of a server.

use rdt_emulator::{DelayHistogram, Ledger};
use rdt_transport::ListenerStats;

/// A snapshot of everything a server counted.
#[derive(Debug, Clone)]
pub struct ServerStats {
    /// Datagrams and receivers.
    pub listener: ListenerStats,
    /// All forward links, those that are gone included.
    pub forward: Ledger,
    /// All reverse links, those that are gone included.
    pub reverse: Ledger,
    /// How late packets left the reverse links.
    pub lateness: DelayHistogram,
    /// Largest memory that all links held together, in bytes.
    pub max_link_memory: u64,
    /// Replies thrown away because nobody took them fast enough.
    pub outgoing_dropped: u64,
}

impl ServerStats {
    /// Adds what another server counted; maxima of servers that ran at the same time are added up, which they
    /// may not have reached together.
    pub fn merge(&mut self, other: &Self) {
        self.listener.merge(&other.listener);
        self.forward.merge(&other.forward);
        self.reverse.merge(&other.reverse);
        self.lateness.merge(&other.lateness);
        self.max_link_memory += other.max_link_memory;
        self.outgoing_dropped += other.outgoing_dropped;
    }
}
