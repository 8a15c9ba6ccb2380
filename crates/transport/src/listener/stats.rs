//! What a listener counted, and its sums over receivers and listeners.

use std::fmt::Debug;
use std::hash::Hash;

use super::Listener;
use crate::ReceiverStats;

/// What a listener counted. Datagrams unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenerStats {
    /// Datagrams taken in.
    pub received: u64,
    /// Dropped: no packet of a sender.
    pub malformed: u64,
    /// Dropped: longer than the limit.
    pub too_long: u64,
    /// Dropped: data or FIN of a peer without a transfer.
    pub no_connection: u64,
    /// Of those: answered, in the native format, that there is no such connection.
    pub no_connection_told: u64,
    /// Dropped: a SYN while there were as many peers as allowed.
    pub refused: u64,
    /// SYNs that were asked for a cookie.
    pub retries: u64,
    /// Of the malformed: SYNs of other versions that were told which ones are spoken here.
    pub other_versions: u64,
    /// SYNs that were told nothing: too many others waited for their answer.
    pub unanswered: u64,
    /// Peers that were forgotten and not told why: too many others waited to be told.
    pub unsaid: u64,
    /// Peers admitted so far.
    pub admitted: u64,
    /// Largest number of peers at once.
    pub max_active: usize,
    /// Largest memory held by all receivers together, in bytes.
    pub max_memory: u64,
    /// Sums over the receivers, those that are gone included.
    pub receivers: ReceiverStats,
}

impl ListenerStats {
    /// Adds what another listener counted; the maxima are added up too.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.too_long += other.too_long;
        self.no_connection += other.no_connection;
        self.no_connection_told += other.no_connection_told;
        self.refused += other.refused;
        self.retries += other.retries;
        self.other_versions += other.other_versions;
        self.unanswered += other.unanswered;
        self.unsaid += other.unsaid;
        self.admitted += other.admitted;
        self.max_active += other.max_active;
        self.max_memory += other.max_memory;
        self.receivers.merge(&other.receivers);
    }
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Counters as they stand.
    pub fn stats(&self) -> ListenerStats {
        let mut stats = self.stats;
        stats.unanswered = self.notices.unanswered();
        stats.unsaid = self.notices.unsaid();
        stats.receivers = self.gone;
        for entry in self.peers.values() {
            stats.receivers.merge(&entry.receiver.stats());
        }
        stats
    }
}
