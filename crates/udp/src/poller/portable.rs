//! Poller of systems other than Linux, through the `polling` crate.

#![cfg_attr(linux_api, allow(unreachable_pub, reason = "compiled for its tests only"))]

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polling::{AsRawSource, AsSource, Event, Events, PollMode};

/// Key of the only socket; wake-ups have no key.
const SOCKET: usize = 0;

/// Wakes a waiting thread: ends its current wait, or its next one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    poller: polling::Poller,
    /// True after a wake-up, which the `polling` crate does not report.
    woken: AtomicBool,
}

impl Waker {
    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        self.0.woken.store(true, Ordering::SeqCst);
        // Fails only if the poller is closed: then no thread waits.
        let _ = self.0.poller.notify();
    }
}

pub(crate) struct Poller {
    set: PollSet,
    ready: Vec<usize>,
}

impl Poller {
    pub(crate) fn new(socket: Arc<UdpSocket>) -> io::Result<Self> {
        let mut set = PollSet::new(1)?;
        set.add(SOCKET, socket)?;
        Ok(Self { set, ready: Vec::new() })
    }

    pub(crate) fn waker(&self) -> Waker {
        self.set.waker()
    }

    /// Waits for at most `timeout`, and returns true if the socket is readable (or writable, if
    /// requested) or the waker was used. May return false early.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<bool> {
        self.set.set_write_interest(SOCKET, writable)?;
        self.ready.clear();
        Ok(self.set.poll(timeout, &mut self.ready)? || !self.ready.is_empty())
    }
}

/// Polls many sockets or other descriptors, each with a key.
pub struct PollSet<S: AsSource = UdpSocket> {
    shared: Arc<Shared>,
    /// Sockets by key, and whether writability is reported.
    sockets: BTreeMap<usize, (Arc<S>, bool)>,
    events: Events,
}

impl<S: AsSource> PollSet<S>
where
    for<'a> &'a S: AsRawSource,
{
    /// Creates an empty set. One poll reports at most `max_events` sockets; if more are ready, the
    /// next poll reports the others.
    pub fn new(max_events: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared { poller: polling::Poller::new()?, woken: AtomicBool::new(false) });
        let events = Events::with_capacity(NonZeroUsize::new(max_events).unwrap_or(NonZeroUsize::MIN));
        Ok(Self { shared, sockets: BTreeMap::new(), events })
    }

    /// Returns a handle that ends a wait.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Adds a socket under a new key.
    pub fn add(&mut self, key: usize, socket: Arc<S>) -> io::Result<()> {
        // SAFETY: `self.sockets` keeps the source open until `remove` and `drop` have removed it.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            self.shared.poller.add_with_mode(&*socket, Event::readable(key), PollMode::Level)?;
        }
        self.sockets.insert(key, (socket, false));
        Ok(())
    }

    /// Sets whether `poll` reports the socket as ready when it is writable too.
    fn set_write_interest(&mut self, key: usize, wanted: bool) -> io::Result<()> {
        match self.sockets.get_mut(&key) {
            Some((socket, writable)) if *writable != wanted => {
                *writable = wanted;
                let interest = Event::new(key, true, wanted);
                self.shared.poller.modify_with_mode(&**socket, interest, PollMode::Level)
            }
            _ => Ok(()),
        }
    }

    /// Removes a socket.
    pub fn remove(&mut self, key: usize) -> io::Result<()> {
        let Some((socket, _)) = self.sockets.remove(&key) else { return Ok(()) };
        self.shared.poller.delete(&*socket)
    }

    /// Waits for at most `timeout` until a socket is readable, and appends the keys of the readable
    /// sockets to `ready`. Returns true if the waker was used.
    pub fn poll(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<bool> {
        self.events.clear();
        match self.shared.poller.wait(&mut self.events, timeout) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        ready.extend(self.events.iter().map(|event| event.key));
        Ok(self.shared.woken.swap(false, Ordering::SeqCst))
    }
}

impl<S: AsSource> Drop for PollSet<S> {
    fn drop(&mut self) {
        for (socket, _) in self.sockets.values() {
            // Cannot fail: the socket is open.
            let _ = self.shared.poller.delete(&**socket);
        }
    }
}
