//! Counters of a connection set.

/// Counters of a connection set, in datagrams unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionSetStats {
    /// Datagrams received, classic ones not included.
    pub received: u64,
    /// Dropped: no native packet of this version, or one that breaks its rules.
    pub malformed: u64,
    /// Dropped: sealed or AUTH, with a connection ID that this side does not know.
    pub unknown: u64,
    /// Dropped: not sealed by the connection's peer, received before, or a changed handshake.
    pub unauthentic: u64,
    /// SYNs of other versions, answered with the list of this side's.
    pub other_versions: u64,
    /// SYNs received.
    pub syns: u64,
    /// SYNs answered with a cookie.
    pub retries: u64,
    /// Number of times that SYNs without a cookie became too many to answer them otherwise.
    pub retry_periods: u64,
    /// SYNs with a valid cookie of an earlier connection.
    pub resumed: u64,
    /// Dropped: SYNs of a connection that has opened already.
    pub replayed: u64,
    /// Dropped: SYNs of a host with too many half-open connections, and of others while the table
    /// is full and changes fast.
    pub source_limited: u64,
    /// Handshakes refused, except for want of encryption.
    pub refused: u64,
    /// Handshakes refused because the initiator offers no encryption.
    pub unencrypted: u64,
    /// Half-open connections removed to make room for newer ones.
    pub half_open_dropped: u64,
    /// Half-open connections removed because the initiator was silent.
    pub half_open_expired: u64,
    /// Connections accepted from peers.
    pub accepted: u64,
    /// OPENs received.
    pub opens: u64,
    /// OPENs refused: a handshake replaces them.
    pub opens_refused: u64,
    /// Connections accepted within an association; [`accepted`](Self::accepted) has them, too.
    pub opened: u64,
    /// Connections opened by this side.
    pub initiated: u64,
    /// Those of them that it opened within an association.
    pub initiated_open: u64,
    /// Largest number of slots taken when a connection opened, with those of classic peers.
    pub max_connections: usize,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Stateless resets by which a peer ended a connection, or made its handshake start again.
    pub resets_received: u64,
    /// Connections that moved to a new address of the peer.
    pub moved: u64,
    /// Probes sent to unproved addresses of peers.
    pub path_probes: u64,
    /// Answers to addresses without a connection, dropped because their queue was full.
    pub answers_dropped: u64,
    /// Largest memory of all peers together, of both formats, bytes.
    pub max_memory: u64,
}

impl ConnectionSetStats {
    /// Adds the counters of another set. Maxima are added up as well.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.malformed += other.malformed;
        self.unknown += other.unknown;
        self.unauthentic += other.unauthentic;
        self.other_versions += other.other_versions;
        self.syns += other.syns;
        self.retries += other.retries;
        self.retry_periods += other.retry_periods;
        self.resumed += other.resumed;
        self.replayed += other.replayed;
        self.source_limited += other.source_limited;
        self.refused += other.refused;
        self.unencrypted += other.unencrypted;
        self.half_open_dropped += other.half_open_dropped;
        self.half_open_expired += other.half_open_expired;
        self.accepted += other.accepted;
        self.opens += other.opens;
        self.opens_refused += other.opens_refused;
        self.opened += other.opened;
        self.initiated += other.initiated;
        self.initiated_open += other.initiated_open;
        self.max_connections += other.max_connections;
        self.resets_sent += other.resets_sent;
        self.resets_received += other.resets_received;
        self.moved += other.moved;
        self.path_probes += other.path_probes;
        self.answers_dropped += other.answers_dropped;
        self.max_memory += other.max_memory;
    }
}
