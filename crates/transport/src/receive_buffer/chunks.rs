//! Memory of a stream, in chunks of 64 KiB at their offsets. A chunk exists only where bytes were
//! written, so data far beyond a hole costs little, and becomes readable in place once the hole is
//! filled. Does not record which bytes of a chunk were written.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of one chunk.
pub(crate) const CHUNK: u64 = 64 * 1024;
/// Memory of one entry in the list of chunks, present or not, in bytes.
pub(crate) const SLOT: u64 = size_of::<Option<Box<[u8]>>>() as u64;
/// Empty chunks kept for reuse (1 MiB), or as many as are in use: a steady stream needs no more.
const MIN_SPARE_CHUNKS: usize = 16;

/// Pool of empty chunks, which keep their old contents; clones share it. The streams of one thread
/// share a pool: the chunk read last is still in the cache when the next stream needs one.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunkPool(Arc<Mutex<Spare>>);

#[derive(Debug, Default)]
struct Spare {
    chunks: Vec<Box<[u8]>>,
    /// Chunks that streams use.
    used: usize,
}

impl ChunkPool {
    fn take(&self) -> Box<[u8]> {
        let mut spare = self.spare();
        spare.used += 1;
        spare.chunks.pop().unwrap_or_else(|| vec![0; size(CHUNK)].into_boxed_slice())
    }

    /// Counts a chunk as unused, and keeps it for reuse unless it is `None`.
    fn give_back(&self, chunk: Option<Box<[u8]>>) {
        let mut spare = self.spare();
        spare.used -= 1;
        spare.chunks.extend(chunk);
        let most = MIN_SPARE_CHUNKS.max(spare.used);
        spare.chunks.truncate(most);
    }

    /// Frees the empty chunks, unless streams other than the caller's use some. `own` is the number
    /// of chunks that the caller's stream uses.
    pub(crate) fn shrink(&self, own: usize) {
        let mut spare = self.spare();
        if spare.used == own {
            spare.chunks = Vec::new();
        }
    }

    /// Locks the list. Poisoning is ignored, because no code panics while it changes the list.
    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Chunks {
    /// Slot i holds the bytes from (`first` + i) * [`CHUNK`] on.
    first: u64,
    slots: VecDeque<Option<Box<[u8]>>>,
    used: usize,
    pool: ChunkPool,
    /// True if no more data will arrive.
    ended: bool,
}

impl Chunks {
    /// Returns an empty stream that begins at offset `start`.
    pub(crate) fn new(start: u64) -> Self {
        let (slots, pool) = (VecDeque::new(), ChunkPool::default());
        Self { first: start / CHUNK, slots, used: 0, pool, ended: false }
    }

    /// Takes chunks from a shared `pool`. Only before the first bytes.
    pub(crate) fn set_pool(&mut self, pool: ChunkPool) {
        debug_assert_eq!(self.used, 0, "chunks return to the pool from which they came");
        self.pool = pool;
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
            let (used, pool) = (&mut self.used, &self.pool);
            let chunk = self.slots[slot].get_or_insert_with(|| {
                *used += 1;
                pool.take()
            });
            let (here, rest) = bytes.split_at(bytes.len().min(chunk.len() - at));
            chunk[at..at + here.len()].copy_from_slice(here);
            offset += here.len() as u64;
            bytes = rest;
        }
    }

    /// Returns the bytes of this range up to the end of the first chunk, if that exists.
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

    /// Frees the spare chunks, unless another stream uses some, and every chunk as soon as it is
    /// released, because no more data will arrive.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.shrink();
    }

    /// Frees the spare chunks of an idle stream, unless another stream uses some.
    pub(crate) fn shrink(&mut self) {
        self.slots.shrink_to_fit();
        self.pool.shrink(self.used);
    }

    /// Returns the memory of the chunks in use and of their list, in bytes; without spare chunks.
    pub(crate) fn memory(&self) -> u64 {
        self.used as u64 * CHUNK + self.slots.len() as u64 * SLOT
    }

    fn recycle(&mut self, chunk: Box<[u8]>) {
        self.used -= 1;
        self.pool.give_back(Some(chunk).filter(|_| !self.ended));
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.release_above(0);
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
            assert_eq!((chunks.memory(), chunks.pool.spare().chunks.len()), (0, 4));
        }
    }

    #[test]
    fn drained_stream_keeps_one_mebibyte_for_reuse() {
        let mut chunks = Chunks::new(0);
        chunks.write(0, &vec![1; size(100 * CHUNK)]);
        chunks.release_below(40 * CHUNK);
        assert_eq!(chunks.pool.spare().chunks.len(), 40);
        chunks.release_below(100 * CHUNK);
        assert_eq!((chunks.memory(), chunks.pool.spare().chunks.len()), (0, MIN_SPARE_CHUNKS));
        chunks.release_below(1 << 60);
        chunks.write(1 << 60, b"x");
        assert_eq!(chunks.memory(), CHUNK + SLOT);
        chunks.end();
        chunks.clear(1 << 60);
        assert_eq!((chunks.memory(), chunks.pool.spare().chunks.capacity()), (0, 0));
    }

    #[test]
    fn streams_share_chunks_of_a_pool() {
        let pool = ChunkPool::default();
        let [mut first, mut second] = [0; 2].map(Chunks::new);
        first.set_pool(pool.clone());
        second.set_pool(pool.clone());
        first.write(0, b"read");
        let place = first.slice(0..4).as_ptr();
        first.clear(4);
        second.write(0, b"next");
        assert_eq!(second.slice(0..4).as_ptr(), place);
        first.write(4, b"more");
        first.clear(8);
        first.shrink();
        assert_eq!(pool.spare().chunks.len(), 1, "the other stream is busy");
        drop(second);
        first.shrink();
        let spare = pool.spare();
        assert_eq!((spare.chunks.len(), spare.used), (0, 0));
    }
}
