//! Through the `polling` crate: wherever that is.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polling::{Event, Events};

/// The socket's key; wake-ups carry none.
const SOCKET: usize = 0;

/// Ends a poll from another thread.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    poller: polling::Poller,
    /// The poller tells nothing of wake-ups.
    woken: AtomicBool,
}

impl Waker {
    pub(crate) fn wake(&self) {
        self.0.woken.store(true, Ordering::SeqCst);
        // It fails only if the poller's descriptors are gone, and then nobody waits.
        let _ = self.0.poller.notify();
    }
}

pub(crate) struct Poller {
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
    events: Events,
}

impl Poller {
    pub(crate) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
        let poller = polling::Poller::new()?;
        // SAFETY: the source must be taken out before it is closed. `self.socket` keeps it open, and `drop`
        // takes it out.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            poller.add(&*socket, Event::none(SOCKET))?;
        }
        let shared = Arc::new(Shared { poller, woken: AtomicBool::new(false) });
        Ok(Self { shared, socket, events: Events::new() })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Returns when the socket is readable (or, if asked for, writable) or the waker was used, which is true, and
    /// after `timeout`, perhaps early, which is false.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<bool> {
        self.shared.poller.modify(&*self.socket, Event::new(SOCKET, true, writable))?;
        self.events.clear();
        match self.shared.poller.wait(&mut self.events, timeout) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        let woken = self.shared.woken.swap(false, Ordering::SeqCst);
        Ok(woken || !self.events.is_empty())
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // The socket is open, so this cannot fail in a way that matters.
        let _ = self.shared.poller.delete(&*self.socket);
    }
}
