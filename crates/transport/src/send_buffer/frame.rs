//! Memory in which packets lie ready to leave. Knows no stream and no packets.

/// Memory for a sender's bytes, from when they are written until they are acknowledged. There is room for a header
/// before those of each packet, so that packets leave from where they were written; see [`crate::FramePool`].
#[derive(Debug)]
pub struct Frame {
    memory: Memory,
    place: Option<Place>,
}

/// Where a frame lies, for a driver that can hand its memory to the kernel in place of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The driver's name for the file in which the frame lies.
    pub file: u64,
    /// Where in it, in bytes.
    pub offset: u64,
}

#[derive(Debug)]
enum Memory {
    Own(Box<[u8]>),
    Given(&'static mut [u8]),
}

impl Frame {
    /// Bytes of one.
    pub const SIZE: usize = 64 * 1024;

    /// Batches that are smaller, in bytes, are copied by whoever could lend them: that is cheaper than to hand
    /// over pages.
    pub const MIN_ZERO_COPY_BYTES: usize = 16 * 1024;

    /// One with memory of its own, all zeros.
    pub fn new() -> Self {
        Self { memory: Memory::Own(vec![0; Self::SIZE].into_boxed_slice()), place: None }
    }

    /// One over memory that lies at `place`.
    ///
    /// # Panics
    /// If that is not [`Frame::SIZE`] bytes.
    pub fn mapped_at(place: Place, memory: &'static mut [u8]) -> Self {
        assert_eq!(memory.len(), Self::SIZE, "a frame has one size");
        Self { memory: Memory::Given(memory), place: Some(place) }
    }

    /// Where it lies; `None` if nobody can lend it.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Given(bytes) => bytes,
        }
    }

    /// All of it, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Given(bytes) => bytes,
        }
    }
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}
