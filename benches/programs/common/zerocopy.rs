//! Zero-copy send memory for the limit: an anonymous file in one huge page if possible, whose pages
//! the kernel sends by reference. Plain system calls, so that the limit does not change with the
//! driver. Needs Linux 6.5, where all pages of a call form one message.

use std::os::fd::OwnedFd;
use std::{io, ptr};

use rustix::event::PollFlags;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create, sendfile};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::plain::Plain;

/// Size of the file, bytes: one huge page.
const LARGE: usize = 2 << 20;
/// Size of a slab, bytes: whole pages, with room for the largest message.
const SLAB: usize = 64 << 10;
pub(crate) const SLABS: usize = LARGE / SLAB;
/// `MADV_COLLAPSE` of `linux/mman.h` (Linux 6.1 and later), missing in the libc crate.
const COLLAPSE: libc::c_int = 25;

/// Slabs (equal parts of a file) for zero-copy sends.
pub(crate) struct ZeroCopy {
    file: OwnedFd,
    memory: &'static mut [u8],
}

impl ZeroCopy {
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("limit", MemfdFlags::CLOEXEC)?;
        fallocate(&file, FallocateFlags::empty(), 0, LARGE as u64)?;
        let memory = map(&file)?;
        Ok(Self { file, memory })
    }

    /// Returns a slab for writing. None of its bytes may be in flight.
    pub(crate) fn slab(&mut self, slab: usize) -> &mut [u8] {
        &mut self.memory[slab * SLAB..][..SLAB]
    }

    /// Sends the first `len` bytes of a slab by reference: they must not change before they are
    /// delivered.
    pub(crate) fn send(&self, socket: &Plain, slab: usize, len: usize) {
        let mut at = (slab * SLAB) as u64;
        let sent =
            socket.retry(PollFlags::OUT, || Ok(sendfile(socket.socket(), &self.file, Some(&mut at), len)?));
        assert_eq!(sent, len, "a message leaves as a whole");
    }
}

/// Maps the file at a huge-page boundary until the process ends, and collapses it into a huge page
/// if the kernel can.
#[expect(unsafe_code, reason = "memory shared with the kernel has no safe wrapper")]
fn map(file: &OwnedFd) -> io::Result<&'static mut [u8]> {
    // SAFETY: the kernel reserves an unused range with an aligned part, and the file is mapped over
    // that part alone. Neither mapping is ever removed and the file has no other mapping, so the
    // slice is unique and valid for the life of the process. All bytes are zero at first, and the
    // advice changes none.
    unsafe {
        let place = mmap_anonymous(ptr::null_mut(), 2 * LARGE, ProtFlags::empty(), MapFlags::PRIVATE)?;
        let aligned = place.map_addr(|address| address.next_multiple_of(LARGE));
        let (read_write, here) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        let at = mmap(aligned, LARGE, read_write, here, file, 0)?;
        // If this fails, small pages work too, but more slowly.
        let _ = libc::madvise(at, LARGE, COLLAPSE);
        Ok(std::slice::from_raw_parts_mut(at.cast::<u8>(), LARGE))
    }
}
