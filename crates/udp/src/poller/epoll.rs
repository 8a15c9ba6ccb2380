//! Poller of many sockets on Linux: one `epoll` with an eventfd. The cost of a poll grows with the
//! number of ready sockets, not of all sockets.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ppoll::{self, Waker};

const WAKE_UP_KEY: u64 = u64::MAX;
const MAX_EVENTS: usize = 1024;

/// Polls many sockets or other descriptors, each with a key.
pub struct PollSet<S = UdpSocket> {
    epoll: OwnedFd,
    wake_ups: Arc<OwnedFd>,
    sockets: BTreeMap<usize, Arc<S>>,
    max_events: usize,
}

impl<S: AsFd> PollSet<S> {
    /// Creates an empty set. One poll reports at most `max_events` sockets; if more are ready, the
    /// next poll reports the others.
    pub fn new(max_events: usize) -> io::Result<Self> {
        let (epoll, wake_ups) = (epoll::create(CreateFlags::CLOEXEC)?, ppoll::wake_ups()?);
        epoll::add(&epoll, &wake_ups, EventData::new_u64(WAKE_UP_KEY), EventFlags::IN)?;
        Ok(Self { epoll, wake_ups, sockets: BTreeMap::new(), max_events: max_events.min(MAX_EVENTS) })
    }

    /// Returns a handle that ends a wait.
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.wake_ups))
    }

    /// Adds a socket under a new key.
    pub fn add(&mut self, key: usize, socket: Arc<S>) -> io::Result<()> {
        epoll::add(&self.epoll, &*socket, EventData::new_u64(key as u64), EventFlags::IN)?;
        self.sockets.insert(key, socket);
        Ok(())
    }

    /// Removes a socket.
    pub fn remove(&mut self, key: usize) -> io::Result<()> {
        let Some(socket) = self.sockets.remove(&key) else { return Ok(()) };
        Ok(epoll::delete(&self.epoll, &*socket)?)
    }

    /// Waits for at most `timeout` until a socket is readable, and appends the keys of the readable
    /// sockets to `ready`. Returns true if the waker was used.
    pub fn poll(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<bool> {
        if timeout != Some(Duration::ZERO) {
            self.sleep(timeout)?;
        }
        let mut events = [const { MaybeUninit::<Event>::uninit() }; MAX_EVENTS];
        // `epoll_wait` has a resolution of 1 ms, so the sleep is a `ppoll` of the epoll descriptor.
        let events = match epoll::wait(&self.epoll, &mut events[..self.max_events], Some(&NO_WAIT)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut woken = false;
        for event in events {
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
