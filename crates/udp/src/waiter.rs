//! Waits of one thread for its socket, a deadline or a wake-up by another thread.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::busy_poll::{BusyPoll, Policy};
use crate::clock;
use crate::poller::{Poller, Waker};

/// Waits on one socket by polling for a moment, then sleeping. Belongs to one thread.
pub struct Waiter {
    poller: Poller,
    /// Time before a deadline at which sleeping ends.
    spin: Duration,
    busy_poll: BusyPoll,
}

impl Waiter {
    /// Creates a waiter on `socket`. Within `spin` of a deadline, [`Waiter::wait`] returns at once
    /// and the caller spins, because the kernel wakes a thread some 10 us late.
    pub fn new(socket: Arc<UdpSocket>, spin: Duration) -> io::Result<Self> {
        Ok(Self { poller: Poller::new(socket)?, spin, busy_poll: BusyPoll::new(Policy::Brief) })
    }

    /// Returns a handle that ends a wait.
    pub fn waker(&self) -> Waker {
        self.poller.waker()
    }

    /// Waits until the socket is readable (or writable, if requested), `deadline` is near, or the
    /// waker is used. May return early.
    pub fn wait(&mut self, deadline: Option<Instant>, writable: bool) -> io::Result<()> {
        let begin = clock::now();
        let sleep_until = deadline.map(|deadline| deadline.checked_sub(self.spin).unwrap_or(begin));
        if sleep_until.is_some_and(|until| until <= begin) {
            std::hint::spin_loop();
            return Ok(());
        }
        let Self { poller, busy_poll, .. } = self;
        busy_poll.wait(begin, sleep_until, |timeout| poller.poll(timeout, writable))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn waiter(spin: Duration) -> (Waiter, Arc<UdpSocket>) {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        (Waiter::new(Arc::clone(&socket), spin).unwrap(), socket)
    }

    #[test]
    fn wait_sleeps_until_its_deadline() {
        let (mut waiter, _socket) = waiter(Duration::ZERO);
        // The first wait polls before it sleeps, the second one does not poll.
        for _ in 0..2 {
            let deadline = clock::now() + Duration::from_millis(20);
            let mut waits = 0;
            while clock::now() < deadline {
                waiter.wait(Some(deadline), false).unwrap();
                waits += 1;
            }
            assert!(waits < 100, "{waits} waits for one deadline");
        }
    }

    #[test]
    fn deadline_within_spin_time_returns_at_once() {
        let (mut waiter, _socket) = waiter(LONG);
        waiter.wait(Some(clock::now() + LONG / 2), false).unwrap();
        waiter.wait(Some(clock::now()), false).unwrap();
    }

    #[test]
    fn waker_ends_polling_and_sleep() {
        for policy in [Policy::Brief, Policy::WhilePacketsPass] {
            let (mut waiter, _socket) = waiter(Duration::ZERO);
            waiter.busy_poll = BusyPoll::new(policy);
            waiter.busy_poll.note_ready();
            let waker = waiter.waker();
            waker.wake();
            waiter.wait(None, false).unwrap();
            let set = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&set);
            let other = thread::spawn(move || {
                flag.store(true, Ordering::SeqCst);
                waker.wake();
            });
            while !set.load(Ordering::SeqCst) {
                waiter.wait(None, false).unwrap();
            }
            other.join().unwrap();
        }
    }

    #[test]
    fn writable_socket_ends_only_writable_wait() {
        let (mut waiter, socket) = waiter(Duration::ZERO);
        waiter.wait(None, true).unwrap();
        let address = socket.local_addr().unwrap();
        let other = thread::spawn(move || UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address));
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 1]).is_err() {
            waiter.wait(None, false).unwrap();
        }
        assert_eq!(other.join().unwrap().unwrap(), 1);
    }
}
