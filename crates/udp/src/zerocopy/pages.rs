//! The memory of a ring: a file without a name, mapped for good, and how the kernel sends from it.

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

/// Bytes of the file, of which the frames take the first part: one large page where small ones have 4 KiB.
const LARGE: usize = 2 * 1024 * 1024;
/// `MADV_COLLAPSE` of `linux/mman.h`, which the libc crate lacks: Linux 6.1, unless large pages are denied to memory
/// that is shared.
const COLLAPSE: libc::c_int = 25;

const _: () = assert!(FRAMES * Frame::SIZE <= LARGE, "the frames lie in one large page");

/// The memory, as a file without a name.
pub(crate) struct File {
    memory: OwnedFd,
    /// Where it is mapped.
    address: usize,
    /// The kernel does not send from here, or there are no fresh pages.
    closed: AtomicBool,
}

impl File {
    /// What [`Place::file`] of its frames is.
    pub(crate) fn name(&self) -> u64 {
        self.address as u64
    }
}

impl Pages for File {
    fn renew(&self) -> bool {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.memory, hole, 0, LARGE as u64).is_ok()
    }

    #[expect(unsafe_code, reason = "neither libc nor rustix wraps this advice")]
    fn join(&self) -> io::Result<()> {
        // Nothing is made of pages that are not there yet.
        fallocate(&self.memory, FallocateFlags::empty(), 0, LARGE as u64)?;
        let memory = ptr::without_provenance_mut(self.address);
        // SAFETY: the mapping is ours and never undone; the advice changes no byte of it.
        match unsafe { libc::madvise(memory, LARGE, COLLAPSE) } {
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
        // One that a batch still holds is left to it, and with it the rest.
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

/// A file that no sender uses, and its frames.
type Retired = (Arc<File>, Vec<Arc<Frame>>);

/// Rings whose senders are gone. A mapping is never undone, because its slices are valid for good; so it is
/// used again.
static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());

/// A ring, and the file in which its frames lie, where the kernel can send from one.
pub(crate) fn open() -> io::Result<(Arc<File>, ZerocopyPool<File>)> {
    if let Ok(mut retired) = RETIRED.lock()
        && let Some((file, frames)) = retired.pop()
    {
        return Ok((Arc::clone(&file), ZerocopyPool::new(file, frames)));
    }
    if !splices_datagrams() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let file = memfd_create("rdt-ring", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, LARGE as u64)?;
    let memory = map(&file)?;
    let address = memory.as_ptr().addr();
    let places = (0..).step_by(Frame::SIZE).map(|offset| FileOffset { file: address as u64, offset });
    let slices = memory.chunks_exact_mut(Frame::SIZE);
    let frames = places.zip(slices).map(|(place, slice)| Arc::new(Frame::mapped_at(place, slice))).collect();
    let file = Arc::new(File { memory: file, address, closed: AtomicBool::new(false) });
    Ok((Arc::clone(&file), ZerocopyPool::new(file, frames)))
}

/// Maps the file where a large page can be, for good.
#[expect(unsafe_code, reason = "memory shared with the kernel has no safe wrapper")]
fn map(file: &OwnedFd) -> io::Result<&'static mut [u8]> {
    // SAFETY: the kernel chooses a place where nothing is mapped, large enough to have an aligned part, and the
    // file is mapped over that part alone. Neither mapping is ever undone and nobody else maps the file, so the
    // slice is the only one of this memory and valid for good. All bytes are zero at first.
    unsafe {
        let place = mmap_anonymous(ptr::null_mut(), 2 * LARGE, ProtFlags::empty(), MapFlags::PRIVATE)?;
        let aligned = place.map_addr(|address| address.next_multiple_of(LARGE));
        let (read_write, here) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        let at = mmap(aligned, LARGE, read_write, here, file, 0)?;
        Ok(std::slice::from_raw_parts_mut(at.cast::<u8>(), FRAMES * Frame::SIZE))
    }
}

/// Sends `len` bytes at `offset` as one datagram, or as many as the socket's segment size makes of them.
pub(crate) fn send(socket: &UdpSocket, file: &File, offset: u64, len: usize) -> io::Result<usize> {
    let mut at = offset;
    Ok(sendfile(socket.as_fd(), file.memory.as_fd(), Some(&mut at), len)?)
}

/// Since Linux 6.5 a socket takes all pages of a call as one message.
fn splices_datagrams() -> bool {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().unwrap_or("").split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 5),
        _ => false,
    }
}
