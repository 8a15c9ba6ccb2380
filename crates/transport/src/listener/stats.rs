//! Counters of a listener, with sums over its receivers.

use std::fmt::Debug;
use std::hash::Hash;

use super::Listener;
use crate::ReceiverStats;

/// Counters of a listener, in datagrams unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenerStats {
    /// Datagrams received.
    pub received: u64,
    /// Dropped: not decodable as a packet of a sender.
    pub malformed: u64,
    /// Dropped: longer than [`ReceiverConfig::max_datagram`](crate::ReceiverConfig::max_datagram).
    pub too_long: u64,
    /// Dropped: data or FIN from a peer without a transfer.
    pub no_connection: u64,
    /// Stateless resets sent in answer to data or a FIN from a peer without a transfer.
    pub resets: u64,
    /// Dropped: SYN while the number of peers was at its limit.
    pub refused: u64,
    /// Dropped: packets of a format that the listener does not take
    /// ([`ListenerConfig::versions`](super::ListenerConfig::versions)).
    pub unencrypted: u64,
    /// Dropped: SYNs with a valid cookie of a connection that has ended.
    pub replayed: u64,
    /// SYNs answered with a cookie.
    pub retries: u64,
    /// Malformed SYNs of other versions, answered with the list of supported versions.
    pub other_versions: u64,
    /// Replies to unconnected addresses dropped because their queue was full.
    pub stateless_dropped: u64,
    /// CLOSEs to removed peers dropped because their queue was full.
    pub closes_dropped: u64,
    /// Half-open peers removed to make room for newer ones.
    pub half_open_dropped: u64,
    /// Peers connected so far.
    pub admitted: u64,
    /// Largest number of connected peers at once.
    pub max_active: usize,
    /// Largest memory of all receivers together, bytes.
    pub max_memory: u64,
    /// Sums over all receivers, including removed ones.
    pub receivers: ReceiverStats,
}

impl ListenerStats {
    /// Adds the counters of another listener. Maxima are added up as well.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.too_long += other.too_long;
        self.no_connection += other.no_connection;
        self.resets += other.resets;
        self.refused += other.refused;
        self.unencrypted += other.unencrypted;
        self.replayed += other.replayed;
        self.retries += other.retries;
        self.other_versions += other.other_versions;
        self.stateless_dropped += other.stateless_dropped;
        self.closes_dropped += other.closes_dropped;
        self.half_open_dropped += other.half_open_dropped;
        self.admitted += other.admitted;
        self.max_active += other.max_active;
        self.max_memory += other.max_memory;
        self.receivers.merge(&other.receivers);
    }
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Returns the current counters.
    pub fn stats(&self) -> ListenerStats {
        let mut stats = self.stats;
        stats.stateless_dropped = self.stateless.replies_dropped();
        stats.closes_dropped = self.stateless.closes_dropped();
        stats.receivers = self.removed;
        for entry in self.peers.values() {
            stats.receivers.merge(&entry.receiver.stats());
        }
        stats
    }
}
