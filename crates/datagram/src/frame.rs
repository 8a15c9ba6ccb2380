//! Fixed-size buffers in which a sender stores encoded packets until they are acknowledged.

use std::sync::Arc;

/// Buffer of [`Frame::SIZE`] bytes for packets: headers and payloads in the order of sending, so
/// that a batch is sent without gathering. A frame in a memory-mapped file can be sent zero-copy.
#[derive(Debug)]
pub struct Frame {
    memory: Memory,
    file_offset: Option<FileOffset>,
}

/// Position in a file from which a socket can send zero-copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOffset {
    /// Identifier of the file, chosen by the owner of the frames.
    pub file: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
}

#[derive(Debug)]
enum Memory {
    Heap(Box<[u8]>),
    Mapped(&'static mut [u8]),
}

impl Frame {
    /// Size of a frame, bytes.
    pub const SIZE: usize = 64 * 1024;

    /// Smallest batch that is sent zero-copy, bytes. Copying a smaller batch costs less than the
    /// page references that zero-copy needs.
    pub const MIN_ZERO_COPY_BYTES: usize = 16 * 1024;

    /// Allocates a zeroed frame on the heap.
    pub fn new() -> Self {
        Self { memory: Memory::Heap(vec![0; Self::SIZE].into_boxed_slice()), file_offset: None }
    }

    /// Creates a frame over the mapped memory of a file.
    ///
    /// # Panics
    /// If `memory` is not [`Frame::SIZE`] bytes long.
    pub fn mapped_at(file_offset: FileOffset, memory: &'static mut [u8]) -> Self {
        assert_eq!(memory.len(), Self::SIZE, "a frame has one size");
        Self { memory: Memory::Mapped(memory), file_offset: Some(file_offset) }
    }

    /// Returns the position of the frame in its file. `None` for a frame on the heap.
    pub fn file_offset(&self) -> Option<FileOffset> {
        self.file_offset
    }

    /// Returns all bytes of the frame.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
        }
    }

    /// Returns all bytes of the frame for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
        }
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

/// Pool of frames for zero-copy sending. The pool decides when a returned frame is overwritten.
pub trait FrameSource: Send {
    /// Removes a frame without other references from the pool. `None` if no frame is free now.
    fn take(&mut self) -> Option<Arc<Frame>>;

    /// Returns true if [`FrameSource::take`] returns `None` until a frame is returned, because the
    /// senders have as many frames as the pool allows.
    fn is_exhausted(&self) -> bool;

    /// Returns to the pool a frame whose packets are all acknowledged or abandoned.
    fn give_back(&mut self, frame: Arc<Frame>, reuse: Reuse);
}

/// When the memory of a returned frame may be overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Immediately: no batch of the frame was large enough to be sent zero-copy.
    NeverSent,
    /// Immediately: each packet was sent once and is acknowledged, so no copy is in flight.
    Acknowledged,
    /// Later: after a retransmission or abort, an earlier copy may still reference the pages.
    MaybeReferenced,
}
