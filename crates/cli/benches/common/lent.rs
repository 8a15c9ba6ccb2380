//! Memory that the kernel sends by reference: a file without a name whose pages become the datagrams, in one large page
//! if there is one. Made of plain calls, for a limit that does not move with the driver. Linux only, from 6.5 on, where
//! all pages of a call are one message.

use std::os::fd::OwnedFd;
use std::{io, ptr};

use rustix::event::PollFlags;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create, sendfile};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use crate::plain::Plain;

/// Bytes: one large page.
const LARGE: usize = 2 << 20;
/// Bytes of a slab: whole pages, and the largest message.
const SLAB: usize = 64 << 10;
/// Slabs in it.
pub(crate) const SLABS: usize = LARGE / SLAB;
/// `MADV_COLLAPSE` of `linux/mman.h`, which the libc crate lacks: Linux 6.1.
const COLLAPSE: libc::c_int = 25;

/// Slabs that can be written and sent.
pub(crate) struct Lent {
    file: OwnedFd,
    memory: &'static mut [u8],
}

impl Lent {
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("limit", MemfdFlags::CLOEXEC)?;
        fallocate(&file, FallocateFlags::empty(), 0, LARGE as u64)?;
        let memory = map(&file)?;
        Ok(Self { file, memory })
    }

    /// What is to be sent from a slab of which nothing is on its way.
    pub(crate) fn slab(&mut self, slab: usize) -> &mut [u8] {
        &mut self.memory[slab * SLAB..][..SLAB]
    }

    /// Sends the first `len` bytes of a slab, which the network reads until they have arrived.
    pub(crate) fn send(&self, socket: &Plain, slab: usize, len: usize) {
        let mut at = (slab * SLAB) as u64;
        let sent =
            socket.retry(PollFlags::OUT, || Ok(sendfile(socket.socket(), &self.file, Some(&mut at), len)?));
        assert_eq!(sent, len, "a message leaves as a whole");
    }
}

/// Maps the file where a large page can be, for good, and makes one of its pages if the kernel has one.
#[expect(unsafe_code, reason = "memory shared with the kernel has no safe wrapper")]
fn map(file: &OwnedFd) -> io::Result<&'static mut [u8]> {
    // SAFETY: the kernel chooses a place where nothing is mapped, large enough to have an aligned part, and the file is
    // mapped over that part alone. Neither mapping is ever undone and nobody else maps the file, so the slice is the
    // only one of this memory and valid for good; all bytes are zero at first, and the advice changes none.
    unsafe {
        let place = mmap_anonymous(ptr::null_mut(), 2 * LARGE, ProtFlags::empty(), MapFlags::PRIVATE)?;
        let aligned = place.map_addr(|address| address.next_multiple_of(LARGE));
        let (read_write, here) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        let at = mmap(aligned, LARGE, read_write, here, file, 0)?;
        // Small pages do as well, if more slowly.
        let _ = libc::madvise(at, LARGE, COLLAPSE);
        Ok(std::slice::from_raw_parts_mut(at.cast::<u8>(), LARGE))
    }
}
