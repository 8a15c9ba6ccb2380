//! Memory of zero-copy frames: a permanently mapped anonymous file, from which the kernel sends.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rdt_datagram::{FileOffset, Frame};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create, sendfile};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use super::{FRAMES, Pages, ZerocopyPool};

/// Size of the file, bytes: one large page on systems with 4 KiB pages, with the frames first.
const FILE_BYTES: usize = 2 * 1024 * 1024;
/// `MADV_COLLAPSE` of `linux/mman.h`, missing in the libc crate. Needs Linux 6.1, and large pages
/// enabled for shared memory.
const MADV_COLLAPSE: libc::c_int = 25;

const _: () = assert!(FRAMES * Frame::SIZE <= FILE_BYTES, "the frames lie in one large page");

/// Anonymous file (memfd) and its mapping.
pub(crate) struct File {
    memory: OwnedFd,
    address: usize,
    /// True once the kernel refused to send from the file, or to replace its pages.
    closed: AtomicBool,
}

impl File {
    /// Returns the file identifier in [`FileOffset`].
    pub(crate) fn id(&self) -> u64 {
        self.address as u64
    }
}

impl Pages for File {
    fn renew(&self) -> bool {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.memory, hole, 0, FILE_BYTES as u64).is_ok()
    }

    #[expect(unsafe_code, reason = "neither libc nor rustix wraps this advice")]
    fn join(&self) -> io::Result<()> {
        // Pages must be allocated before they can be joined.
        fallocate(&self.memory, FallocateFlags::empty(), 0, FILE_BYTES as u64)?;
        let memory = ptr::without_provenance_mut(self.address);
        // SAFETY: this file owns the mapping, which is permanent; the advice changes no byte of it.
        match unsafe { libc::madvise(memory, FILE_BYTES, MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn retire(self: Arc<Self>, mut frames: Vec<Arc<Frame>>) {
        // If an unsent batch still holds a frame, the memory is not used again.
        if frames.len() == FRAMES
            && frames.iter_mut().all(|frame| Arc::get_mut(frame).is_some())
            && self.renew()
            && let Ok(mut retired) = RETIRED.lock()
        {
            self.closed.store(false, Ordering::Relaxed);
            retired.push((self, frames));
        }
    }
}

/// File without a pool, and all of its frames.
type Retired = (Arc<File>, Vec<Arc<Frame>>);

/// Files of dropped pools, for reuse: their mappings are permanent, with `'static` slices.
static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// Opens a pool and its file. Fails if the kernel does not support zero-copy from a file.
pub(crate) fn open() -> io::Result<(Arc<File>, ZerocopyPool<File>)> {
    if let Ok(mut retired) = RETIRED.lock()
        && let Some((file, frames)) = retired.pop()
    {
        return Ok((Arc::clone(&file), ZerocopyPool::new(file, frames)));
    }
    if !splices_datagrams() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let file = memfd_create("rdt-zerocopy", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, FILE_BYTES as u64)?;
    let memory = map(&file)?;
    let address = memory.as_ptr().addr();
    let places = (0..).step_by(Frame::SIZE).map(|offset| FileOffset { file: address as u64, offset });
    let slices = memory.chunks_exact_mut(Frame::SIZE);
    let frames = places.zip(slices).map(|(place, slice)| Arc::new(Frame::mapped_at(place, slice))).collect();
    let file = Arc::new(File { memory: file, address, closed: AtomicBool::new(false) });
    Ok((Arc::clone(&file), ZerocopyPool::new(file, frames)))
}

/// Maps the file permanently, aligned for a large page.
#[expect(unsafe_code, reason = "memory shared with the kernel has no safe wrapper")]
fn map(file: &OwnedFd) -> io::Result<&'static mut [u8]> {
    // SAFETY: the kernel chooses a free range that is large enough to contain an aligned part, and
    // only that part is replaced by the mapping of the file. Both mappings are permanent and the
    // file is mapped only here, so the slice is the only one of this memory and valid for
    // `'static`. All bytes are zero at first.
    unsafe {
        let place = mmap_anonymous(ptr::null_mut(), 2 * FILE_BYTES, ProtFlags::empty(), MapFlags::PRIVATE)?;
        let aligned = place.map_addr(|address| address.next_multiple_of(FILE_BYTES));
        let (read_write, here) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        let at = mmap(aligned, FILE_BYTES, read_write, here, file, 0)?;
        Ok(std::slice::from_raw_parts_mut(at.cast::<u8>(), FRAMES * Frame::SIZE))
    }
}

/// Sends `len` bytes of the file, from `offset` on. They leave as one datagram, or, if the socket
/// has a segment size (GSO), as several of that size.
pub(crate) fn send(socket: &UdpSocket, file: &File, offset: u64, len: usize) -> io::Result<usize> {
    let mut at = offset;
    Ok(sendfile(socket.as_fd(), file.memory.as_fd(), Some(&mut at), len)?)
}

/// Returns true from Linux 6.5 on, where a socket sends all pages of one call as one message.
fn splices_datagrams() -> bool {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().unwrap_or("").split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 5),
        _ => false,
    }
}
