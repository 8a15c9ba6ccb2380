//! Events and counters of a receiver.

use std::time::Duration;

/// Event of one peer for the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A classic peer is connected: its first packets arrived.
    Connected,
    /// A transfer began. An unfinished earlier one of this peer is discarded.
    Started,
    /// Bytes can be read. Not repeated before the application has read some.
    Readable,
    /// All data arrived. The FIN-ACK is sent when the application confirms
    /// ([`confirm_classic`](crate::ConnectionSet::confirm_classic)), so that data that could not be
    /// stored is never acknowledged.
    Finished {
        /// Length of the transfer, bytes.
        bytes: u64,
        /// CRC-32 of the transfer (classic); 0 if it is not computed.
        crc: u32,
        /// Time from the first to the last data packet.
        elapsed: Duration,
    },
    /// A half-open peer was removed. The application has not heard of it.
    Dropped,
    /// The peer was idle for too long, or the application closed it.
    Closed {
        /// True if a transfer was unfinished.
        unfinished: bool,
    },
}

/// Counters of a receiver, in packets unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data packets received.
    pub data: u64,
    /// Data packets marked CE.
    pub ce: u64,
    /// Data packets accepted as new.
    pub accepted: u64,
    /// Data packets accepted beyond a hole.
    pub out_of_order: u64,
    /// Data packets received before.
    pub duplicates: u64,
    /// Data packets dropped because their number is too far from the next expected one.
    pub out_of_range: u64,
    /// Data packets dropped for lack of memory: beyond a hole, or in order because the application
    /// left too much unread. The latter are answered.
    pub no_memory: u64,
    /// Packets that do not fit the state: data after the end, a classic FIN before all data
    /// arrived, a classic SYN while data arrives.
    pub unexpected: u64,
    /// RTTs in which the socket's buffer limited the window and blocked the sender.
    pub socket_limited: u64,
    /// Payload bytes in order.
    pub bytes: u64,
    /// Replies generated.
    pub replies: u64,
    /// Replies dropped because too many were waiting to be sent.
    pub replies_dropped: u64,
}

impl ReceiverStats {
    /// Adds the counters of another receiver.
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
