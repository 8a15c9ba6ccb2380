//! Send buffer: bytes written by the application and not yet acknowledged, addressed by stream
//! offset, and the CRC-32 of a classic stream. Bytes lie where their packets will be sent from.

mod chunk;
mod pool;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::crc::Crc32;
use crate::{Frame, Reuse};
use chunk::Chunk;
pub(crate) use chunk::Cut;
pub use chunk::Spare;
pub use pool::FramePool;

#[derive(Debug)]
pub(crate) struct SendBuffer {
    /// Chunks in stream order, without gaps.
    chunks: VecDeque<Chunk>,
    /// Source of frames. Acknowledged frames return to it, so the working set is the data in
    /// flight.
    memory: FramePool,
    /// Number of chunks released so far.
    released: usize,
    /// Index of the chunk accessed last, released chunks included: the next access is there or
    /// near.
    last: usize,
    /// Stream offset after the last byte written.
    end: u64,
    /// CRC-32 of the bytes written; `None` if it is not computed.
    crc: Option<Crc32>,
    /// Memory in which a sealed packet is opened.
    scratch: Vec<u8>,
}

/// Batch of packets that is sent from the frame in which it was written.
pub(crate) struct Ready {
    pub(crate) frame: Arc<Frame>,
    /// Index of the first packet in the frame.
    pub(crate) start: usize,
}

impl SendBuffer {
    pub(crate) fn new(has_checksum: bool, memory: FramePool) -> Self {
        let crc = has_checksum.then(Crc32::new);
        Self { chunks: VecDeque::new(), memory, released: 0, last: 0, end: 0, crc, scratch: Vec::new() }
    }

    /// Releases memory beyond that of the bytes.
    pub(crate) fn shrink(&mut self) {
        self.chunks.shrink_to_fit();
        self.scratch = Vec::new();
    }

    /// Returns room for the next bytes: never empty, at most a frame. `cut` defines where packets
    /// will have headers and trailers; `most` is the number of bytes that may be written and sent
    /// now, [`u64::MAX`] for bytes that may wait.
    ///
    /// A batch is sent from one frame. If all `most` bytes fit a frame, but not the rest of the
    /// last one, they start a frame, unless more than half of the last one would remain unused.
    pub(crate) fn spare(&mut self, cut: Cut, most: u64) -> Spare<'_> {
        if let Some(chunk) = self.chunks.back_mut().filter(|_| self.end == cut.offset)
            && chunk.splits(most)
        {
            chunk.end_here();
        }
        if self.chunks.back_mut().is_none_or(|chunk| chunk.spare().is_none()) {
            if let Some(chunk) = self.chunks.back_mut() {
                chunk.end_here();
            }
            self.chunks.push_back(Chunk::new(self.memory.take(), self.end, cut));
        }
        self.chunks.back_mut().and_then(Chunk::spare).unwrap_or_default()
    }

    /// True if the next bytes would be written to memory that cannot be sent without a copy,
    /// because the zero-copy pool is exhausted.
    pub(crate) fn is_exhausted(&self) -> bool {
        let full = self.chunks.back().is_none_or(|chunk| chunk.written == chunk.capacity);
        full && self.memory.is_exhausted()
    }

    /// Records that the caller wrote the first `n` bytes of [`SendBuffer::spare`].
    pub(crate) fn advance(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        let chunk = self.chunks.back_mut().filter(|chunk| n <= chunk.capacity - chunk.written);
        let chunk = chunk.expect("more than there was room for");
        let mut at = chunk.written;
        chunk.written += n;
        self.end += n as u64;
        if let Some(crc) = &mut self.crc {
            while at < chunk.written {
                let piece = chunk.piece(at, chunk.written - at);
                crc.update(piece);
                at += piece.len();
            }
        }
    }

    /// Returns the number of full packets from `cut.offset` on that can be sent without a copy.
    pub(crate) fn ready(&mut self, cut: Cut) -> usize {
        let at = self.find(cut.offset);
        self.chunks.get(at).map_or(0, |chunk| chunk.ready(cut))
    }

    /// Returns the number of packets that must be copied before the next ones that can be sent
    /// without a copy. `None` if the next chunk has none.
    pub(crate) fn unready(&mut self, cut: Cut) -> Option<u64> {
        let at = self.find(cut.offset);
        let end = self.chunks.get(at)?.end();
        let before = end.saturating_sub(cut.offset).div_ceil(cut.mss as u64);
        let next = Cut { offset: cut.offset + before * cut.mss as u64, ..cut };
        (self.chunks.get(at + 1)?.ready(next) > 0).then_some(before)
    }

    /// Prepares `count` packets that are [`SendBuffer::ready`]. `encode` completes a packet from
    /// its index and its memory, in which the payload lies between room for the header and room for
    /// the trailer. `resent` is the number of retransmissions so far. `None` if an unsent batch
    /// references the frame.
    pub(crate) fn send_in_place(
        &mut self,
        cut: Cut,
        count: usize,
        resent: u64,
        mut encode: impl FnMut(u64, &mut [u8]),
    ) -> Option<Ready> {
        let at = self.find(cut.offset);
        let chunk = self.chunks.get_mut(at)?;
        let (start, packets) = chunk.packets(cut, count)?;
        let len = packets.len();
        for (number, packet) in (0..).zip(packets.chunks_exact_mut(cut.packet_len())) {
            encode(number, packet);
        }
        chunk.on_sent_in_place(len, resent);
        Some(Ready { frame: Arc::clone(&chunk.frame), start })
    }

    /// Same as [`SendBuffer::send_in_place`] for packets that `encode` seals. Their payload can be
    /// read by [`SendBuffer::copy_opened`] alone afterwards.
    pub(crate) fn seal_in_place(
        &mut self,
        cut: Cut,
        count: usize,
        resent: u64,
        encode: impl FnMut(u64, &mut [u8]),
    ) -> Option<Ready> {
        let ready = self.send_in_place(cut, count, resent, encode)?;
        let at = self.find(cut.offset);
        self.chunks[at].on_sealed(cut, count);
        Some(ready)
    }

    /// Copies the bytes from `offset` on into `out`. All of them must be written and not released,
    /// and none may be sealed.
    pub(crate) fn copy_to(&mut self, offset: u64, out: &mut [u8]) {
        self.copy_opened(offset, out, |packet| packet);
    }

    /// Same as [`SendBuffer::copy_to`], also for sealed packets. `open` opens a copy of a packet in
    /// place and returns its payload.
    pub(crate) fn copy_opened(
        &mut self,
        offset: u64,
        out: &mut [u8],
        open: impl for<'p> Fn(&'p mut [u8]) -> &'p [u8],
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut rest = out;
        self.for_pieces(offset, rest.len(), |chunk, at, piece| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(piece.len());
            match chunk.sealed_packet(at) {
                None => head.copy_from_slice(piece),
                Some((packet, into)) => {
                    scratch.clear();
                    scratch.extend_from_slice(packet);
                    head.copy_from_slice(&open(&mut scratch)[into..into + piece.len()]);
                }
            }
            rest = tail;
        });
        self.scratch = scratch;
    }

    /// Calls `take` with consecutive slices of the `len` bytes from `offset` on, their chunk and
    /// their position in it.
    fn for_pieces(&mut self, offset: u64, len: usize, mut take: impl FnMut(&Chunk, usize, &[u8])) {
        debug_assert!(offset + len as u64 <= self.end);
        let mut chunk = self.find(offset);
        let mut at = within(offset, self.chunks[chunk].base);
        let mut rest = len;
        while rest > 0 {
            let here = &self.chunks[chunk];
            if at == here.written {
                (chunk, at) = (chunk + 1, 0);
                continue;
            }
            let piece = here.piece(at, rest.min(here.written - at));
            take(here, at, piece);
            at += piece.len();
            rest -= piece.len();
        }
    }

    /// Releases the chunks that end at or before `offset`, which is acknowledged. `resent` is the
    /// number of retransmissions so far. If all bytes are acknowledged, no frame remains in use.
    pub(crate) fn release(&mut self, offset: u64, resent: u64) {
        while let Some(first) = self.chunks.front() {
            // A chunk with room is kept for later writes, unless all bytes are acknowledged.
            let done = first.written == first.capacity || offset == self.end;
            if first.end() > offset || !done {
                return;
            }
            let reuse = first.reuse(resent);
            if let Some(chunk) = self.chunks.pop_front() {
                self.memory.give_back(chunk.frame, reuse);
                self.released += 1;
            }
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the CRC-32 (IEEE 802.3) of the bytes written so far; 0 if it is not computed.
    pub(crate) fn crc(&self) -> u32 {
        self.crc.as_ref().map_or(0, Crc32::sum)
    }

    /// Returns the index of the chunk with the byte at `offset`. If that byte is not written: of
    /// the last chunk, or 0 if there is none.
    fn find(&mut self, offset: u64) -> usize {
        let near = self.last.saturating_sub(self.released);
        let holds = |chunk: &Chunk| chunk.base <= offset && offset < chunk.end();
        let near = [near, near + 1].into_iter().find(|at| self.chunks.get(*at).is_some_and(holds));
        let at = near
            .unwrap_or_else(|| self.chunks.partition_point(|chunk| chunk.base <= offset).saturating_sub(1));
        self.last = self.released + at;
        at
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            self.memory.give_back(chunk.frame, Reuse::MaybeReferenced);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a chunk is in memory")]
fn within(offset: u64, base: u64) -> usize {
    (offset - base) as usize
}

#[cfg(test)]
mod tests;
