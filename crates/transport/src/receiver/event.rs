//! What a receiver tells its application.

use std::time::Duration;

/// What the application is told about one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A new peer was admitted.
    Connected,
    /// A transfer begins; what came before it and was not finished is void.
    Started,
    /// There are bytes to read; told again only for bytes that arrive after the application read some.
    Readable,
    /// Everything arrived. The FIN is answered once the application confirms
    /// ([`Receiver::confirm`](super::Receiver::confirm)), so that it may refuse what it could not store.
    Finished {
        /// Bytes of the transfer.
        bytes: u64,
        /// Their CRC-32; 0 if it is not computed.
        crc: u32,
        /// From the first to the last data packet.
        elapsed: Duration,
    },
    /// The peer was silent for too long, or the application ended it; nothing more will come of it.
    Closed {
        /// True if a transfer was under way.
        unfinished: bool,
    },
}
