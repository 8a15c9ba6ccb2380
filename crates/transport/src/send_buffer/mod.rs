//! The bytes that were written and are not yet acknowledged, addressed by their offset in the
//! stream, and the CRC-32 of the stream. Knows no time, and of packets only where they will begin.

mod chunk;
mod pool;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::crc::{Combiner, Crc32};
use crate::{Frame, Reuse};
use chunk::Chunk;
pub(crate) use chunk::Cut;
pub use chunk::Spare;
pub use pool::FramePool;

#[derive(Debug)]
pub(crate) struct SendBuffer {
    /// In the order of the stream, without gaps.
    chunks: VecDeque<Chunk>,
    /// Where frames come from and go to: they are reused, so the working set is what is in flight.
    memory: FramePool,
    /// How many chunks were released so far.
    released: usize,
    /// The chunk that was looked at last, counted from the first of all: the next look is there or
    /// nearby.
    last: usize,
    /// One past the last byte written.
    end: u64,
    crc: Crc,
}

/// The CRC-32 of the stream, in one of two ways that read each byte once.
#[derive(Debug)]
enum Crc {
    /// Of what was written, read when it is.
    Written(Crc32),
    /// Of what was sent, put together from those of the packets, which are computed anyway.
    Sent { crc: u32, combiner: Box<Combiner> },
}

impl Crc {
    /// The next `len` bytes of the stream left for the first time; `crc` is their CRC-32, where
    /// packets have one.
    fn sent(&mut self, len: usize, crc: Option<u32>) {
        if let (Self::Sent { crc: whole, combiner }, Some(piece)) = (self, crc) {
            *whole = combiner.append(*whole, piece, len);
        }
    }
}

/// A batch that leaves from where it was written.
pub(crate) struct Ready {
    pub(crate) frame: Arc<Frame>,
    /// Where in the frame its first packet begins.
    pub(crate) start: usize,
}

impl SendBuffer {
    /// `of_packets` if the caller will give the CRC-32 of each packet ([`SendBuffer::sent`]).
    pub(crate) fn new(of_packets: bool, memory: FramePool) -> Self {
        let crc = if of_packets {
            Crc::Sent { crc: 0, combiner: Box::default() }
        } else {
            Crc::Written(Crc32::new())
        };
        Self { chunks: VecDeque::new(), memory, released: 0, last: 0, end: 0, crc }
    }

    /// Room for the next bytes: never empty, at most a frame. What is written there will be cut
    /// into packets as `cut` has them.
    pub(crate) fn spare(&mut self, cut: Cut) -> Spare<'_> {
        if self.chunks.back_mut().is_none_or(|chunk| chunk.spare().is_none()) {
            if let Some(chunk) = self.chunks.back_mut() {
                chunk.seal();
            }
            self.chunks.push_back(Chunk::new(self.memory.take(), self.end, cut));
        }
        self.chunks.back_mut().and_then(Chunk::spare).unwrap_or_default()
    }

    #[cfg(test)]
    fn seal(&mut self) {
        self.chunks.back_mut().into_iter().for_each(Chunk::seal);
    }

    /// True if the next bytes would be written to memory that cannot be sent without a copy,
    /// because the zero-copy pool is exhausted.
    pub(crate) fn is_exhausted(&self) -> bool {
        let full = self.chunks.back().is_none_or(|chunk| chunk.written == chunk.capacity);
        full && self.memory.is_exhausted()
    }

    /// Takes the first `n` bytes of [`SendBuffer::spare`] as written.
    pub(crate) fn advance(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        let chunk = self.chunks.back_mut().filter(|chunk| n <= chunk.capacity - chunk.written);
        let chunk = chunk.expect("more than there was room for");
        let mut at = chunk.written;
        chunk.written += n;
        self.end += n as u64;
        if let Crc::Written(crc) = &mut self.crc {
            while at < chunk.written {
                let piece = chunk.piece(at, chunk.written - at);
                crc.update(piece);
                at += piece.len();
            }
        }
    }

    /// The next `len` bytes of the stream left for the first time; `crc` is their CRC-32, where
    /// packets have one.
    pub(crate) fn sent(&mut self, len: usize, crc: Option<u32>) {
        self.crc.sent(len, crc);
    }

    /// Full packets that can leave from where they were written, from `cut.offset` on.
    pub(crate) fn ready(&mut self, cut: Cut) -> usize {
        let at = self.find(cut.offset);
        self.chunks.get(at).map_or(0, |chunk| chunk.ready(cut))
    }

    /// How many packets begin before the next place from which packets can leave as they lie:
    /// `None` if none is in sight.
    pub(crate) fn unready(&mut self, cut: Cut) -> Option<u64> {
        let at = self.find(cut.offset);
        let end = self.chunks.get(at)?.end();
        let before = end.saturating_sub(cut.offset).div_ceil(cut.mss as u64);
        let next = Cut { offset: cut.offset + before * cut.mss as u64, ..cut };
        (self.chunks.get(at + 1)?.ready(next) > 0).then_some(before)
    }

    /// Lets the `count` packets leave that are [`SendBuffer::ready`]; `head` writes each one's
    /// header, knowing its number and payload, and gives the payload's CRC-32 where packets have
    /// one. Segments were sent again `resent` times so far. `None` if they cannot leave from there
    /// now.
    pub(crate) fn send_in_place(
        &mut self,
        cut: Cut,
        count: usize,
        resent: u64,
        mut head: impl FnMut(u64, &mut [u8], &[u8]) -> Option<u32>,
    ) -> Option<Ready> {
        let at = self.find(cut.offset);
        let chunk = self.chunks.get_mut(at)?;
        let (start, packets) = chunk.packets(cut, count)?;
        let len = packets.len();
        for (number, packet) in (0..).zip(packets.chunks_exact_mut(cut.header + cut.mss)) {
            let (header, payload) = packet.split_at_mut(cut.header);
            let crc = head(number, header, payload);
            self.crc.sent(payload.len(), crc);
        }
        chunk.on_sent_in_place(len, resent);
        Some(Ready { frame: Arc::clone(&chunk.frame), start })
    }

    /// Copies the bytes from `offset` on into `out`; all of them must have been written and not
    /// released.
    pub(crate) fn copy_to(&mut self, offset: u64, out: &mut [u8]) {
        let mut rest = out;
        self.for_pieces(offset, rest.len(), |piece| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
        });
    }

    /// CRC-32 of the `len` bytes from `offset` on, which [`SendBuffer::copy_to`] would copy.
    pub(crate) fn checksum(&mut self, offset: u64, len: usize) -> u32 {
        let mut crc = Crc32::new();
        self.for_pieces(offset, len, |piece| crc.update(piece));
        crc.sum()
    }

    /// The `len` bytes from `offset` on, piece by piece.
    fn for_pieces(&mut self, offset: u64, len: usize, mut take: impl FnMut(&[u8])) {
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
            take(piece);
            at += piece.len();
            rest -= piece.len();
        }
    }

    /// Forgets everything before `offset`; segments were sent again `resent` times so far. Who
    /// holds nothing has no memory either: the next byte is the first of a chunk.
    pub(crate) fn release(&mut self, offset: u64, resent: u64) {
        while let Some(first) = self.chunks.front() {
            // One that is not full is written on, unless nothing is held.
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

    /// One past the last byte written: the length of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// CRC-32 (IEEE) of the stream so far: of what was written, or where packets have checks of
    /// what was sent.
    pub(crate) fn crc(&self) -> u32 {
        match &self.crc {
            Crc::Written(crc) => crc.sum(),
            Crc::Sent { crc, .. } => *crc,
        }
    }

    /// The chunk that holds the byte at `offset`, or the last one for what is not written; 0 if
    /// there is none.
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

/// Where `offset` lies in a chunk from `base` on: both are in memory.
#[allow(clippy::cast_possible_truncation, reason = "a chunk is in memory")]
fn within(offset: u64, base: u64) -> usize {
    (offset - base) as usize
}

#[cfg(test)]
mod tests;
