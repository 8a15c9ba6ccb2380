//! Pool of frames: the memory of send buffers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Frame, FrameSource, Reuse};

/// Largest number of free frames, 16 MiB; further ones return to the allocator. The ACKs of one
/// turn free at most this much, and the data written next reuses it.
const FREE_FRAMES: usize = 256;

/// Pool of frames for unacknowledged data.
///
/// Each sender has its own pool unless it is built with another one
/// ([`Sender::with_memory`](crate::Sender::with_memory)). Senders that run in turn on one thread
/// should share one: a frame freed by one sender's ACKs is still in the cache when the next sender
/// writes, and the pool is only as large as the data in flight.
///
/// Clones share the frames. The pool has no limit of its own; the senders' windows limit it.
#[derive(Clone, Default)]
pub struct FramePool(Arc<Mutex<Free>>);

#[derive(Default)]
struct Free {
    frames: Vec<Arc<Frame>>,
    lendable: Option<Box<dyn FrameSource>>,
}

impl FramePool {
    /// Returns an empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a pool that uses the zero-copy frames of `frames` first.
    pub fn of(frames: Box<dyn FrameSource>) -> Self {
        Self(Arc::new(Mutex::new(Free { frames: Vec::new(), lendable: Some(frames) })))
    }

    /// Returns an unshared frame: a zero-copy one if available, else the one freed last (with its
    /// old contents), else a new one.
    pub(super) fn take(&self) -> Arc<Frame> {
        let mut free = self.free();
        if let Some(frame) = free.lendable.as_mut().and_then(|frames| frames.take()) {
            return frame;
        }
        let mut unshared = std::iter::from_fn(|| free.frames.pop());
        unshared.find_map(|mut frame| Arc::get_mut(&mut frame).is_some().then_some(frame)).unwrap_or_default()
    }

    /// True if all zero-copy frames are in use.
    pub(super) fn is_exhausted(&self) -> bool {
        self.free().lendable.as_ref().is_some_and(|frames| frames.is_exhausted())
    }

    pub(super) fn give_back(&self, frame: Arc<Frame>, reuse: Reuse) {
        let mut free = self.free();
        if frame.file_offset().is_none() {
            if free.frames.len() < FREE_FRAMES {
                free.frames.push(frame);
            }
        } else if let Some(frames) = &mut free.lendable {
            frames.give_back(frame, reuse);
        }
    }

    /// Frees the unused frames, except zero-copy ones.
    pub(crate) fn shrink(&self) {
        self.free().frames = Vec::new();
    }

    /// Locks the list. Poisoning is ignored, because no code panics while it changes the list.
    fn free(&self) -> MutexGuard<'_, Free> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePool").field("free", &self.free().frames.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_reuses_last_returned_unshared_frame() {
        let memory = FramePool::new();
        let (first, second) = (memory.take(), memory.take());
        let (a, b) = (Arc::as_ptr(&first), Arc::as_ptr(&second));
        memory.give_back(first, Reuse::Acknowledged);
        memory.give_back(second, Reuse::Acknowledged);
        let mut taken = memory.clone().take();
        assert_eq!(Arc::as_ptr(&taken), b);
        let batch = Arc::clone(&taken);
        memory.give_back(taken, Reuse::Acknowledged);
        taken = memory.take();
        assert_eq!(Arc::as_ptr(&taken), a);
        assert_ne!(Arc::as_ptr(&memory.take()), Arc::as_ptr(&batch));
    }

    #[test]
    fn pool_keeps_limited_free_frames() {
        let memory = FramePool::new();
        let frames: Vec<_> = (0..=FREE_FRAMES).map(|_| memory.take()).collect();
        for frame in frames {
            memory.give_back(frame, Reuse::Acknowledged);
        }
        assert_eq!(memory.free().frames.len(), FREE_FRAMES);
    }

    /// Source of one frame, which records how the frame is returned.
    struct One(Option<Arc<Frame>>, Arc<Mutex<Vec<Reuse>>>);

    impl FrameSource for One {
        fn take(&mut self) -> Option<Arc<Frame>> {
            self.0.take()
        }

        fn is_exhausted(&self) -> bool {
            self.0.is_none()
        }

        fn give_back(&mut self, frame: Arc<Frame>, reuse: Reuse) {
            self.0 = Some(frame);
            self.1.lock().unwrap().push(reuse);
        }
    }

    #[test]
    fn zero_copy_frames_come_first() {
        let place = crate::FileOffset { file: 1, offset: 0 };
        let frame = Arc::new(Frame::mapped_at(place, vec![0; Frame::SIZE].leak()));
        let wears = Arc::new(Mutex::new(Vec::new()));
        let memory = FramePool::of(Box::new(One(Some(frame), Arc::clone(&wears))));
        assert!(!memory.is_exhausted() && !FramePool::new().is_exhausted());
        let (lendable, own) = (memory.take(), memory.take());
        assert!(memory.is_exhausted());
        assert_eq!((lendable.file_offset(), own.file_offset()), (Some(place), None));
        memory.give_back(own, Reuse::MaybeReferenced);
        memory.give_back(lendable, Reuse::MaybeReferenced);
        assert_eq!((memory.take().file_offset(), memory.take().file_offset()), (Some(place), None));
        assert_eq!(*wears.lock().unwrap(), [Reuse::MaybeReferenced]);
    }
}
