//! Memory for bytes that are written and not yet acknowledged, which senders take from and give back to. Knows no
//! streams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of one chunk.
pub(super) const CHUNK: usize = 64 * 1024;
/// Free chunks kept for reuse; more are given back to the allocator. What one turn's ACKs free is taken again by the
/// next turn's data, so this is as much as a turn may acknowledge: 16 MiB.
const FREE_CHUNKS: usize = 256;

/// Memory for what senders hold until it is acknowledged. Each has its own unless it is given another's
/// ([`Sender::with_memory`](crate::Sender::with_memory)): many that run in turn on one thread should share one. Then
/// what the first to be acknowledged gives back is what the next to write gets, still in the cache, and there is as
/// much of it as is in flight, however many they are.
///
/// Clones are the same memory. It is not limited: the senders' windows do that.
#[derive(Debug, Clone, Default)]
pub struct SendMemory(Arc<Mutex<Vec<Box<[u8]>>>>);

impl SendMemory {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// The chunk that was given back last, holding whatever it held, or a new one.
    pub(super) fn take(&self) -> Box<[u8]> {
        let free = self.free().pop();
        free.unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice())
    }

    pub(super) fn give_back(&self, chunk: Box<[u8]>) {
        let mut free = self.free();
        if free.len() < FREE_CHUNKS {
            free.push(chunk);
        }
    }

    /// Nobody panics while it is locked, so a list that was left by one who did is whole.
    fn free(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_last_is_taken_first() {
        let memory = SendMemory::new();
        let (first, second) = (memory.take(), memory.take());
        let last = second.as_ptr();
        memory.give_back(first);
        memory.give_back(second);
        let taken = memory.clone().take();
        assert_eq!(taken.as_ptr(), last);
    }

    #[test]
    fn not_more_is_kept_than_a_turn_may_acknowledge() {
        let memory = SendMemory::new();
        for _ in 0..=FREE_CHUNKS {
            memory.give_back(Box::new([]));
        }
        assert_eq!(memory.free().len(), FREE_CHUNKS);
    }
}
