//! Slabs that the kernel sends by reference: their pages become the datagrams, and no byte is copied. Owns the
//! memory and knows which of it the network may still read. Linux only, from 6.5 on.
//!
//! A slab that was lent is written again only when nobody can read it any more. That is so once everything in it was
//! acknowledged and nothing was sent twice: then each of its datagrams existed once, and the receiver has it. If
//! something was sent again meanwhile, a first copy may still wait in some queue, and the slab is worn. When no other is
//! left, all pages are given up to whoever reads them, and new ones take their place.
//!
//! Pages are small at first. Once much has left without a loss they become one large page, if the kernel has one: both
//! sides then count who reads it in one place instead of one for each 4 KiB, which is a tenth of the rate. A large page
//! can only be given up as a whole (a hole in it would be zeros under the eyes of its readers), hence all or none.
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

/// As many slabs must have been lent since something was sent twice before a large page is made: 64 MiB, for making
/// one takes as long as sending 1 MiB.
const CALM: u32 = 1024;

/// Memory in which slabs lie.
pub(crate) trait Pages {
    /// Puts fresh small pages in the place of all; false if that cannot be done.
    fn renew(&self) -> bool;

    /// Makes one large page of fresh ones; false if that cannot be done.
    fn join(&self) -> bool;
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

/// What the memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Small pages, of which so many slabs were lent since something was sent twice.
    Small {
        lent: u32,
    },
    Large,
    /// Small pages, and the kernel has none that are large.
    SmallOnly,
}

/// The slabs, and who has them.
pub(crate) struct Ring<P> {
    pages: P,
    slabs: Vec<TransmitBuf>,
    /// Those that may be written, the last one used last: it is the likeliest to be in the cache.
    free: Vec<usize>,
    loans: VecDeque<Loan>,
    /// Some came back worn.
    worn: bool,
    grain: Grain,
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
        let grain = Grain::Small { lent: 0 };
        Self { pages, slabs, free, loans: VecDeque::new(), worn: false, grain, progress: Progress::default() }
    }

    /// What renews the pages.
    pub(crate) fn pages(&self) -> &P {
        &self.pages
    }

    /// Takes a slab to write, when no other is taken; `None` if all are lent.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let calm = matches!(self.grain, Grain::Small { lent } if lent >= CALM);
        if calm || (self.worn && self.free.is_empty()) {
            self.renew(calm);
        }
        self.free.pop()
    }

    /// Leaves the pages to whoever reads them. Without new ones the worn slabs are used no more.
    fn renew(&mut self, large: bool) {
        self.worn = false;
        if !self.pages.renew() {
            return;
        }
        self.grain = match self.grain {
            _ if large => {
                if self.pages.join() {
                    Grain::Large
                } else {
                    Grain::SmallOnly
                }
            }
            Grain::SmallOnly => Grain::SmallOnly,
            _ => Grain::Small { lent: 0 },
        };
        self.loans.clear();
        self.free = (0..self.slabs.len()).rev().collect();
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
        if let Grain::Small { lent } = &mut self.grain {
            *lent += 1;
        }
    }

    /// The stream got as far: takes back what nobody reads any more.
    pub(crate) fn reclaim(&mut self, progress: Progress) {
        if progress.resent != self.progress.resent
            && let Grain::Small { lent } = &mut self.grain
        {
            *lent = 0;
        }
        self.progress = progress;
        while let Some(loan) = self.loans.front().copied().filter(|loan| loan.until <= progress.acknowledged)
        {
            self.loans.pop_front();
            if loan.resent == progress.resent {
                self.free.push(loan.slab);
            } else {
                self.worn = true;
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
        fn renew(&self) -> bool {
            match *self {}
        }

        fn join(&self) -> bool {
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
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

    use super::{Pages, Ring, SLAB, SLABS};

    /// Bytes of the file, of which the slabs take the first part: one large page where small ones have 4 KiB.
    const LARGE: usize = 2 * 1024 * 1024;
    /// `MADV_COLLAPSE` of `linux/mman.h`, which the libc crate lacks: Linux 6.1, whatever the administrator chose for
    /// large pages elsewhere.
    const COLLAPSE: libc::c_int = 25;

    const _: () = assert!(SLABS * SLAB <= LARGE, "the slabs lie in one large page");

    /// The memory, as a file without a name.
    pub(crate) struct File {
        file: OwnedFd,
        /// Where it is mapped.
        address: usize,
    }

    impl Pages for File {
        fn renew(&self) -> bool {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, hole, 0, LARGE as u64).is_ok()
        }

        #[expect(unsafe_code, reason = "neither libc nor rustix wraps this advice")]
        fn join(&self) -> bool {
            let memory = ptr::without_provenance_mut(self.address);
            // Nothing is made of pages that are not there yet.
            let there = fallocate(&self.file, FallocateFlags::empty(), 0, LARGE as u64).is_ok();
            // SAFETY: the mapping is ours and never undone; the advice changes no byte of it.
            there && unsafe { libc::madvise(memory, LARGE, COLLAPSE) == 0 }
        }
    }

    /// Rings whose sockets are gone. A mapping is never undone, because its slices are valid for good; so it is
    /// used again.
    static RETIRED: Mutex<Vec<Ring<File>>> = Mutex::new(Vec::new());

    /// Keeps a ring that is not needed any more for the next one who asks, without its memory.
    pub(crate) fn recycle(ring: Ring<File>) {
        if ring.pages.renew()
            && let Ok(mut retired) = RETIRED.lock()
        {
            let Ring { pages, slabs, .. } = ring;
            retired.push(Ring::of(pages, slabs));
        }
    }

    /// A ring, where the kernel can send from one.
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
        ftruncate(&file, LARGE as u64)?;
        let memory = map(&file)?;
        let address = memory.as_ptr().addr();
        Ok(Ring::new(File { file, address }, memory))
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
            Ok(std::slice::from_raw_parts_mut(at.cast::<u8>(), SLABS * SLAB))
        }
    }

    /// Sends `len` bytes at `offset` as one datagram, or as many as the socket's segment size makes of them.
    pub(crate) fn send(socket: &UdpSocket, file: &File, offset: usize, len: usize) -> io::Result<usize> {
        let mut at = offset as u64;
        Ok(sendfile(socket.as_fd(), file.file.as_fd(), Some(&mut at), len)?)
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
    use std::cell::Cell;

    use super::*;

    /// Counts what it is asked for.
    #[derive(Default)]
    struct Counted {
        renewed: Cell<u32>,
        joined: Cell<u32>,
        /// No new pages; no large ones.
        refuses: (bool, bool),
    }

    impl Pages for Counted {
        fn renew(&self) -> bool {
            self.renewed.set(self.renewed.get() + 1);
            !self.refuses.0
        }

        fn join(&self) -> bool {
            self.joined.set(self.joined.get() + 1);
            !self.refuses.1
        }
    }

    fn ring(slabs: usize, refuses: (bool, bool)) -> Ring<Counted> {
        let pages = Counted { refuses, ..Counted::default() };
        Ring::new(pages, Box::leak(vec![0; slabs * SLAB].into_boxed_slice()))
    }

    fn progress(acknowledged: u64, resent: u64) -> Progress {
        Progress { acknowledged, resent }
    }

    /// Lends so many slabs, each of which comes back at once.
    fn lend(ring: &mut Ring<Counted>, slabs: u32) {
        for _ in 0..slabs {
            let slab = ring.take().expect("slabs come back");
            ring.lend(slab, 0);
            ring.reclaim(ring.progress);
        }
    }

    #[test]
    fn a_slab_is_free_again_when_all_of_it_is_acknowledged() {
        let mut ring = ring(2, (false, false));
        let (a, b) = (ring.take().unwrap(), ring.take().unwrap());
        assert!(ring.take().is_none());
        ring.lend(a, 100);
        ring.lend(b, 200);
        ring.reclaim(progress(99, 0));
        assert!(ring.take().is_none());
        ring.reclaim(progress(199, 0));
        assert_eq!((ring.take(), ring.take()), (Some(a), None));
        assert_eq!(ring.pages().renewed.get(), 0);
    }

    #[test]
    fn pages_of_which_a_copy_may_be_under_way_are_renewed_when_no_others_are_left() {
        let mut ring = ring(3, (false, false));
        let slabs: Vec<usize> = (0..3).map(|_| ring.take().unwrap()).collect();
        ring.lend(slabs[0], 100);
        ring.reclaim(progress(0, 1));
        ring.lend(slabs[1], 200);
        ring.lend(slabs[2], 300);
        ring.reclaim(progress(200, 1));
        assert_eq!(ring.take(), Some(slabs[1]), "it left after something was sent again");
        assert_eq!(ring.pages().renewed.get(), 0);
        ring.lend(slabs[1], 400);
        assert!(ring.take().is_some());
        assert_eq!((ring.pages().renewed.get(), ring.pages().joined.get()), (1, 0));
        assert_eq!(ring.free.len(), 2, "even what is still lent: its readers keep the old pages");
        ring.reclaim(progress(400, 1));
        assert_eq!(ring.free.len(), 2, "nothing comes back twice");
    }

    #[test]
    fn worn_slabs_are_given_up_where_pages_cannot_be_renewed() {
        let mut ring = ring(2, (true, false));
        let (a, b) = (ring.take().unwrap(), ring.take().unwrap());
        ring.lend(a, 100);
        ring.lend(b, 200);
        ring.reclaim(progress(100, 1));
        assert_eq!(ring.take(), None);
        ring.reclaim(progress(200, 1));
        assert_eq!(ring.take(), None);
    }

    #[test]
    fn pages_become_one_large_page_in_calm_and_small_ones_after_a_loss() {
        let mut ring = ring(4, (false, false));
        lend(&mut ring, CALM - 1);
        ring.reclaim(progress(0, 1));
        lend(&mut ring, CALM);
        assert_eq!(ring.pages().joined.get(), 0, "the count began again");
        lend(&mut ring, 2 * CALM);
        assert_eq!((ring.pages().renewed.get(), ring.pages().joined.get(), ring.grain), (1, 1, Grain::Large));
        while let Some(slab) = ring.free.pop() {
            ring.lend(slab, 0);
        }
        ring.reclaim(progress(0, 2));
        lend(&mut ring, 1);
        assert_eq!((ring.pages().renewed.get(), ring.grain), (2, Grain::Small { lent: 1 }));
    }

    #[test]
    fn a_kernel_without_large_pages_is_asked_once() {
        let mut ring = ring(4, (false, true));
        lend(&mut ring, 3 * CALM);
        assert_eq!((ring.pages().joined.get(), ring.grain), (1, Grain::SmallOnly));
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
        for byte in 1..=4_u8 {
            // The last two lie in a large page, where the kernel has one.
            if byte == 3 {
                ring.renew(true);
                eprintln!("{:?}", ring.grain);
            }
            let slab = ring.take().unwrap();
            assert_eq!(slab, 0, "the one that was free last");
            ring.slab_mut(slab).clear();
            ring.slab_mut(slab).slot(5000).unwrap().fill(byte);
            assert_eq!(send(&from, ring.pages(), slab * SLAB, 5000).unwrap(), 5000);
            ring.lend(slab, u64::from(byte));
            // As if it had been sent again before it was acknowledged: the datagram is still unread.
            ring.reclaim(progress(u64::from(byte), u64::from(byte)));
            ring.free.clear();
        }
        let mut datagram = [0; 6000];
        for byte in 1..=4 {
            assert_eq!(to.recv(&mut datagram).unwrap(), 5000);
            assert!(datagram[..5000].iter().all(|b| *b == byte), "of datagram {byte}");
        }
    }
}
