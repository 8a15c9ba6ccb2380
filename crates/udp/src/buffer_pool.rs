//! Memory for batches, which the sockets of a thread use in turn: with hundreds of them, one for each would never be
//! in the cache when it is written.

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};

use rdt_datagram::TransmitBuf;

use crate::memory;

/// Batches that a thread keeps while no socket of it needs them.
const KEPT: usize = 2;

thread_local! {
    static POOL: RefCell<Vec<TransmitBuf>> = const { RefCell::new(Vec::new()) };
}

/// Gets memory for a batch of the sockets that this thread will drive, so that it is not asked for when it is needed.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`].
pub fn prefill_batch_pool() -> io::Result<()> {
    if POOL.with_borrow(Vec::is_empty) {
        let batch = TransmitBuf::owning(memory::zeroed(TransmitBuf::SIZE)?);
        POOL.with_borrow_mut(|pool| pool.push(batch));
    }
    Ok(())
}

/// A batch that has memory only from [`PooledBatch::fetch`] to [`PooledBatch::put_back`].
pub(crate) struct PooledBatch {
    batch: TransmitBuf,
    here: bool,
}

impl PooledBatch {
    /// One without memory.
    pub(crate) fn new() -> Self {
        Self { batch: TransmitBuf::owning(Box::default()), here: false }
    }

    /// Sees that there is memory. What is in the batch stays; of a fresh one nobody knows what it holds.
    pub(crate) fn fetch(&mut self) -> &mut TransmitBuf {
        if !self.here {
            let spare = POOL.with_borrow_mut(Vec::pop);
            self.batch = spare.unwrap_or_else(|| TransmitBuf::new(1));
            self.here = true;
        }
        &mut self.batch
    }

    /// Leaves the memory to others, and with it what is in it.
    pub(crate) fn put_back(&mut self) {
        if !std::mem::take(&mut self.here) {
            return;
        }
        let mut batch = std::mem::replace(&mut self.batch, TransmitBuf::owning(Box::default()));
        batch.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < KEPT {
                pool.push(batch);
            }
        });
    }
}

impl Deref for PooledBatch {
    type Target = TransmitBuf;

    fn deref(&self) -> &TransmitBuf {
        &self.batch
    }
}

impl DerefMut for PooledBatch {
    fn deref_mut(&mut self) -> &mut TransmitBuf {
        &mut self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(batch: &mut TransmitBuf) -> *const u8 {
        batch.clear();
        batch.slot(100).expect("there is memory").as_ptr()
    }

    #[test]
    fn what_one_puts_back_the_next_one_gets() {
        let (mut a, mut b) = (PooledBatch::new(), PooledBatch::new());
        assert!(a.slot(1).is_none(), "no memory yet");
        let first = place(a.fetch());
        assert_ne!(place(b.fetch()), first, "still in use");
        a.put_back();
        assert!(a.slot(1).is_none() && a.bytes().is_empty());
        let mut c = PooledBatch::new();
        assert_eq!(place(c.fetch()), first);
        assert_eq!(c.fetch().bytes().len(), 100, "it stays while it is here");
    }

    #[test]
    fn what_was_stocked_is_what_the_first_one_gets() {
        prefill_batch_pool().unwrap();
        prefill_batch_pool().unwrap();
        assert_eq!(POOL.with_borrow(Vec::len), 1);
        let mut a = PooledBatch::new();
        assert_eq!(a.fetch().slot(TransmitBuf::SIZE).map(|slot| slot.len()), Some(TransmitBuf::SIZE));
        assert!(POOL.with_borrow(Vec::is_empty));
    }

    #[test]
    fn few_are_kept() {
        let mut all: Vec<_> = (0..10).map(|_| PooledBatch::new()).collect();
        for one in &mut all {
            one.fetch();
        }
        all.iter_mut().for_each(PooledBatch::put_back);
        assert_eq!(POOL.with_borrow(Vec::len), KEPT);
    }
}
