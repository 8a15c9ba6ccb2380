//! Poller of one socket on Linux: `ppoll` of the socket and an eventfd.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// Wakes a waiting thread: ends its current wait, or its next one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new(wake_ups: Arc<OwnedFd>) -> Self {
        Self(wake_ups)
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        // Fails only if 2^64 wake-ups are pending: then one of them ends the wait.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

pub(crate) struct Poller {
    socket: Arc<UdpSocket>,
    wake_ups: Arc<OwnedFd>,
}

impl Poller {
    pub(crate) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
        Ok(Self { socket, wake_ups: wake_ups()? })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake_ups))
    }

    /// Waits for at most `timeout`, and returns true if the socket is readable (or writable, if
    /// requested) or the waker was used. May return false early.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<bool> {
        let wanted = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&*self.socket, wanted), PollFd::new(&*self.wake_ups, PollFlags::IN)];
        let timeout = timeout.and_then(timespec);
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (ready, woken) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if woken {
            take_wake_ups(&self.wake_ups);
        }
        Ok(ready || woken)
    }
}

pub(super) fn wake_ups() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
}

pub(super) fn take_wake_ups(wake_ups: &OwnedFd) {
    // Cannot block: the eventfd is readable, and only this thread reads it.
    let _ = rustix::io::read(wake_ups, &mut [0; size_of::<u64>()]);
}

/// Converts a timeout. `None` (no timeout) if it exceeds the range of a timespec.
pub(super) fn timespec(time: Duration) -> Option<Timespec> {
    Timespec::try_from(time).ok()
}
