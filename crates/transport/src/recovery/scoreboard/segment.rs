//! The record of a segment that is outstanding.

use std::time::Instant;

/// Fate of a segment's last transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// On its way, as far as is known.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Given up; to be sent again.
    Lost,
}

/// A segment that was sent and is not cumulatively acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Offset of its first byte in the stream.
    pub(crate) offset: u64,
    /// When it was last sent.
    pub(crate) sent_at: Instant,
    /// Number of its last transmission.
    pub(crate) tx: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// How often it was sent; saturates.
    pub(crate) sent_count: u16,
    pub(crate) fate: Fate,
}

impl Segment {
    /// One past its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}
