//! Waiting on many sockets and on a stop request, with the `polling` crate.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};

/// Handle that asks a proxy to end, from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    poller: Poller,
    stop: AtomicBool,
}

impl Stop {
    pub(crate) fn set(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        // Fails only if the poller is closed: then no thread waits.
        let _ = self.0.poller.notify();
    }
}

/// Poller of sockets, each with a key.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    events: Events,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Arc::new(Shared { poller: Poller::new()?, stop: AtomicBool::new(false) });
        Ok(Self { shared, events: Events::new() })
    }

    pub(crate) fn stop(&self) -> Stop {
        Stop(Arc::clone(&self.shared))
    }

    /// Registers a socket under a unique key.
    pub(crate) fn add(&self, socket: Arc<UdpSocket>, key: usize) -> io::Result<Watched> {
        // SAFETY: the source must be taken out before it is closed. `Watched` keeps it open, and
        // its `drop` takes it out.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            self.shared.poller.add_with_mode(&*socket, Event::readable(key), PollMode::Level)?;
        }
        Ok(Watched { shared: Arc::clone(&self.shared), socket })
    }

    /// Waits until a socket is readable, the end is requested or `timeout` has passed; may return
    /// early. Returns the keys of the readable sockets.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = usize>> {
        self.poll(timeout)?;
        if self.is_stopped() {
            // Packets that arrived before the request are reported too.
            self.poll(Some(Duration::ZERO))?;
        }
        Ok(self.events.iter().map(|event| event.key))
    }

    /// Returns true if the end was requested.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        match self.shared.poller.wait(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Registration of a socket, which ends when it is dropped.
pub(crate) struct Watched {
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The socket is open, so this cannot fail in a way that matters.
        let _ = self.shared.poller.delete(&*self.socket);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn keys(watch: &mut Watch) -> Vec<usize> {
        watch.wait(Some(Duration::ZERO)).unwrap().collect()
    }

    #[test]
    fn socket_is_readable_until_read_or_removed() {
        let mut watch = Watch::new().unwrap();
        let sockets = [7, 8].map(|key| {
            let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
            (watch.add(Arc::clone(&socket), key).unwrap(), socket)
        });
        assert!(keys(&mut watch).is_empty());
        for (_, socket) in &sockets {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        for _ in 0..2 {
            let mut seen = keys(&mut watch);
            seen.sort_unstable();
            assert_eq!(seen, [7, 8]);
        }
        let [(_watched, first), (second, _)] = sockets;
        first.recv(&mut [0; 2]).unwrap();
        assert_eq!(keys(&mut watch), [8]);
        drop(second);
        assert!(keys(&mut watch).is_empty());
    }

    #[test]
    fn stop_wakes_a_sleeping_wait() {
        let mut watch = Watch::new().unwrap();
        let stop = watch.stop();
        let other = thread::spawn(move || stop.set());
        while !watch.is_stopped() {
            watch.wait(None).unwrap().for_each(drop);
        }
        other.join().unwrap();
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let _watched = watch.add(Arc::clone(&socket), 7).unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert_eq!(watch.wait(None).unwrap().collect::<Vec<_>>(), [7], "and so is what has come");
        assert!(watch.is_stopped());
    }
}
