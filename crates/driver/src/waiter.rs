//! How a thread sleeps until its socket has something, a deadline comes, or another thread wakes it.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polling::{Event, Events, Poller};

use crate::clock;

/// The socket's key; wake-ups carry none.
const SOCKET: usize = 0;

/// Wakes a [`Waiter`] from another thread.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Poller>);

impl Waker {
    /// Ends the present wait, or the next one if there is none.
    pub fn wake(&self) {
        // It fails only if the waiter's descriptors are gone, and then nobody waits.
        let _ = self.0.notify();
    }
}

/// Waits on one socket.
pub struct Waiter {
    poller: Arc<Poller>,
    socket: Arc<UdpSocket>,
    events: Events,
    /// How long before a deadline sleeping stops, because the kernel wakes a thread late.
    spin: Duration,
}

impl Waiter {
    /// Waits on `socket`. Within `spin` of a deadline it returns at once and leaves the rest to a busy
    /// caller; zero is right where being late by a scheduler's whim does no harm.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn new(socket: Arc<UdpSocket>, spin: Duration) -> io::Result<Self> {
        let poller = Arc::new(Poller::new()?);
        // SAFETY: the source must be taken out before it is closed. `self.socket` keeps it open, and `drop`
        // takes it out.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            poller.add(&*socket, Event::none(SOCKET))?;
        }
        Ok(Self { poller, socket, events: Events::new(), spin })
    }

    /// A handle to end waits with.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.poller))
    }

    /// Returns when the socket is readable (or, if asked for, writable), when `deadline` is near, or when
    /// woken. May return early for no reason.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn wait(&mut self, deadline: Option<Instant>, writable: bool) -> io::Result<()> {
        let timeout = match deadline {
            Some(deadline) => {
                let rest = deadline.saturating_duration_since(clock::now()).saturating_sub(self.spin);
                if rest.is_zero() {
                    std::hint::spin_loop();
                    return Ok(());
                }
                Some(rest)
            }
            None => None,
        };
        self.poller.modify(&*self.socket, Event::new(SOCKET, true, writable))?;
        self.events.clear();
        match self.poller.wait(&mut self.events, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result.map(|_| ()),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // The socket is open, so this cannot fail in a way that matters.
        let _ = self.poller.delete(&*self.socket);
    }
}
