//! Record of an outstanding segment.

use std::ops::RangeInclusive;
use std::time::Instant;

/// Fate of a segment's last transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Presumably in the network.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// Declared lost and not yet retransmitted.
    Lost,
}

/// Segment that was sent and is not cumulatively acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Stream offset of the segment's first byte.
    pub(crate) offset: u64,
    /// Time of the segment's last transmission.
    pub(crate) sent_at: Instant,
    /// Packet number of the segment's last transmission.
    pub(crate) packet_number: u64,
    /// Length, bytes.
    pub(crate) len: u32,
    /// Count of the segment's transmissions; saturates.
    pub(crate) sent_count: u16,
    pub(crate) fate: Fate,
}

impl Segment {
    /// Returns the stream offset after the segment's last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// Segments that one ACK newly acknowledges: one, or consecutive ones that were sent once each by
/// consecutive transmissions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentRun<'a> {
    /// Oldest segment, in its state before the ACK.
    pub(crate) first: &'a Segment,
    /// Newest segment, in its state before the ACK.
    pub(crate) last: &'a Segment,
    /// Number of segments, at least 1.
    pub(crate) count: u64,
}

impl<'a> SegmentRun<'a> {
    pub(crate) fn single(segment: &'a Segment) -> Self {
        Self { first: segment, last: segment, count: 1 }
    }

    /// Returns the total length, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.last.end() - self.first.offset
    }

    pub(crate) fn packet_numbers(&self) -> RangeInclusive<u64> {
        self.first.packet_number..=self.last.packet_number
    }

    /// Returns the number and the send time of the newest transmission below `packet_number`;
    /// `None` for a retransmitted segment. If the run was sent in several batches, the time is that
    /// of the first or of the last batch.
    pub(crate) fn newest_below(&self, packet_number: u64) -> Option<(u64, Instant)> {
        let newest = self.last.packet_number.min(packet_number.checked_sub(1)?);
        if self.first.sent_count > 1 || newest < self.first.packet_number {
            return None;
        }
        let segment = if newest == self.last.packet_number { self.last } else { self.first };
        Some((newest, segment.sent_at))
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + use<> {
        let (first, last, count) = (*self.first, *self.last, self.count);
        (0..count).map(move |n| {
            if n + 1 == count {
                return last;
            }
            Segment {
                offset: first.offset + n * u64::from(first.len),
                packet_number: first.packet_number + n,
                ..first
            }
        })
    }
}
