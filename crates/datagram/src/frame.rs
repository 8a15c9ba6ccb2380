//! Fixed-size buffers in which a sender keeps encoded packets until they are acknowledged.

use std::sync::Arc;

/// Buffer of [`Frame::SIZE`] bytes for packets, header and payload in the order in which they are
/// sent, so that a batch is sent from where its payload was written. A frame that lies in a file
/// can be sent by reference (zero-copy).
#[derive(Debug)]
pub struct Frame {
    memory: Memory,
    file_offset: Option<FileOffset>,
}

/// Position in a file that a socket can send from without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOffset {
    /// Identifier of the file, chosen by its owner.
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

    /// Smallest batch that is sent by reference, bytes. Copying a smaller one costs less than
    /// passing its pages.
    pub const MIN_ZERO_COPY_BYTES: usize = 16 * 1024;

    /// Allocates a zeroed frame on the heap.
    pub fn new() -> Self {
        Self { memory: Memory::Heap(vec![0; Self::SIZE].into_boxed_slice()), file_offset: None }
    }

    /// Wraps mapped memory of a file.
    ///
    /// # Panics
    /// If `memory` is not [`Frame::SIZE`] bytes long.
    pub fn mapped_at(file_offset: FileOffset, memory: &'static mut [u8]) -> Self {
        assert_eq!(memory.len(), Self::SIZE, "a frame has one size");
        Self { memory: Memory::Mapped(memory), file_offset: Some(file_offset) }
    }

    /// Returns the position in a file, or `None` for a frame on the heap.
    pub fn file_offset(&self) -> Option<FileOffset> {
        self.file_offset
    }

    /// Returns the whole frame.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
        }
    }

    /// Returns the whole frame for writing.
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

/// Frames that a socket sends by reference. Their owner decides when a returned frame may be
/// overwritten.
pub trait FrameSource: Send {
    /// Takes a frame that is referenced nowhere else; `None` if there is none at present.
    fn take(&mut self) -> Option<Arc<Frame>>;

    /// Returns true if senders hold as many frames as they may: [`FrameSource::take`] fails until
    /// one is returned.
    fn is_exhausted(&self) -> bool;

    /// Returns a frame whose packets are all acknowledged or abandoned.
    fn give_back(&mut self, frame: Arc<Frame>, reuse: Reuse);
}

/// Conditions on which the memory of a returned frame may be overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Free at once: no batch of the frame was large enough to be sent by reference.
    NeverSent,
    /// Free at once: each packet was transmitted once and is acknowledged, so no copy is in flight.
    Acknowledged,
    /// Not free: after a retransmission or an abort, an earlier copy may still wait in a queue and
    /// reference the pages.
    MaybeReferenced,
}
