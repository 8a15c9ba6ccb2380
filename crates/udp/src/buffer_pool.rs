//! Memory of send batches, shared by the sockets of a thread: with hundreds of sockets, one batch
//! per socket would not fit the cache. Also fallible allocation, so that a memory shortage is
//! reported when a program binds a socket and not later.

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};

use rdt_datagram::TransmitBuf;

/// Limit on the free batches that a thread keeps.
const MAX_POOLED_BATCHES: usize = 2;

thread_local! {
    static POOL: RefCell<Vec<TransmitBuf>> = const { RefCell::new(Vec::new()) };
}

/// Allocates one batch for the sockets of the calling thread. Fails only for lack of memory.
pub fn prefill_batch_pool() -> io::Result<()> {
    if POOL.with_borrow(Vec::is_empty) {
        let batch = TransmitBuf::owning(zeroed(TransmitBuf::SIZE)?);
        POOL.with_borrow_mut(|pool| pool.push(batch));
    }
    Ok(())
}

/// Send batch that has memory only between [`PooledBatch::attach`] and [`PooledBatch::release`].
pub(crate) struct PooledBatch {
    batch: TransmitBuf,
    attached: bool,
}

impl PooledBatch {
    pub(crate) fn new() -> Self {
        Self { batch: TransmitBuf::owning(Box::default()), attached: false }
    }

    /// Attaches a pooled buffer of stale bytes. One that is attached already keeps its contents.
    pub(crate) fn attach(&mut self) -> &mut TransmitBuf {
        if !self.attached {
            let spare = POOL.with_borrow_mut(Vec::pop);
            self.batch = spare.unwrap_or_else(|| TransmitBuf::new(1));
            self.attached = true;
        }
        &mut self.batch
    }

    /// Clears the batch and returns its memory to the pool.
    pub(crate) fn release(&mut self) {
        if !std::mem::take(&mut self.attached) {
            return;
        }
        let mut batch = std::mem::replace(&mut self.batch, TransmitBuf::owning(Box::default()));
        batch.clear();
        POOL.with_borrow_mut(|pool| {
            if pool.len() < MAX_POOLED_BATCHES {
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

/// Allocates `len` zeroed bytes, not 0. Pages that are never written occupy no memory.
#[expect(unsafe_code, reason = "the standard library has no fallible zeroed allocation")]
pub(crate) fn zeroed(len: usize) -> io::Result<Box<[u8]>> {
    assert!(len > 0, "memory has a size");
    let layout = Layout::array::<u8>(len).map_err(|_| out_of_memory(len))?;
    // SAFETY: the layout's size is not 0.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(out_of_memory(len));
    }
    // SAFETY: the memory comes from the global allocator with the layout of a slice of `len` bytes,
    // which the box frees; all of it is initialized and not shared.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, len)) })
}

fn out_of_memory(len: usize) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for a buffer of {len} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(batch: &mut TransmitBuf) -> *const u8 {
        batch.clear();
        batch.slot(100).expect("there is memory").as_ptr()
    }

    #[test]
    fn released_memory_goes_to_next_batch() {
        let (mut a, mut b) = (PooledBatch::new(), PooledBatch::new());
        assert!(a.slot(1).is_none(), "no memory yet");
        let first = address(a.attach());
        assert_ne!(address(b.attach()), first, "still in use");
        a.release();
        assert!(a.slot(1).is_none() && a.bytes().is_empty());
        let mut c = PooledBatch::new();
        assert_eq!(address(c.attach()), first);
        assert_eq!(c.attach().bytes().len(), 100, "contents stay while attached");
    }

    #[test]
    fn first_batch_gets_prefilled_memory() {
        prefill_batch_pool().unwrap();
        prefill_batch_pool().unwrap();
        assert_eq!(POOL.with_borrow(Vec::len), 1);
        let mut a = PooledBatch::new();
        assert_eq!(a.attach().slot(TransmitBuf::SIZE).map(|slot| slot.len()), Some(TransmitBuf::SIZE));
        assert!(POOL.with_borrow(Vec::is_empty));
    }

    #[test]
    fn pool_keeps_two_batches() {
        let mut all: Vec<_> = (0..10).map(|_| PooledBatch::new()).collect();
        for one in &mut all {
            one.attach();
        }
        all.iter_mut().for_each(PooledBatch::release);
        assert_eq!(POOL.with_borrow(Vec::len), MAX_POOLED_BATCHES);
    }

    #[test]
    fn zeroed_reports_memory_shortage() {
        let mut memory = zeroed(100_000).unwrap();
        assert!(memory.iter().all(|byte| *byte == 0));
        memory.fill(7);
        drop(memory);
        for more_than_any_host_has in [usize::MAX, usize::MAX / 2] {
            let error = zeroed(more_than_any_host_has).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
