//! Slabs that the kernel sends by reference: their pages become the datagrams, and no byte is copied. Owns the
//! memory and knows which of it the network may still read. Linux only, from 6.5 on.
//!
//! A slab that was lent is written again only when nobody can read it any more. That is so once everything in it was
//! acknowledged and nothing was sent twice: then each of its datagrams existed once, and the receiver has it. If
//! something was sent again meanwhile, a first copy may still wait in some queue; then the slab's pages are given
//! up to whoever reads them, and new ones take their place.
//!
//! This takes for granted that nobody between copies a datagram without copying its bytes and hands it on after the
//! original was acknowledged, as an emulator that duplicates packets within this host may. Then the late copy can be
//! torn: the native format's check finds that, and in the classic one the checksum of the whole does.

use std::collections::VecDeque;

use rdt_transport::{Progress, TransmitBuf};

/// Bytes of a slab: whole pages, the largest datagram and the most segments in one call.
pub(crate) const SLAB: usize = 64 * 1024;
/// Slabs of a ring: 1 MiB, which stays in the caches of both sides. What leaves while all are lent is copied, which
/// slows a sender down that is faster than its receiver: many slabs would grow cold in the receiver's queue, and a
/// receiver that reads cold memory falls further behind.
#[cfg(target_os = "linux")]
const SLABS: usize = 16;

/// Memory in which slabs lie.
pub(crate) trait Pages {
    /// Puts fresh pages in the place of those at `offset`, a slab long; false if that cannot be done.
    fn renew(&self, offset: usize) -> bool;
}

/// A slab on loan.
#[derive(Debug, Clone, Copy)]
struct Loan {
    slab: usize,
    /// The stream's bytes in it end here.
    until: u64,
    /// What [`Progress::resent`] was.
    resent: u64,
}

/// The slabs, and who has them.
pub(crate) struct Ring<P> {
    pages: P,
    slabs: Vec<TransmitBuf>,
    /// Those that may be written, the last one used last: it is the likeliest to be in the cache.
    free: Vec<usize>,
    loans: VecDeque<Loan>,
    progress: Progress,
}

impl<P: Pages> Ring<P> {
    /// A ring over `memory`, which `pages` renews.
    #[cfg(target_os = "linux")]
    pub(crate) fn new(pages: P, memory: &'static mut [u8]) -> Self {
        Self::of(pages, memory.chunks_exact_mut(SLAB).map(TransmitBuf::given).collect())
    }

    #[cfg(target_os = "linux")]
    fn of(pages: P, slabs: Vec<TransmitBuf>) -> Self {
        let free = (0..slabs.len()).rev().collect();
        Self { pages, slabs, free, loans: VecDeque::new(), progress: Progress::default() }
    }

    /// What renews the pages.
    pub(crate) fn pages(&self) -> &P {
        &self.pages
    }

    /// Takes a slab to write; `None` if all are lent.
    pub(crate) fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// The batch in a slab that was taken.
    pub(crate) fn slab(&self, slab: usize) -> &TransmitBuf {
        &self.slabs[slab]
    }

    /// The same, to write.
    pub(crate) fn slab_mut(&mut self, slab: usize) -> &mut TransmitBuf {
        &mut self.slabs[slab]
    }

    /// The network reads a slab that was taken, until the stream is acknowledged up to `until`.
    pub(crate) fn lend(&mut self, slab: usize, until: u64) {
        self.loans.push_back(Loan { slab, until, resent: self.progress.resent });
    }

    /// The stream got as far: takes back what nobody reads any more.
    pub(crate) fn reclaim(&mut self, progress: Progress) {
        self.progress = progress;
        while let Some(loan) = self.loans.front().copied().filter(|loan| loan.until <= progress.acknowledged)
        {
            self.loans.pop_front();
            // Where pages cannot be renewed, the slab is used no more.
            if loan.resent == progress.resent || self.pages.renew(loan.slab * SLAB) {
                self.free.push(loan.slab);
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{File, open, recycle, send};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{File, open, recycle, send};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io;
    use std::net::UdpSocket;

    use super::{Pages, Ring};

    /// There is none.
    pub(crate) enum File {}

    impl Pages for File {
        fn renew(&self, _: usize) -> bool {
            match *self {}
        }
    }

    pub(crate) fn open() -> io::Result<Ring<File>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn recycle(_: Ring<File>) {}

    pub(crate) fn send(_: &UdpSocket, file: &File, _: usize, _: usize) -> io::Result<usize> {
        match *file {}
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, OwnedFd};
    use std::ptr;
    use std::sync::Mutex;

    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create, sendfile};
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::{Pages, Ring, SLAB, SLABS};

    /// The memory, as a file without a name.
    pub(crate) struct File(OwnedFd);

    impl File {
        /// Gives up pages: whoever still reads them keeps them, and the file has zeros there.
        fn punch(&self, offset: usize, len: usize) -> bool {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.0, hole, offset as u64, len as u64).is_ok()
        }
    }

    impl Pages for File {
        fn renew(&self, offset: usize) -> bool {
            self.punch(offset, SLAB)
        }
    }

    /// Rings whose sockets are gone. A mapping is never undone, because its slices are valid for good; so it is
    /// used again.
    static RETIRED: Mutex<Vec<Ring<File>>> = Mutex::new(Vec::new());

    /// Keeps a ring that is not needed any more for the next one who asks, without its memory.
    pub(crate) fn recycle(ring: Ring<File>) {
        if ring.pages.punch(0, SLABS * SLAB)
            && let Ok(mut retired) = RETIRED.lock()
        {
            let Ring { pages, slabs, .. } = ring;
            retired.push(Ring::of(pages, slabs));
        }
    }

    /// A ring, where the kernel can send from one.
    #[expect(unsafe_code, reason = "memory shared with the kernel has no safe wrapper")]
    pub(crate) fn open() -> io::Result<Ring<File>> {
        if let Ok(mut retired) = RETIRED.lock()
            && let Some(ring) = retired.pop()
        {
            return Ok(ring);
        }
        if !splices_datagrams() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = memfd_create("rdt-ring", MemfdFlags::CLOEXEC)?;
        let bytes = SLABS * SLAB;
        ftruncate(&file, bytes as u64)?;
        // SAFETY: the kernel chooses a place where nothing is mapped. The mapping is never undone and nobody else
        // maps the file, so the slice is the only one of this memory and valid for good. All bytes are zero at first.
        let memory = unsafe {
            let read_write = ProtFlags::READ | ProtFlags::WRITE;
            let at = mmap(ptr::null_mut(), bytes, read_write, MapFlags::SHARED, &file, 0)?;
            std::slice::from_raw_parts_mut(at.cast::<u8>(), bytes)
        };
        Ok(Ring::new(File(file), memory))
    }

    /// Sends `len` bytes at `offset` as one datagram, or as many as the socket's segment size makes of them.
    pub(crate) fn send(socket: &UdpSocket, file: &File, offset: usize, len: usize) -> io::Result<usize> {
        let mut at = offset as u64;
        Ok(sendfile(socket.as_fd(), file.0.as_fd(), Some(&mut at), len)?)
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
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Remembers what was renewed.
    #[derive(Default)]
    struct Renewed(RefCell<Vec<usize>>);

    impl Pages for Renewed {
        fn renew(&self, offset: usize) -> bool {
            self.0.borrow_mut().push(offset);
            true
        }
    }

    fn ring(slabs: usize) -> Ring<Renewed> {
        Ring::new(Renewed::default(), Box::leak(vec![0; slabs * SLAB].into_boxed_slice()))
    }

    fn progress(acknowledged: u64, resent: u64) -> Progress {
        Progress { acknowledged, resent }
    }

    #[test]
    fn a_slab_is_free_again_when_all_of_it_is_acknowledged() {
        let mut ring = ring(2);
        let (a, b) = (ring.take().unwrap(), ring.take().unwrap());
        assert!(ring.take().is_none());
        ring.lend(a, 100);
        ring.lend(b, 200);
        ring.reclaim(progress(99, 0));
        assert!(ring.take().is_none());
        ring.reclaim(progress(199, 0));
        assert_eq!((ring.take(), ring.take()), (Some(a), None));
        assert!(ring.pages().0.borrow().is_empty());
    }

    #[test]
    fn pages_of_which_a_copy_may_be_under_way_are_renewed() {
        let mut ring = ring(3);
        let slabs: Vec<usize> = (0..3).map(|_| ring.take().unwrap()).collect();
        ring.lend(slabs[0], 100);
        ring.reclaim(progress(0, 1));
        ring.lend(slabs[1], 200);
        ring.reclaim(progress(200, 1));
        assert_eq!(*ring.pages().0.borrow(), [slabs[0] * SLAB], "the second left after it was sent again");
        assert_eq!(ring.free.len(), 2);
    }

    #[test]
    fn datagrams_lent_to_the_kernel_keep_their_bytes_when_the_pages_are_renewed() {
        let (to, from) =
            (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), std::net::UdpSocket::bind("127.0.0.1:0"));
        let from = from.unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let Ok(mut ring) = open() else {
            eprintln!("this kernel cannot send from a file: nothing to test");
            return;
        };
        for byte in [1_u8, 2] {
            let slab = ring.take().unwrap();
            assert_eq!(slab, 0, "the one that was free last");
            ring.slab_mut(slab).clear();
            ring.slab_mut(slab).slot(5000).unwrap().fill(byte);
            assert_eq!(send(&from, ring.pages(), slab * SLAB, 5000).unwrap(), 5000);
            ring.lend(slab, u64::from(byte));
            // As if it had been sent again before it was acknowledged: the datagram is still unread.
            ring.reclaim(progress(u64::from(byte), u64::from(byte)));
        }
        let mut datagram = [0; 6000];
        for byte in [1, 2] {
            assert_eq!(to.recv(&mut datagram).unwrap(), 5000);
            assert!(datagram[..5000].iter().all(|b| *b == byte), "of datagram {byte}");
        }
    }
}
