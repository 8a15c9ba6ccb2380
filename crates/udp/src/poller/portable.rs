//! Poller of other systems, through the `polling` crate.

#![cfg_attr(linux_api, allow(unreachable_pub, reason = "compiled for its tests only"))]

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polling::{Event, Events};

/// Key of the socket; wake-ups have none.
const SOCKET: usize = 0;

/// Wakes a waiting thread: ends its present wait, or its next one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    poller: polling::Poller,
    /// The poller does not report wake-ups.
    woken: AtomicBool,
}

impl Shared {
    fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { poller: polling::Poller::new()?, woken: AtomicBool::new(false) }))
    }

    /// Waits, and returns true if the waker was used. A socket in `events` is not reported again
    /// before it is modified.
    fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<bool> {
        events.clear();
        match self.poller.wait(events, timeout) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        Ok(self.woken.swap(false, Ordering::SeqCst))
    }
}

impl Waker {
    /// Ends the present wait, or the next one.
    pub fn wake(&self) {
        self.0.woken.store(true, Ordering::SeqCst);
        // Fails only if the poller is closed: then no thread waits.
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
        let shared = Shared::new()?;
        // SAFETY: the source must be removed before it is closed. `self.socket` keeps it open, and
        // `drop` removes it.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            shared.poller.add(&*socket, Event::none(SOCKET))?;
        }
        Ok(Self { shared, socket, events: Events::new() })
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Waits until the socket is readable (or, if asked for, writable) or the waker is used, and
    /// returns true; or for `timeout`, perhaps less, and returns false.
    pub(crate) fn poll(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<bool> {
        self.shared.poller.modify(&*self.socket, Event::new(SOCKET, true, writable))?;
        let woken = self.shared.wait(&mut self.events, timeout)?;
        Ok(woken || !self.events.is_empty())
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // Cannot fail: the socket is open.
        let _ = self.shared.poller.delete(&*self.socket);
    }
}

/// Polls many sockets. Each has a key, a small number.
pub struct PollSet {
    shared: Arc<Shared>,
    /// Sockets, and whether writability is reported.
    sockets: Vec<Option<(Arc<UdpSocket>, bool)>>,
    events: Events,
}

impl PollSet {
    /// Creates an empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { shared: Shared::new()?, sockets: Vec::new(), events: Events::new() })
    }

    /// Returns a handle that ends waits.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared))
    }

    /// Adds a socket under a new key.
    pub fn add(&mut self, key: usize, socket: Arc<UdpSocket>) -> io::Result<()> {
        // SAFETY: the source must be removed before it is closed. `self.sockets` keeps it open, and
        // `remove` and `drop` remove it.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            self.shared.poller.add(&*socket, Event::readable(key))?;
        }
        self.sockets.resize(self.sockets.len().max(key + 1), None);
        self.sockets[key] = Some((socket, false));
        Ok(())
    }

    /// Sets whether writability of a socket is reported too.
    pub fn set_write_interest(&mut self, key: usize, wanted: bool) -> io::Result<()> {
        if let Some((_, room)) = &mut self.sockets[key] {
            *room = wanted;
        }
        self.arm(key)
    }

    /// Removes a socket.
    pub fn remove(&mut self, key: usize) -> io::Result<()> {
        let Some((socket, _)) = self.sockets[key].take() else { return Ok(()) };
        self.shared.poller.delete(&*socket)
    }

    /// Waits for at most `timeout` until a socket is readable (or, if asked for, writable), and
    /// adds the keys of such sockets to `ready`. Returns true if the waker was used.
    pub fn poll(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<bool> {
        let woken = self.shared.wait(&mut self.events, timeout)?;
        for event in self.events.iter() {
            ready.push(event.key);
            self.arm(event.key)?;
        }
        Ok(woken)
    }

    fn arm(&self, key: usize) -> io::Result<()> {
        let Some((socket, room)) = &self.sockets[key] else { return Ok(()) };
        self.shared.poller.modify(&**socket, Event::new(key, true, *room))
    }
}

impl Drop for PollSet {
    fn drop(&mut self) {
        for (socket, _) in self.sockets.iter().flatten() {
            // Cannot fail: the socket is open.
            let _ = self.shared.poller.delete(&**socket);
        }
    }
}
