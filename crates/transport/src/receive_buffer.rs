//! Receive buffer of one stream: puts in order what arrives, keeps it until the application has
//! read it, bounds the memory for it, and computes the CRC-32 of classic streams. Knows no wire
//! format, no time, and no policy of windows or ACKs. Each byte is copied once.
//!
//! Bytes in order are [`Ordered`], however the wire numbers the stream. What lies beyond a hole is
//! [`Ranges`] of bytes (native) or [`Slots`] of packets (classic).

pub(crate) mod chunks;
mod ordered;
mod ranges;
mod slots;

use std::ops::Range;

use crate::range_set::RangeSet;
use chunks::ChunkPool;
pub(crate) use ordered::Keep;
use ordered::Ordered;
use ranges::Ranges;
use slots::Slots;

/// Default limit on ranges beyond holes, further ones are refused: 10 % loss of a window of 650,000
/// packets. Moving that many ranges aside for a new one in their middle takes some 20 us.
pub(crate) const MAX_RANGES: usize = 1 << 16;

/// A part of the stream as it arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    /// Number of the packet, or offset of the first byte.
    pub seq: u64,
    /// Payload of the packet.
    pub payload: &'a [u8],
}

/// Limits on the data that is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Right edge of the window: the first number that was not offered. At least `rcv_nxt`. If
    /// packets are numbered, packet `rcv_nxt` is accepted in any case.
    pub right_edge: u64,
    /// Memory for data beyond holes, in bytes; if bytes are numbered, for all data.
    pub memory: u64,
    /// Unread bytes up to which data in order is accepted whatever `memory` is.
    pub unread: u64,
}

/// Result of [`ReceiveBuffer::insert`], packets or bytes. The first four add up to the segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// New and accepted.
    pub new: u64,
    /// Received before.
    pub duplicate: u64,
    /// Refused: beyond the right edge of the window, or too far from `rcv_nxt`.
    pub beyond_window: u64,
    /// Refused: no memory, or too many holes.
    pub no_room: u64,
    /// Distance by which `rcv_nxt` moved.
    pub advanced: u64,
    /// True if data was buffered beyond a hole before this segment. If `rcv_nxt` advanced, the
    /// segment filled the hole or a part of it.
    pub had_hole: bool,
    /// True if the refused data was the next in order, because too much data is unread.
    pub next_refused: bool,
}

/// The receive buffer.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    ordered: Ordered,
    beyond: Beyond,
}

#[derive(Debug)]
enum Beyond {
    Ranges(Ranges),
    Slots(Slots),
}

impl ReceiveBuffer {
    /// Returns the buffer of a stream of bytes (native) that begins at offset `start`, with at most
    /// `max_ranges` ranges beyond holes. It computes no CRC-32.
    pub(crate) fn of_bytes(start: u64, max_ranges: usize, keeps_payload: bool) -> Self {
        let keep = Keep { payload: keeps_payload, checksum: false };
        Self { ordered: Ordered::new(start, keep), beyond: Beyond::Ranges(Ranges::new(max_ranges)) }
    }

    /// Returns the buffer of a stream of packets (classic) that begins with number `first`. Packets
    /// less than `range` ahead of the next expected one are accepted.
    pub(crate) fn of_packets(first: u64, range: u64, keep: Keep) -> Self {
        Self { ordered: Ordered::new(0, keep), beyond: Beyond::Slots(Slots::new(first, range)) }
    }

    #[inline]
    pub(crate) fn insert(&mut self, segment: Segment<'_>, limits: Limits) -> Arrival {
        match &mut self.beyond {
            Beyond::Ranges(ranges) => ranges.insert(&mut self.ordered, segment, limits),
            Beyond::Slots(slots) => slots.insert(&mut self.ordered, segment, limits),
        }
    }

    /// Appends consecutive `payloads` at the offsets `range` if bytes are numbered, all are next in
    /// order, no data is held beyond a hole, and the limits allow it. False if nothing was done.
    pub(crate) fn append_run<'a>(
        &mut self,
        range: Range<u64>,
        payloads: impl Iterator<Item = &'a [u8]>,
        limits: Limits,
    ) -> bool {
        match &self.beyond {
            Beyond::Ranges(ranges) => ranges.append_run(&mut self.ordered, range, payloads, limits),
            Beyond::Slots(_) => false,
        }
    }

    /// Returns the next unread in-order bytes, up to a chunk's end. Empty only if there are none.
    pub(crate) fn data(&self) -> &[u8] {
        self.ordered.data()
    }

    /// Marks the next `n` bytes in order as read, or all if there are fewer.
    pub(crate) fn consume(&mut self, n: u64) {
        self.ordered.consume(n);
        self.ordered.release(self.is_contiguous());
        if let Beyond::Slots(slots) = &mut self.beyond {
            slots.on_read(&mut self.ordered);
        }
    }

    pub(crate) fn set_pool(&mut self, pool: ChunkPool) {
        self.ordered.chunks.set_pool(pool);
    }

    pub(crate) fn shrink(&mut self) {
        self.ordered.chunks.shrink();
    }

    /// Frees the memory for further data: none will arrive.
    pub(crate) fn end(&mut self) {
        self.ordered.chunks.end();
        if let Beyond::Slots(slots) = &mut self.beyond {
            slots.end();
        }
    }

    /// Returns the number of the next packet or byte expected in order.
    pub(crate) fn rcv_nxt(&self) -> u64 {
        match &self.beyond {
            Beyond::Ranges(_) => self.ordered.end(),
            Beyond::Slots(slots) => slots.rcv_nxt(),
        }
    }

    /// Returns the number after the farthest packet that arrived.
    pub(crate) fn arrived(&self) -> u64 {
        match &self.beyond {
            Beyond::Ranges(_) => self.ordered.end(),
            Beyond::Slots(slots) => slots.arrived(),
        }
    }

    /// Returns the largest payload of a packet in order so far, bytes; 0 if bytes are numbered.
    pub(crate) fn largest_packet(&self) -> u64 {
        match &self.beyond {
            Beyond::Ranges(_) => 0,
            Beyond::Slots(slots) => slots.largest(),
        }
    }

    /// Returns the memory of data beyond holes, bytes; if bytes are numbered, only of the ranges.
    pub(crate) fn held_memory(&self) -> u64 {
        match &self.beyond {
            Beyond::Ranges(ranges) => ranges.memory(),
            Beyond::Slots(slots) => slots.memory(),
        }
    }

    /// Returns the ranges beyond holes, for selective ACKs. `None` if packets are numbered.
    pub(crate) fn held(&self) -> Option<&RangeSet> {
        match &self.beyond {
            Beyond::Ranges(ranges) => Some(ranges.held()),
            Beyond::Slots(_) => None,
        }
    }

    /// True if no data is held beyond a hole.
    pub(crate) fn is_contiguous(&self) -> bool {
        match &self.beyond {
            Beyond::Ranges(ranges) => ranges.held().is_empty(),
            Beyond::Slots(slots) => slots.is_contiguous(),
        }
    }

    pub(crate) fn keeps_payload(&self) -> bool {
        self.ordered.keep().payload
    }

    /// Returns the offset of the next byte that the application will read.
    pub(crate) fn read_offset(&self) -> u64 {
        self.ordered.read_offset()
    }

    /// Returns the number of bytes in order that are unread.
    pub(crate) fn unread(&self) -> u64 {
        self.ordered.unread()
    }

    /// Returns the number of bytes in order so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.ordered.bytes()
    }

    /// Returns the CRC-32 of the bytes in order so far; 0 if it is not computed.
    pub(crate) fn crc(&mut self) -> u32 {
        self.ordered.crc()
    }

    /// Returns the memory in use, in bytes, without spare chunks (1 MiB, or as many as are in use).
    /// If packets are numbered, only their payload counts, although their chunks may occupy twice
    /// that and 256 KiB.
    pub(crate) fn memory(&self) -> u64 {
        let ordered = match &self.beyond {
            Beyond::Ranges(_) => self.ordered.chunks.memory(),
            Beyond::Slots(_) => self.ordered.unread(),
        };
        ordered + self.held_memory()
    }
}
