//! Counters of classic peers, with sums over their receivers.

use super::ClassicPeers;
use crate::ReceiverStats;
use crate::peers::AddressKey;

/// Counters of classic peers, in datagrams unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassicStats {
    /// Datagrams received.
    pub received: u64,
    /// Dropped: not decodable as a packet of a sender.
    pub malformed: u64,
    /// Dropped: longer than [`ReceiverConfig::max_datagram`](crate::ReceiverConfig::max_datagram).
    pub too_long: u64,
    /// Dropped: data or FIN from a peer without a transfer.
    pub no_connection: u64,
    /// Dropped: SYN while the number of peers was at its limit.
    pub refused: u64,
    /// Half-open peers removed to make room for newer ones.
    pub half_open_dropped: u64,
    /// Peers connected so far.
    pub admitted: u64,
    /// Largest number of connected peers at once.
    pub max_active: usize,
    /// Sums over all receivers, including removed ones.
    pub receivers: ReceiverStats,
}

impl ClassicStats {
    /// Adds the counters of another set. Maxima are added up as well.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.too_long += other.too_long;
        self.no_connection += other.no_connection;
        self.refused += other.refused;
        self.half_open_dropped += other.half_open_dropped;
        self.admitted += other.admitted;
        self.max_active += other.max_active;
        self.receivers.merge(&other.receivers);
    }
}

impl<P: AddressKey> ClassicPeers<P> {
    /// Returns the current counters.
    pub fn stats(&self) -> ClassicStats {
        let mut stats = self.stats;
        stats.receivers = self.removed;
        for entry in self.table.values() {
            stats.receivers.merge(&entry.receiver.stats());
        }
        stats
    }
}
