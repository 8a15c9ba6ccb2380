//! Waiting on the descriptors of two ports and of a stop request: `ppoll` on Linux.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::{PollPorts, Readiness};

/// Handle that asks a relay to end, from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<OwnedFd>);

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Returns the descriptor, which is readable after [`set`](Self::set).
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn set(&self) {
        // Fails only if the counter overflows; one count is enough.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// Ports and stop request to wait on.
pub(crate) struct Descriptors {
    ports: [Arc<OwnedFd>; 2],
    stop: Stop,
}

impl Descriptors {
    pub(crate) fn new(ports: [Arc<OwnedFd>; 2], stop: Stop) -> Self {
        Self { ports, stop }
    }
}

impl PollPorts for Descriptors {
    fn poll_ports(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        let mut fds =
            [&self.ports[0], &self.ports[1], &self.stop.0].map(|fd| PollFd::new(&**fd, PollFlags::IN));
        // A time beyond the range of timespec counts as no timeout.
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [near, far, stop] = fds.map(|fd| !fd.revents().is_empty());
        Ok(if stop {
            Readiness::Stop
        } else if near || far {
            Readiness::Packet
        } else {
            Readiness::Nothing
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::thread;

    use rdt_udp::clock;

    use super::*;
    use crate::waiter::{SPIN, Wait, Waiter, Waiting};

    /// A waiter on two sockets, of which the second is given.
    fn waiter() -> (Waiter<Descriptors>, Stop, UdpSocket) {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let fds = [near.into(), OwnedFd::from(far.try_clone().unwrap())].map(Arc::new);
        let stop = Stop::new().unwrap();
        (Waiter::new(Waiting::Sleep, Descriptors::new(fds, stop.clone())), stop, far)
    }

    #[test]
    fn wait_sleeps_until_its_deadline() {
        let (mut waiter, _stop, _socket) = waiter();
        // The first wait polls before it sleeps, the second one does not.
        for _ in 0..2 {
            let deadline = clock::now() + Duration::from_millis(20);
            let mut waits = 0;
            while clock::now() + SPIN < deadline {
                assert!(waiter.wait(Some(deadline)).unwrap());
                waits += 1;
            }
            assert!(waits < 100, "it sleeps: {waits} waits for one deadline");
        }
    }

    #[test]
    fn unread_packet_ends_every_wait() {
        let (mut waiter, _stop, socket) = waiter();
        let address = socket.local_addr().unwrap();
        let other = thread::spawn(move || UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address));
        assert!(waiter.wait(None).unwrap());
        assert_eq!(other.join().unwrap().unwrap(), 1);
        assert!(waiter.wait(None).unwrap(), "it is still there");
    }

    #[test]
    fn stop_ends_every_wait() {
        let (mut waiter, stop, _socket) = waiter();
        let other = thread::spawn(move || stop.set());
        while waiter.wait(None).unwrap() {}
        other.join().unwrap();
        assert!(!waiter.wait(Some(clock::now())).unwrap());
        assert!(!waiter.wait(Some(clock::now() + Duration::from_secs(3600))).unwrap());
    }
}
