//! Waiting on many sockets, and for the end: through the `polling` crate, wherever that is.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};

/// Asks a proxy to end, from any thread.
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
        // It fails only if the poller's descriptors are gone, and then nobody waits.
        let _ = self.0.poller.notify();
    }
}

/// The sockets, each with a key.
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

    /// Looks at this socket too, under a key of its own.
    pub(crate) fn add(&self, socket: Arc<UdpSocket>, key: usize) -> io::Result<Watched> {
        // SAFETY: the source must be taken out before it is closed. `Watched` keeps it open, and its `drop` takes it
        // out.
        #[expect(unsafe_code, reason = "the poller cannot see how long the socket lives")]
        unsafe {
            self.shared.poller.add_with_mode(&*socket, Event::readable(key), PollMode::Level)?;
        }
        Ok(Watched { shared: Arc::clone(&self.shared), socket })
    }

    /// Returns the keys of the sockets that have something, at once or after `timeout`, perhaps none. Or nothing
    /// when the end is asked for.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
    ) -> io::Result<Option<impl Iterator<Item = usize>>> {
        self.events.clear();
        match self.shared.poller.wait(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let stop = self.shared.stop.load(Ordering::SeqCst);
        Ok((!stop).then(|| self.events.iter().map(|event| event.key)))
    }
}

/// A socket that is looked at.
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

    fn keys(watch: &mut Watch) -> Option<Vec<usize>> {
        watch.wait(Some(Duration::ZERO)).unwrap().map(Iterator::collect)
    }

    #[test]
    fn a_socket_is_seen_until_it_is_read_or_looked_at_no_more() {
        let mut watch = Watch::new().unwrap();
        let sockets = [7, 8].map(|key| {
            let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
            (watch.add(Arc::clone(&socket), key).unwrap(), socket)
        });
        assert_eq!(keys(&mut watch).unwrap(), []);
        for (_, socket) in &sockets {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        for _ in 0..2 {
            let mut seen = keys(&mut watch).unwrap();
            seen.sort_unstable();
            assert_eq!(seen, [7, 8]);
        }
        let [(_watched, first), (second, _)] = sockets;
        first.recv(&mut [0; 2]).unwrap();
        assert_eq!(keys(&mut watch).unwrap(), [8]);
        drop(second);
        assert_eq!(keys(&mut watch).unwrap(), []);
    }

    #[test]
    fn the_end_is_seen_asleep_and_afterwards() {
        let mut watch = Watch::new().unwrap();
        let stop = watch.stop();
        let other = thread::spawn(move || stop.set());
        while watch.wait(None).unwrap().is_some() {}
        other.join().unwrap();
        assert_eq!(keys(&mut watch), None);
    }
}
