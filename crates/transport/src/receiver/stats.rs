//! What a receiver counted, and sums of that.

/// What a receiver counted. Packets unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data packets that arrived.
    pub data: u64,
    /// Of these, the ones that came with the mark CE.
    pub ce: u64,
    /// Of all data packets, new ones.
    pub accepted: u64,
    /// Of these, new ones beyond a hole.
    pub out_of_order: u64,
    /// Data packets that were here before.
    pub duplicates: u64,
    /// Data packets whose number is too far from the next expected one; dropped.
    pub out_of_range: u64,
    /// Data packets for which there was no memory: beyond a hole, or the next one while the application leaves too
    /// much unread. Dropped; the latter are answered.
    pub no_memory: u64,
    /// Data or FINs that the state has no use for: data after the end, a FIN before the data is complete where
    /// it does not say what to wait for.
    pub unexpected: u64,
    /// Round trips in which the peer waited for a window that would have been larger, had the socket a larger buffer.
    pub socket_limited: u64,
    /// Payload bytes in order.
    pub bytes: u64,
    /// Replies made.
    pub replies: u64,
    /// Of these, thrown away because nobody took them fast enough.
    pub replies_dropped: u64,
}

impl ReceiverStats {
    /// Adds another receiver's counts.
    pub fn merge(&mut self, other: &Self) {
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
