//! Linux: many sockets and an eventfd in one `epoll`; a look costs what is ready, not what there is.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ppoll::{self, Waker};

/// Sockets that one look tells of at most; the others are told of by the next.
const TOLD: usize = 64;
/// The key of wake-ups.
const WAKE_UPS: u64 = u64::MAX;

/// Waits on many sockets, which have keys: small numbers.
pub struct PollSet {
    epoll: OwnedFd,
    wake_ups: Arc<OwnedFd>,
    sockets: Vec<Option<Arc<UdpSocket>>>,
    events: Vec<Event>,
    /// The thread that polls has been made one that the kernel wakes on time.
    prompt: bool,
}

impl PollSet {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        let (epoll, wake_ups) = (epoll::create(CreateFlags::CLOEXEC)?, ppoll::wake_ups()?);
        epoll::add(&epoll, &wake_ups, EventData::new_u64(WAKE_UPS), EventFlags::IN)?;
        let (sockets, events) = (Vec::new(), Vec::with_capacity(TOLD));
        Ok(Self { epoll, wake_ups, sockets, events, prompt: false })
    }

    /// Returns a handle that ends waits.
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.wake_ups))
    }

    /// Watches `socket`, whose key is new.
    pub fn add(&mut self, key: usize, socket: Arc<UdpSocket>) -> io::Result<()> {
        epoll::add(&self.epoll, &*socket, EventData::new_u64(key as u64), EventFlags::IN)?;
        self.sockets.resize(self.sockets.len().max(key + 1), None);
        self.sockets[key] = Some(socket);
        Ok(())
    }

    /// From now on it is told, too, when a socket has room, or no more.
    pub fn set_write_interest(&mut self, key: usize, wanted: bool) -> io::Result<()> {
        let Some(socket) = &self.sockets[key] else { return Ok(()) };
        let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, &**socket, EventData::new_u64(key as u64), flags)?)
    }

    /// Watches it no more.
    pub fn remove(&mut self, key: usize) -> io::Result<()> {
        let Some(socket) = self.sockets[key].take() else { return Ok(()) };
        Ok(epoll::delete(&self.epoll, &*socket)?)
    }

    /// Adds to `ready` the keys of sockets that are readable (or, if asked for, writable), at once if there are such,
    /// else after at most `timeout`. True if the waker was used.
    pub fn poll(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<bool> {
        if timeout != Some(Duration::ZERO) {
            self.sleep(timeout)?;
        }
        self.events.clear();
        // With a timeout `epoll_wait` counts in milliseconds.
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&AT_ONCE)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut woken = false;
        for event in &self.events {
            match event.data.u64() {
                WAKE_UPS => woken = true,
                key => ready.extend(usize::try_from(key)),
            }
        }
        if woken {
            ppoll::take_wake_ups(&self.wake_ups);
        }
        Ok(woken)
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        ppoll::wake_promptly(&mut self.prompt);
        let timeout = timeout.and_then(ppoll::without_slack);
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
