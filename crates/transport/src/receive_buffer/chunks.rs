//! Memory of a stream, in chunks of 64 KiB at their offsets. A chunk exists only where bytes were
//! written, so data far beyond a hole costs little, and becomes readable in place once the hole is
//! filled. Does not record which bytes of a chunk were written.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of one chunk.
pub(crate) const CHUNK: u64 = 64 * 1024;
/// Memory of one entry in the list of chunks, present or not, in bytes.
pub(crate) const SLOT: u64 = size_of::<Option<Box<[u8]>>>() as u64;
/// Empty chunks kept for reuse (1 MiB), or as many as are in use if that is more: a steady stream
/// allocates nothing.
const MIN_SPARE_CHUNKS: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// Slot i holds the bytes from (`first` + i) * [`CHUNK`] on.
    first: u64,
    slots: VecDeque<Option<Box<[u8]>>>,
    used: usize,
    spare: Vec<Box<[u8]>>,
    /// True if no more data will arrive.
    ended: bool,
}

impl Chunks {
    /// Returns an empty stream that begins at offset `start`.
    pub(crate) fn new(start: u64) -> Self {
        Self { first: start / CHUNK, ..Self::default() }
    }

    /// Returns by how much [`Chunks::memory`] would grow if this range were written, in bytes.
    pub(crate) fn cost(&self, range: &Range<u64>) -> u64 {
        let (first, last) = (range.start / CHUNK, (range.end - 1) / CHUNK);
        let new_slots = (last + 1 - self.first).saturating_sub(self.slots.len() as u64);
        let is_present = |chunk: u64| self.slots.get(size(chunk - self.first)).is_some_and(Option::is_some);
        let missing = (first..=last).filter(|chunk| !is_present(*chunk)).count() as u64;
        missing * CHUNK + new_slots * SLOT
    }

    /// Copies `bytes` to `offset`, which must not have been released.
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

    /// Returns the bytes of this range up to the end of the first chunk. Empty if that chunk does
    /// not exist.
    pub(crate) fn slice(&self, range: Range<u64>) -> &[u8] {
        let slot = (range.start / CHUNK).checked_sub(self.first).map(size);
        let Some(Some(chunk)) = slot.and_then(|slot| self.slots.get(slot)) else { return &[] };
        let at = size(range.start % CHUNK);
        &chunk[at..(at + size(range.end.saturating_sub(range.start))).min(chunk.len())]
    }

    /// Returns the bytes of this range as one slice per chunk.
    pub(crate) fn slices(&self, mut range: Range<u64>) -> impl Iterator<Item = &[u8]> {
        std::iter::from_fn(move || {
            let slice = self.slice(range.clone());
            range.start += slice.len() as u64;
            (!slice.is_empty()).then_some(slice)
        })
    }

    /// Releases the chunks that end at or below `start`.
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

    /// Releases the chunks that begin at or above `end`.
    pub(crate) fn release_above(&mut self, end: u64) {
        let keep = size(end.div_ceil(CHUNK).saturating_sub(self.first));
        while self.slots.len() > keep {
            if let Some(Some(chunk)) = self.slots.pop_back() {
                self.recycle(chunk);
            }
        }
    }

    /// Releases all chunks. The next bytes are written at or above `start`.
    pub(crate) fn clear(&mut self, start: u64) {
        self.release_above(0);
        self.first = start / CHUNK;
    }

    /// Frees the spare chunks, and every chunk as soon as it is released, because no more data will
    /// arrive.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.spare = Vec::new();
    }

    /// Frees the spare chunks of an idle stream.
    pub(crate) fn shrink(&mut self) {
        self.spare = Vec::new();
        self.slots.shrink_to_fit();
    }

    /// Returns the memory of the chunks in use and of their list, in bytes; without spare chunks.
    pub(crate) fn memory(&self) -> u64 {
        self.used as u64 * CHUNK + self.slots.len() as u64 * SLOT
    }

    fn recycle(&mut self, chunk: Box<[u8]>) {
        self.used -= 1;
        if self.ended {
            return;
        }
        self.spare.push(chunk);
        self.spare.truncate(MIN_SPARE_CHUNKS.max(self.used));
    }
}

/// Converts an offset within memory. Larger offsets were refused by a limit before.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_bytes_cost_their_chunks_and_list_entries() {
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
    fn released_chunks_are_reused_and_not_counted() {
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
    fn drained_stream_keeps_one_mebibyte_for_reuse() {
        let mut chunks = Chunks::new(0);
        chunks.write(0, &vec![1; size(100 * CHUNK)]);
        chunks.release_below(40 * CHUNK);
        assert_eq!(chunks.spare.len(), 40);
        chunks.release_below(100 * CHUNK);
        assert_eq!((chunks.memory(), chunks.spare.len()), (0, MIN_SPARE_CHUNKS));
        chunks.release_below(1 << 60);
        chunks.write(1 << 60, b"x");
        assert_eq!(chunks.memory(), CHUNK + SLOT);
        chunks.end();
        chunks.clear(1 << 60);
        assert_eq!((chunks.memory(), chunks.spare.capacity()), (0, 0));
    }
}
