//! Zero-copy sending (Linux 6.5 and later): the pages of a frame become the payload of datagrams.
//! Owns the memory, and tracks which frames the network may still reference.
//!
//! A frame that was sent by reference is overwritten only once no queue references it. That is
//! certain if all of its bytes were acknowledged and none were retransmitted: each datagram existed
//! once, and the receiver has it. After a retransmission an earlier copy may still wait in a queue,
//! so the frame is set aside. When no other frame is free and no sender holds one, all pages are
//! replaced by new ones; the kernel frees an old page when no queue references it. Pages are never
//! replaced in part: in a large page that would leave a hole, and a queued datagram would read
//! zeros.
//!
//! Pages are small at first. After a long time without loss they are joined into one large page,
//! because then both hosts count references to one page instead of to each 4 KiB. No sender may
//! hold a frame while pages are joined.
//!
//! Precondition: no element of the path duplicates a datagram without copying its bytes and
//! delivers the duplicate after the original was acknowledged. An emulator on this host may do
//! that. Such a duplicate can be corrupted: the native format detects that by the packet check, the
//! classic format by the checksum of the stream.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rdt_datagram::{Frame, FrameSource, Reuse};

/// Number of frames of a pool: one large page, which fits the caches of both hosts. The frame
/// returned first is reused first. The frame returned last is still in the cache of the receiver's
/// core, from which each cache line would have to be fetched.
#[cfg(linux_api)]
const FRAMES: usize = 32;

/// Frames sent without retransmission before pages are joined: 64 MiB, about 10 ms at 50 Gbit/s.
/// Joining itself takes 2 ms.
const FRAMES_BEFORE_JOIN: u32 = 1024;

pub(crate) trait Pages: Send + Sync {
    /// Replaces all pages by new small ones; returns false if that fails.
    fn renew(&self) -> bool {
        false
    }

    /// Joins new pages into a large page. If that fails, they remain small.
    fn join(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_closed(&self) -> bool {
        true
    }

    fn close(&self) {}

    /// Makes the memory available to the next pool. No sender may hold a frame; unsent batches may.
    fn retire(self: Arc<Self>, _frames: Vec<Arc<Frame>>) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageSize {
    /// Small pages, with the number of frames sent since the last retransmission.
    Small {
        sent_frames: u32,
    },
    Large,
    /// Small pages, because the kernel has no large ones.
    SmallOnly,
}

pub(crate) struct ZerocopyPool<P: Pages> {
    pages: Arc<P>,
    /// Frames that may be overwritten, ordered by the time of their return.
    free: VecDeque<Arc<Frame>>,
    /// Frames that a queue may still reference.
    set_aside: Vec<Arc<Frame>>,
    held: usize,
    /// Limit on `held`. More frames would leave the cache while their datagrams wait in the
    /// receiver's queue, and a receiver that reads uncached memory falls further behind. At the
    /// limit, a sender with a short RTT waits for a frame; other senders use heap frames, which are
    /// copied.
    max_held: usize,
    page_size: PageSize,
}

impl<P: Pages> ZerocopyPool<P> {
    #[cfg_attr(not(linux_api), allow(dead_code, reason = "tests only"))]
    pub(crate) fn new(pages: Arc<P>, frames: Vec<Arc<Frame>>) -> Self {
        let max_held = frames.len() - frames.len() / 4;
        let page_size = PageSize::Small { sent_frames: 0 };
        Self { pages, free: frames.into(), set_aside: Vec::new(), held: 0, max_held, page_size }
    }

    /// Replaces the pages by one large page. If the kernel has none, the pages stay small.
    fn enlarge(&mut self) {
        self.page_size = PageSize::SmallOnly;
        if !self.renew_all() {
            return;
        }
        self.page_size = match self.pages.join() {
            Ok(()) => PageSize::Large,
            Err(error) if is_lasting(&error) => PageSize::SmallOnly,
            Err(_) => PageSize::Small { sent_frames: 0 },
        };
    }

    /// Replaces all pages, which frees every frame. Requires that neither a sender nor an unsent
    /// batch holds a frame, because its bytes would become zeros.
    fn renew_all(&mut self) -> bool {
        if !self.pages.renew() {
            return false;
        }
        self.free.extend(self.set_aside.drain(..));
        true
    }

    /// Joins or replaces the pages if that is due, and no sender or unsent batch holds a frame.
    fn refresh(&mut self) {
        if self.held > 0
            || self.free.iter_mut().chain(&mut self.set_aside).any(|frame| Arc::get_mut(frame).is_none())
        {
            return;
        }
        if matches!(self.page_size, PageSize::Small { sent_frames } if sent_frames >= FRAMES_BEFORE_JOIN) {
            self.enlarge();
        } else if self.free.is_empty() && !self.set_aside.is_empty() {
            if !self.renew_all() {
                self.pages.close();
            } else if self.page_size == PageSize::Large {
                self.page_size = PageSize::Small { sent_frames: 0 };
            }
        }
    }

    /// Returns true if the pages will be joined as soon as senders have returned their frames.
    fn is_draining(&self) -> bool {
        self.held > 0
            && matches!(self.page_size, PageSize::Small { sent_frames } if sent_frames >= FRAMES_BEFORE_JOIN)
    }
}

impl<P: Pages> FrameSource for ZerocopyPool<P> {
    fn take(&mut self) -> Option<Arc<Frame>> {
        if self.pages.is_closed() {
            return None;
        }
        self.refresh();
        if self.held >= self.max_held || self.is_draining() {
            return None;
        }
        // An unsent batch may still hold a frame that its sender has returned.
        let free = self.free.iter_mut().position(|frame| Arc::get_mut(frame).is_some())?;
        let frame = self.free.remove(free);
        self.held += usize::from(frame.is_some());
        frame
    }

    fn is_exhausted(&self) -> bool {
        self.held >= self.max_held && !self.pages.is_closed()
    }

    fn give_back(&mut self, frame: Arc<Frame>, reuse: Reuse) {
        self.held = self.held.saturating_sub(1);
        match reuse {
            Reuse::NeverSent => self.free.push_front(frame),
            Reuse::Acknowledged => {
                self.free.push_back(frame);
                if let PageSize::Small { sent_frames } = &mut self.page_size {
                    *sent_frames += 1;
                }
            }
            Reuse::MaybeReferenced => {
                self.set_aside.push(frame);
                if let PageSize::Small { sent_frames } = &mut self.page_size {
                    *sent_frames = 0;
                }
            }
        }
    }
}

impl<P: Pages> Drop for ZerocopyPool<P> {
    fn drop(&mut self) {
        let mut frames = Vec::from(std::mem::take(&mut self.free));
        frames.append(&mut self.set_aside);
        Arc::clone(&self.pages).retire(frames);
    }
}

/// True for lasting errors: EPERM, EINVAL, ENOSYS, EOPNOTSUPP. A lack of memory is transient.
fn is_lasting(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(1 | 22 | 38 | 95))
}

#[cfg(linux_api)]
mod pages;

#[cfg(linux_api)]
pub(crate) use pages::{File, open, send};

#[cfg(not(linux_api))]
pub(crate) use elsewhere::{File, open, send};

#[cfg(not(linux_api))]
mod elsewhere {
    use std::io;
    use std::net::UdpSocket;
    use std::sync::Arc;

    use super::{Pages, ZerocopyPool};

    /// Zero-copy memory, which this system does not support: never created.
    pub(crate) enum File {}

    impl File {
        pub(crate) fn id(&self) -> u64 {
            match *self {}
        }
    }

    impl Pages for File {}

    pub(crate) fn open() -> io::Result<(Arc<File>, ZerocopyPool<File>)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn send(_: &UdpSocket, file: &File, _: u64, _: usize) -> io::Result<usize> {
        match *file {}
    }
}

#[cfg(test)]
#[cfg(linux_api)]
mod tests;
