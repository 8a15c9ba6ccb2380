//! Contiguous piece of the stream in one frame, laid out as packets: payload with room for each
//! header before it and for each trailer after it.

use std::sync::Arc;

use crate::{Frame, MAX_DATAGRAM, Reuse};

/// Largest number of packets in one send call. Frames end with a whole batch.
const BATCH: usize = 64;
/// Largest number of packets with a trailer in one frame: bits of [`Chunk::sealed`]. At the
/// smallest size of the path, 548 bytes, a frame has 119.
const MAX_SEALED: usize = 128;

/// Division of the stream into packets from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Stream offset at which a packet begins, bytes.
    pub(crate) offset: u64,
    /// Length of the header before each payload, bytes.
    pub(crate) header: usize,
    /// Payload of each packet, bytes, at least 1.
    pub(crate) mss: usize,
    /// Length of the trailer after each payload, bytes; 0 if packets are not sealed.
    pub(crate) trailer: usize,
}

impl Cut {
    #[inline]
    pub(crate) fn packet_len(&self) -> usize {
        self.header + self.mss + self.trailer
    }
}

/// The `written` bytes of the stream from offset `base` on.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) frame: Arc<Frame>,
    pub(super) base: u64,
    pub(super) written: usize,
    /// Limit of `written`.
    pub(super) capacity: usize,
    /// Bytes at the start without headers between them: the rest of a packet that begins in the
    /// previous chunk.
    lead: usize,
    /// Index of the first packet in the frame: after the lead and room for the trailer of its
    /// packet, so that the gap between payloads is always the same.
    first: usize,
    /// Sizes of headers, payloads and trailers.
    cut: Cut,
    /// Packets that were sealed in place: bit n stands for packet n of the frame.
    sealed: u128,
    /// The stream's count of retransmissions when the first zero-copy batch of this frame was sent.
    zero_copied: Option<u64>,
}

impl Chunk {
    /// Returns an empty chunk that begins at `base`, with room for headers and trailers as `cut`
    /// requires.
    pub(super) fn new(frame: Arc<Frame>, base: u64, cut: Cut) -> Self {
        let Cut { offset, mss, trailer, .. } = cut;
        let into = base.saturating_sub(offset) % mss as u64;
        // `lead` is less than `mss`, so the conversion cannot fail.
        let lead = usize::try_from(into).map_or(0, |into| (mss - into) % mss);
        let first = if lead == 0 { 0 } else { lead + trailer };
        let room = Frame::SIZE.saturating_sub(first).min(MAX_DATAGRAM);
        let (lead, capacity) = match room / cut.packet_len() {
            0 => (Frame::SIZE, Frame::SIZE),
            packets => {
                let most = if trailer > 0 { MAX_SEALED } else { packets };
                (lead, lead + whole_batches(packets.min(most)) * mss)
            }
        };
        Self { frame, base, written: 0, capacity, lead, first, cut, sealed: 0, zero_copied: None }
    }

    /// Returns the stream offset after the last byte written.
    pub(super) fn end(&self) -> u64 {
        self.base + self.written as u64
    }

    /// Returns the index in the frame of the chunk's byte `at`, and the number of bytes from there
    /// to the end of the payload.
    pub(super) fn locate(&self, at: usize) -> (usize, usize) {
        if at < self.lead {
            return (at, self.lead - at);
        }
        let (packet, into) = ((at - self.lead) / self.cut.mss, (at - self.lead) % self.cut.mss);
        (self.first + packet * self.cut.packet_len() + self.cut.header + into, self.cut.mss - into)
    }

    /// Returns the bytes from `at` to the end of the payload, at most `len`.
    pub(super) fn piece(&self, at: usize, len: usize) -> &[u8] {
        let (place, run) = self.locate(at);
        &self.frame.bytes()[place..place + run.min(len)]
    }

    /// Returns the unwritten rest. `None` if the chunk is full, or if an unsent batch references
    /// the frame.
    pub(super) fn spare(&mut self) -> Option<Spare<'_>> {
        let rest = self.capacity - self.written;
        if rest == 0 {
            return None;
        }
        let (place, first) = self.locate(self.written);
        let memory = &mut Arc::get_mut(&mut self.frame)?.bytes_mut()[place..];
        Some(Spare { memory, first, gap: self.cut.trailer + self.cut.header, mss: self.cut.mss, rest })
    }

    /// True if a chunk of this size would hold `bytes`, but the rest of this one does not, and this
    /// rest is at most half of the chunk.
    pub(super) fn splits(&self, bytes: u64) -> bool {
        let rest = self.capacity - self.written;
        (rest as u64) < bytes && bytes <= self.capacity as u64 && rest <= self.capacity / 2
    }

    pub(super) fn end_here(&mut self) {
        self.capacity = self.written;
    }

    /// Returns the number of full packets from `cut.offset` on that are laid out as `cut` requires.
    pub(super) fn ready(&self, cut: Cut) -> usize {
        let Some(at) = cut.offset.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) else {
            return 0;
        };
        let fits = Cut { offset: cut.offset, ..self.cut } == cut && at >= self.lead;
        if !fits || at > self.written || !(at - self.lead).is_multiple_of(self.cut.mss) {
            return 0;
        }
        (self.written - at) / self.cut.mss
    }

    /// Returns the memory of `count` packets that are [`Chunk::ready`], headers and trailers
    /// included, and its index in the frame. `None` if an unsent batch references the frame.
    pub(super) fn packets(&mut self, cut: Cut, count: usize) -> Option<(usize, &mut [u8])> {
        let at = usize::try_from(cut.offset - self.base).ok()?;
        let size = self.cut.packet_len();
        let start = self.first + (at - self.lead) / self.cut.mss * size;
        Some((start, &mut Arc::get_mut(&mut self.frame)?.bytes_mut()[start..start + count * size]))
    }

    /// Records that `count` packets from `cut.offset` on were sealed in place.
    pub(super) fn on_sealed(&mut self, cut: Cut, count: usize) {
        let first = (super::within(cut.offset, self.base) - self.lead) / self.cut.mss;
        let packets = (u128::MAX >> (MAX_SEALED - count)) << first;
        debug_assert_eq!(self.sealed & packets, 0, "a packet is sealed once");
        self.sealed |= packets;
    }

    /// Returns the sealed packet with the chunk's byte `at`, and the index of this byte in its
    /// payload. `None` if the byte lies in the frame as it was written.
    pub(super) fn sealed_packet(&self, at: usize) -> Option<(&[u8], usize)> {
        let at = at.checked_sub(self.lead).filter(|_| self.sealed != 0)?;
        let (packet, into) = (at / self.cut.mss, at % self.cut.mss);
        if self.sealed >> packet & 1 == 0 {
            return None;
        }
        let start = self.first + packet * self.cut.packet_len();
        Some((&self.frame.bytes()[start..start + self.cut.packet_len()], into))
    }

    /// Records that a batch of `len` bytes was sent from this frame, after `resent`
    /// retransmissions.
    pub(super) fn on_sent_in_place(&mut self, len: usize, resent: u64) {
        if len >= Frame::MIN_ZERO_COPY_BYTES {
            self.zero_copied.get_or_insert(resent);
        }
    }

    /// Returns how the frame may be reused when all of it is acknowledged, after `resent`
    /// retransmissions. A segment retransmitted meanwhile may be acknowledged while its first copy
    /// still waits in the kernel.
    pub(super) fn reuse(&self, resent: u64) -> Reuse {
        match self.zero_copied {
            None => Reuse::NeverSent,
            Some(before) if before == resent => Reuse::Acknowledged,
            Some(_) => Reuse::MaybeReferenced,
        }
    }
}

/// Rounds `packets` down to whole batches, unless they are fewer than one.
fn whole_batches(packets: usize) -> usize {
    if packets < BATCH { packets } else { packets - packets % BATCH }
}

/// Room for the application's next bytes: an iterator of slices to fill in order. A slice ends
/// where the payload of a packet ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spare<'a> {
    memory: &'a mut [u8],
    /// Length of the next slice, bytes.
    first: usize,
    /// Bytes between two slices.
    gap: usize,
    mss: usize,
    rest: usize,
}

impl Spare<'_> {
    /// Returns the total length of the slices, bytes.
    pub fn len(&self) -> usize {
        self.rest
    }

    /// True if there is no room.
    pub fn is_empty(&self) -> bool {
        self.rest == 0
    }

    /// Returns this room limited to `bytes`.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        Self { rest: self.rest.min(bytes), ..self }
    }

    /// Copies as much of `bytes` as fits and returns the number of bytes copied.
    pub(crate) fn copy_from(self, bytes: &[u8]) -> usize {
        let mut copied = 0;
        for piece in self.within(bytes.len()) {
            let n = piece.len();
            piece.copy_from_slice(&bytes[copied..copied + n]);
            copied += n;
        }
        copied
    }
}

impl<'a> Iterator for Spare<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        let len = self.first.min(self.rest);
        if len == 0 {
            return None;
        }
        let (piece, memory) = std::mem::take(&mut self.memory).split_at_mut(len);
        self.memory = memory.get_mut(self.gap..).unwrap_or_default();
        self.first = self.mss;
        self.rest -= len;
        Some(piece)
    }
}
