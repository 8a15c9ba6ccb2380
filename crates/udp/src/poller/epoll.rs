//! Poller of many sockets on Linux: one `epoll` with an eventfd. A poll costs by the number of
//! ready sockets, not of all.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ppoll::{self, Waker};

/// Largest number of sockets reported by one poll; the next one reports the others.
const MAX_EVENTS: usize = 64;
/// Key of wake-ups.
const WAKE_UP_KEY: u64 = u64::MAX;

/// Polls many sockets. Each has a key, a small number.
pub struct PollSet {
    epoll: OwnedFd,
    wake_ups: Arc<OwnedFd>,
    sockets: Vec<Option<Arc<UdpSocket>>>,
    events: Vec<Event>,
}

impl PollSet {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        let (epoll, wake_ups) = (epoll::create(CreateFlags::CLOEXEC)?, ppoll::wake_ups()?);
        epoll::add(&epoll, &wake_ups, EventData::new_u64(WAKE_UP_KEY), EventFlags::IN)?;
        let (sockets, events) = (Vec::new(), Vec::with_capacity(MAX_EVENTS));
        Ok(Self { epoll, wake_ups, sockets, events })
    }

    /// Returns a handle that ends waits.
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.wake_ups))
    }

    /// Adds a socket under a new key.
    pub fn add(&mut self, key: usize, socket: Arc<UdpSocket>) -> io::Result<()> {
        epoll::add(&self.epoll, &*socket, EventData::new_u64(key as u64), EventFlags::IN)?;
        self.sockets.resize(self.sockets.len().max(key + 1), None);
        self.sockets[key] = Some(socket);
        Ok(())
    }

    /// Sets whether writability of a socket is reported too.
    pub fn set_write_interest(&mut self, key: usize, wanted: bool) -> io::Result<()> {
        let Some(socket) = &self.sockets[key] else { return Ok(()) };
        let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, &**socket, EventData::new_u64(key as u64), flags)?)
    }

    /// Removes a socket.
    pub fn remove(&mut self, key: usize) -> io::Result<()> {
        let Some(socket) = self.sockets[key].take() else { return Ok(()) };
        Ok(epoll::delete(&self.epoll, &*socket)?)
    }

    /// Waits for at most `timeout` until a socket is readable (or, if asked for, writable), and
    /// adds the keys of such sockets to `ready`. Returns true if the waker was used.
    pub fn poll(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<bool> {
        if timeout != Some(Duration::ZERO) {
            self.sleep(timeout)?;
        }
        self.events.clear();
        // `epoll_wait` has a resolution of 1 ms, so the sleep is a `ppoll` of the epoll descriptor.
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&NO_WAIT)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut woken = false;
        for event in &self.events {
            match event.data.u64() {
                WAKE_UP_KEY => woken = true,
                key => ready.extend(usize::try_from(key)),
            }
        }
        if woken {
            ppoll::take_wake_ups(&self.wake_ups);
        }
        Ok(woken)
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(ppoll::timespec);
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
