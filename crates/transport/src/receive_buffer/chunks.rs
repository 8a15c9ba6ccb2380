//! Bytes of a stream at their offsets, in chunks that exist where bytes were written: far behind a hole costs
//! no more than what arrived there. Each byte is copied once, and what was behind a hole is readable in place
//! when the hole is filled. Knows not which bytes were written; whoever reads must.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of one chunk.
pub(crate) const CHUNK: u64 = 64 * 1024;
/// What the place of a chunk costs whether it is there or not, in bytes.
pub(crate) const SLOT: u64 = size_of::<Option<Box<[u8]>>>() as u64;
/// This many empty chunks are kept for reuse, 1 MiB, and as many as are in use where that is more: so a
/// steady stream allocates nothing.
const SPARE: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// Slot i is for the bytes from (`first` + i) * [`CHUNK`] on.
    first: u64,
    slots: VecDeque<Option<Box<[u8]>>>,
    used: usize,
    spare: Vec<Box<[u8]>>,
    /// Nothing more will be written.
    ended: bool,
}

impl Chunks {
    /// Nothing below `start` will be written.
    pub(crate) fn new(start: u64) -> Self {
        Self { first: start / CHUNK, ..Self::default() }
    }

    /// How much more [`Chunks::memory`] would be after writing this range, in bytes.
    pub(crate) fn cost(&self, range: &Range<u64>) -> u64 {
        let (first, last) = (range.start / CHUNK, (range.end - 1) / CHUNK);
        let new_slots = (last + 1 - self.first).saturating_sub(self.slots.len() as u64);
        let here = |chunk: u64| self.slots.get(size(chunk - self.first)).is_some_and(Option::is_some);
        let missing = (first..=last).filter(|chunk| !here(*chunk)).count() as u64;
        missing * CHUNK + new_slots * SLOT
    }

    /// Copies `bytes` to `offset`, which is not released.
    pub(crate) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let slot = size(offset / CHUNK - self.first);
            let at = size(offset % CHUNK);
            if slot >= self.slots.len() {
                self.slots.resize_with(slot + 1, || None);
            }
            let (used, spare) = (&mut self.used, &mut self.spare);
            let chunk = self.slots[slot].get_or_insert_with(|| {
                *used += 1;
                spare.pop().unwrap_or_else(|| vec![0; size(CHUNK)].into_boxed_slice())
            });
            let (here, rest) = bytes.split_at(bytes.len().min(chunk.len() - at));
            chunk[at..at + here.len()].copy_from_slice(here);
            offset += here.len() as u64;
            bytes = rest;
        }
    }

    /// The bytes of this range, but at most to the end of their chunk; nothing if the chunk is not there.
    pub(crate) fn slice(&self, range: Range<u64>) -> &[u8] {
        let slot = (range.start / CHUNK).checked_sub(self.first).map(size);
        let Some(Some(chunk)) = slot.and_then(|slot| self.slots.get(slot)) else { return &[] };
        let at = size(range.start % CHUNK);
        &chunk[at..(at + size(range.end.saturating_sub(range.start))).min(chunk.len())]
    }

    /// Gives back the chunks that end at `start` or below: nothing below will be read.
    pub(crate) fn release_below(&mut self, start: u64) {
        while self.first < start / CHUNK {
            if let Some(Some(chunk)) = self.slots.pop_front() {
                self.recycle(chunk);
            } else if self.slots.is_empty() {
                self.first = start / CHUNK;
                return;
            }
            self.first += 1;
        }
    }

    /// Gives back every chunk: nothing of what was written will be read, nothing below `start` written.
    pub(crate) fn clear(&mut self, start: u64) {
        while let Some(slot) = self.slots.pop_front() {
            if let Some(chunk) = slot {
                self.recycle(chunk);
            }
        }
        self.first = start / CHUNK;
    }

    /// Nothing more will be written, so nothing is kept for reuse.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.spare = Vec::new();
    }

    /// Bytes of the chunks in use and of their places; spare chunks are not counted.
    pub(crate) fn memory(&self) -> u64 {
        self.used as u64 * CHUNK + self.slots.len() as u64 * SLOT
    }

    fn recycle(&mut self, chunk: Box<[u8]>) {
        self.used -= 1;
        if self.ended {
            return;
        }
        self.spare.push(chunk);
        self.spare.truncate(SPARE.max(self.used));
    }
}

/// Offsets within what is in memory fit; an offset that does not would fail every bound before.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_bytes_cost_their_chunk_and_the_places_before_it() {
        let mut chunks = Chunks::new(0);
        let far = 1600 * CHUNK - 1..1600 * CHUNK + 1;
        let cost = 2 * CHUNK + 1601 * SLOT;
        assert_eq!(chunks.cost(&far), cost);
        chunks.write(far.start, b"ab");
        assert_eq!((chunks.memory(), chunks.cost(&far)), (cost, 0));
        assert_eq!(chunks.slice(far.clone()), b"a", "to the end of its chunk");
        assert_eq!(chunks.slice(far.end - 1..far.end), b"b");
        assert_eq!(chunks.slice(5..9), b"");
    }

    #[test]
    fn released_chunks_are_used_again_and_their_memory_is_not_counted() {
        let mut chunks = Chunks::new(3 * CHUNK + 5);
        for _ in 0..2 {
            chunks.write(3 * CHUNK + 5, &vec![1; 200_000]);
            assert_eq!(chunks.memory(), 4 * (CHUNK + SLOT));
            chunks.release_below(5 * CHUNK - 1);
            assert_eq!(chunks.memory(), 3 * (CHUNK + SLOT));
            chunks.clear(3 * CHUNK);
            assert_eq!((chunks.memory(), chunks.spare.len()), (0, 4));
        }
    }

    #[test]
    fn a_drained_store_keeps_no_more_than_a_mebibyte() {
        let mut chunks = Chunks::new(0);
        chunks.write(0, &vec![1; size(100 * CHUNK)]);
        chunks.release_below(40 * CHUNK);
        assert_eq!(chunks.spare.len(), 40);
        chunks.release_below(100 * CHUNK);
        assert_eq!((chunks.memory(), chunks.spare.len()), (0, SPARE));
        chunks.release_below(1 << 60);
        chunks.write(1 << 60, b"x");
        assert_eq!(chunks.memory(), CHUNK + SLOT);
        chunks.end();
        chunks.clear(1 << 60);
        assert_eq!((chunks.memory(), chunks.spare.capacity()), (0, 0));
    }
}
