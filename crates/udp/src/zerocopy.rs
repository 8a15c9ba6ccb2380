//! Frames that the kernel sends by reference: their pages become the datagrams, and no byte is copied. Owns the
//! memory and knows which of it the network may still read. Linux only, from 6.5 on.
//!
//! A frame that was lent is written again only when nobody can read it any more. That is so once everything in it was
//! acknowledged and nothing was sent twice: then each of its datagrams existed once, and the receiver has it. If
//! something was sent again meanwhile, a first copy may still wait in some queue, and the frame is worn. When no other is
//! left, and no sender holds one, all pages are given up to whoever reads them, and new ones take their place; a part of
//! them cannot be, for the kernel may have made large ones of them, where a hole would be zeros under the eyes of its readers.
//!
//! Pages are small at first. Once much has left without a loss they become one large page, if the kernel has one: both
//! sides then count who reads it in one place instead of one for each 4 KiB. Nor can pages be joined while a sender holds a
//! frame.
//!
//! This takes for granted that nobody between copies a datagram without copying its bytes and hands it on after the
//! original was acknowledged, as an emulator that duplicates packets within this host may. Then the late copy can be
//! torn: the native format's check finds that, and in the classic one the checksum of the whole does.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rdt_datagram::{Frame, FrameSource, Reuse};

/// Frames of a ring: one large page, which stays in the caches of both sides. They are written in turn, the one that came
/// back first before the others: one that was just read is still in the receiver's nearest cache, and what is written
/// there has to be taken from it line by line.
#[cfg(linux_api)]
const FRAMES: usize = 32;

/// As many frames must have been lent since something was sent twice before a large page is made: 64 MiB, some ten
/// milliseconds at full rate, for making one takes two.
const CALM: u32 = 1024;

/// Memory in which frames lie.
pub(crate) trait Pages: Send + Sync {
    /// Puts fresh small pages in the place of all; false if that cannot be done.
    fn renew(&self) -> bool;

    /// Makes one large page of fresh ones, which stay as they are if that fails.
    fn join(&self) -> io::Result<()>;

    /// Nobody sends from here any more.
    fn is_closed(&self) -> bool;

    /// From now on.
    fn close(&self);

    /// Takes the memory back: no sender has any of it, though a batch may.
    fn retire(self: Arc<Self>, frames: Vec<Arc<Frame>>);
}

/// What the memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Small pages, of which so many frames were lent since something was sent twice.
    Small {
        calm_for: u32,
    },
    Large,
    /// Small pages, and the kernel has none that are large.
    SmallOnly,
}

/// The frames, and who has them.
pub(crate) struct ZerocopyPool<P: Pages> {
    pages: Arc<P>,
    /// Those that may be written, the one that came back first ahead.
    free: VecDeque<Arc<Frame>>,
    /// Those that may still be read.
    worn: Vec<Arc<Frame>>,
    /// How many senders hold.
    held: usize,
    /// How many they may hold: more would grow cold in the receiver's queue, and a receiver that reads cold memory falls
    /// further behind. A sender whose round trips are short waits for one; what others write beyond is copied when it leaves.
    most: usize,
    grain: Grain,
}

impl<P: Pages> ZerocopyPool<P> {
    /// A ring of `frames`, which lie in `pages`.
    pub(crate) fn new(pages: Arc<P>, frames: Vec<Arc<Frame>>) -> Self {
        let most = frames.len() - frames.len() / 4;
        let grain = Grain::Small { calm_for: 0 };
        Self { pages, free: frames.into(), worn: Vec::new(), held: 0, most, grain }
    }

    /// Fresh pages in one; small ones for good if the kernel says that it never has others.
    fn enlarge(&mut self) {
        self.grain = Grain::SmallOnly;
        if !self.renew_all() {
            return;
        }
        self.grain = match self.pages.join() {
            Ok(()) => Grain::Large,
            Err(error) if is_lasting(&error) => Grain::SmallOnly,
            Err(_) => Grain::Small { calm_for: 0 },
        };
    }

    /// Leaves all pages to whoever reads them, so that every frame is free. No sender holds one, nor a batch that the
    /// socket did not take: it would find zeros there.
    fn renew_all(&mut self) -> bool {
        if !self.pages.renew() {
            return false;
        }
        self.free.extend(self.worn.drain(..));
        true
    }

    /// Sees that frames are free, if that can be.
    fn refresh(&mut self) {
        if self.held > 0
            || self.free.iter_mut().chain(&mut self.worn).any(|frame| Arc::get_mut(frame).is_none())
        {
            return;
        }
        if matches!(self.grain, Grain::Small { calm_for } if calm_for >= CALM) {
            self.enlarge();
        } else if self.free.is_empty() && !self.worn.is_empty() {
            if !self.renew_all() {
                self.pages.close();
            } else if self.grain == Grain::Large {
                self.grain = Grain::Small { calm_for: 0 };
            }
        }
    }

    /// Pages are to be joined, and senders still hold some.
    fn is_draining(&self) -> bool {
        self.held > 0 && matches!(self.grain, Grain::Small { calm_for } if calm_for >= CALM)
    }
}

impl<P: Pages> FrameSource for ZerocopyPool<P> {
    fn take(&mut self) -> Option<Arc<Frame>> {
        if self.pages.is_closed() {
            return None;
        }
        self.refresh();
        if self.held >= self.most || self.is_draining() {
            return None;
        }
        // A batch that the socket did not take in time may still hold one.
        let free = self.free.iter_mut().position(|frame| Arc::get_mut(frame).is_some())?;
        let frame = self.free.remove(free);
        self.held += usize::from(frame.is_some());
        frame
    }

    fn is_exhausted(&self) -> bool {
        self.held >= self.most && !self.pages.is_closed()
    }

    fn give_back(&mut self, frame: Arc<Frame>, reuse: Reuse) {
        self.held = self.held.saturating_sub(1);
        match reuse {
            Reuse::NeverSent => self.free.push_front(frame),
            Reuse::Acknowledged => {
                self.free.push_back(frame);
                if let Grain::Small { calm_for } = &mut self.grain {
                    *calm_for += 1;
                }
            }
            Reuse::MaybeReferenced => {
                self.worn.push(frame);
                if let Grain::Small { calm_for } = &mut self.grain {
                    *calm_for = 0;
                }
            }
        }
    }
}

impl<P: Pages> Drop for ZerocopyPool<P> {
    fn drop(&mut self) {
        let mut frames = Vec::from(std::mem::take(&mut self.free));
        frames.append(&mut self.worn);
        Arc::clone(&self.pages).retire(frames);
    }
}

/// EPERM, EINVAL, ENOSYS, EOPNOTSUPP: reasons that stay. Others, such as too little memory in one piece, pass.
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

    use rdt_datagram::Frame;

    use super::{Pages, ZerocopyPool};

    /// There is none.
    pub(crate) enum File {}

    impl File {
        pub(crate) fn name(&self) -> u64 {
            match *self {}
        }
    }

    impl Pages for File {
        fn renew(&self) -> bool {
            match *self {}
        }

        fn join(&self) -> io::Result<()> {
            match *self {}
        }

        fn is_closed(&self) -> bool {
            match *self {}
        }

        fn close(&self) {
            match *self {}
        }

        fn retire(self: Arc<Self>, _: Vec<Arc<Frame>>) {
            match *self {}
        }
    }

    pub(crate) fn open() -> io::Result<(Arc<File>, ZerocopyPool<File>)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn send(_: &UdpSocket, file: &File, _: u64, _: usize) -> io::Result<usize> {
        match *file {}
    }
}

#[cfg(all(test, linux_api))]
mod tests;
