//! Counters of a receiver.

/// Counters of a receiver, in packets unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data packets received.
    pub data: u64,
    /// Of these, the ones marked CE.
    pub ce: u64,
    /// Of all data packets, the new ones.
    pub accepted: u64,
    /// Of the new ones, those beyond a hole.
    pub out_of_order: u64,
    /// Data packets received before.
    pub duplicates: u64,
    /// Data packets dropped because their number is too far from the next expected one.
    pub out_of_range: u64,
    /// Data packets dropped for lack of memory, beyond a hole or in order. In order, the
    /// application had left too much unread, and the packet was answered.
    pub no_memory: u64,
    /// Data or FINs that do not fit the state: data after the end, or a classic FIN before all data
    /// arrived.
    pub unexpected: u64,
    /// RTTs in which the socket's buffer limited the window and blocked the sender.
    pub socket_limited: u64,
    /// Payload bytes in order.
    pub bytes: u64,
    /// Replies generated.
    pub replies: u64,
    /// Of these, the ones dropped because too many were waiting to be sent.
    pub replies_dropped: u64,
}

impl ReceiverStats {
    /// Adds another receiver's counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.data += other.data;
        self.ce += other.ce;
        self.accepted += other.accepted;
        self.out_of_order += other.out_of_order;
        self.duplicates += other.duplicates;
        self.out_of_range += other.out_of_range;
        self.no_memory += other.no_memory;
        self.unexpected += other.unexpected;
        self.socket_limited += other.socket_limited;
        self.bytes += other.bytes;
        self.replies += other.replies;
        self.replies_dropped += other.replies_dropped;
    }
}
