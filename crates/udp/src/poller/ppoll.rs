//! Linux: one `ppoll` of the socket and an eventfd.

use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// The kernel may end a poll late by a thousandth of its time: that much and more is kept for another poll.
const SLACK_SHARE: u32 = 512;

/// Wakes a waiting thread: ends its present wait, or its next one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new(wake_ups: Arc<OwnedFd>) -> Self {
        Self(wake_ups)
    }

    /// Ends the present wait, or the next one.
    pub fn wake(&self) {
        // It fails only if 2^64 wake-ups are waiting, and then one is enough.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

pub(crate) struct Poller {
    socket: Arc<UdpSocket>,
    wake_ups: Arc<OwnedFd>,
    /// The thread that polls has been made one that the kernel wakes on time.
    prompt: bool,
}

impl Poller {
    pub(crate) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
        Ok(Self { socket, wake_ups: wake_ups()?, prompt: false })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake_ups))
    }

    /// Returns when the socket is readable (or, if asked for, writable) or the waker was used, which is true, and
    /// after `timeout`, perhaps early, which is false.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<bool> {
        wake_promptly(&mut self.prompt);
        let wanted = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::new(&*self.socket, wanted), PollFd::new(&*self.wake_ups, PollFlags::IN)];
        let timeout = timeout.and_then(without_slack);
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

/// Takes wake-ups that are known to be there.
pub(super) fn take_wake_ups(wake_ups: &OwnedFd) {
    // Nobody else reads it, so it has something.
    let _ = rustix::io::read(wake_ups, &mut [0; size_of::<u64>()]);
}

/// Makes this thread one that the kernel wakes on time, if it is not yet `prompt`.
pub(super) fn wake_promptly(prompt: &mut bool) {
    if !*prompt {
        // Otherwise the kernel may join this thread's wake-ups with others up to 50 us later. Where it
        // refuses, links are late by that.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        *prompt = true;
    }
}

/// How long to ask the kernel to sleep to be awake after `time`. A time that no timespec holds is longer than anybody
/// waits: `None`.
pub(super) fn without_slack(time: Duration) -> Option<Timespec> {
    Timespec::try_from(time.saturating_sub(time / SLACK_SHARE)).ok()
}
