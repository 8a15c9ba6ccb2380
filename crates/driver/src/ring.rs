//! Slabs that the kernel sends by reference: their pages become the datagrams, and no byte is copied. Owns the
//! memory and knows which of it the network may still read. Linux only, from 6.5 on.
//!
//! A slab that was lent is written again only when nobody can read it any more. That is so once everything in it was
//! acknowledged and nothing was sent twice: then each of its datagrams existed once, and the receiver has it. If
//! something was sent again meanwhile, a first copy may still wait in some queue, and the slab is worn. When no other is
//! left, all pages are given up to whoever reads them, and new ones take their place.
//!
//! Pages are small at first. Once much has left without a loss they become one large page, if the kernel has one: both
//! sides then count who reads it in one place instead of one for each 4 KiB. A large page
//! can only be given up as a whole (a hole in it would be zeros under the eyes of its readers), hence all or none.
//!
//! This takes for granted that nobody between copies a datagram without copying its bytes and hands it on after the
//! original was acknowledged, as an emulator that duplicates packets within this host may. Then the late copy can be
//! torn: the native format's check finds that, and in the classic one the checksum of the whole does.

use std::collections::VecDeque;
use std::io;

use rdt_transport::{Progress, TransmitBuf};

/// Bytes of a slab: whole pages, the largest datagram and the most segments in one call.
pub(crate) const SLAB: usize = 64 * 1024;
/// Slabs of a ring: one large page, which stays in the caches of both sides. They are written in turn, the one that came
/// back first before the others: one that was just read is still in the receiver's nearest cache, and what is written
/// there has to be taken from it line by line.
#[cfg(target_os = "linux")]
const SLABS: usize = 32;

/// As many slabs must have been lent since something was sent twice before a large page is made: 64 MiB, some ten
/// milliseconds at full rate, for making one takes two.
const CALM: u32 = 1024;

/// Memory in which slabs lie.
pub(crate) trait Pages {
    /// Puts fresh small pages in the place of all; false if that cannot be done.
    fn renew(&self) -> bool;

    /// Makes one large page of fresh ones, which stay as they are if that fails.
    fn join(&self) -> io::Result<()>;
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
        calm_for: u32,
    },
    Large,
    /// Small pages, and the kernel has none that are large.
    SmallOnly,
}

/// The slabs, and who has them.
pub(crate) struct Ring<P> {
    pages: P,
    slabs: Vec<TransmitBuf>,
    /// Those that may be written, the one that came back first ahead.
    free: VecDeque<usize>,
    /// Slabs on loan at most. What leaves meanwhile is copied, which slows a sender down that is faster than its
    /// receiver: many slabs would grow cold in the receiver's queue, and a receiver that reads cold memory falls further
    /// behind.
    most: usize,
    /// The one that is being written.
    taken: Option<usize>,
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
        let (free, most) = ((0..slabs.len()).collect(), slabs.len() - slabs.len() / 4);
        let (grain, progress) = (Grain::Small { calm_for: 0 }, Progress::default());
        Self { pages, slabs, free, most, taken: None, loans: VecDeque::new(), worn: false, grain, progress }
    }

    /// What renews the pages.
    pub(crate) fn pages(&self) -> &P {
        &self.pages
    }

    /// Takes a slab to write, or gives the one that was taken and not lent; `None` if enough are lent.
    pub(crate) fn take(&mut self) -> Option<usize> {
        if self.taken.is_none() {
            if matches!(self.grain, Grain::Small { calm_for } if calm_for >= CALM) {
                self.enlarge();
            } else if self.worn && self.free.is_empty() {
                self.renew();
            }
            let may = self.loans.len() < self.most;
            self.taken = may.then(|| self.free.pop_front()).flatten();
        }
        self.taken
    }

    /// True if no slab can ever be taken again: what was worn could not be renewed.
    pub(crate) fn is_spent(&self) -> bool {
        self.taken.is_none() && self.free.is_empty() && self.loans.is_empty() && !self.worn
    }

    /// Fresh pages in one; small ones for good if the kernel says that it never has others.
    fn enlarge(&mut self) {
        self.grain = Grain::SmallOnly;
        if !self.renew() {
            self.worn = true;
            return;
        }
        self.grain = match self.pages.join() {
            Ok(()) => Grain::Large,
            Err(error) if is_lasting(&error) => Grain::SmallOnly,
            Err(_) => Grain::Small { calm_for: 0 },
        };
    }

    /// Leaves the pages to whoever reads them, so that every slab is free, but none while one is written. Without new
    /// pages the worn slabs are used no more.
    fn renew(&mut self) -> bool {
        self.worn = false;
        if !self.pages.renew() {
            return false;
        }
        if self.grain == Grain::Large {
            self.grain = Grain::Small { calm_for: 0 };
        }
        self.loans.clear();
        self.free = (0..self.slabs.len()).collect();
        true
    }

    /// The batch in a slab that was taken.
    pub(crate) fn slab(&self, slab: usize) -> &TransmitBuf {
        &self.slabs[slab]
    }

    /// The same, to write.
    pub(crate) fn slab_mut(&mut self, slab: usize) -> &mut TransmitBuf {
        &mut self.slabs[slab]
    }

    /// The network reads the slab that was taken, until the stream is acknowledged up to `until`.
    pub(crate) fn lend(&mut self, until: u64) {
        let Some(slab) = self.taken.take() else { return };
        self.loans.push_back(Loan { slab, until, resent: self.progress.resent });
        if let Grain::Small { calm_for } = &mut self.grain {
            *calm_for += 1;
        }
    }

    /// The stream got as far: takes back what nobody reads any more.
    pub(crate) fn reclaim(&mut self, progress: Progress) {
        if progress.resent != self.progress.resent
            && let Grain::Small { calm_for } = &mut self.grain
        {
            *calm_for = 0;
        }
        self.progress = progress;
        while let Some(loan) = self.loans.front().copied().filter(|loan| loan.until <= progress.acknowledged)
        {
            self.loans.pop_front();
            if loan.resent == progress.resent {
                self.free.push_back(loan.slab);
            } else {
                self.worn = true;
            }
        }
    }
}

/// EPERM, EINVAL, ENOSYS, EOPNOTSUPP: reasons that stay. Others, such as too little memory in one piece, pass.
fn is_lasting(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(1 | 22 | 38 | 95))
}

#[cfg(target_os = "linux")]
mod memory;

#[cfg(target_os = "linux")]
pub(crate) use memory::{File, open, recycle, send};

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

        fn join(&self) -> io::Result<()> {
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

#[cfg(all(test, target_os = "linux"))]
mod tests;
