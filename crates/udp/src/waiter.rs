//! How a thread waits until its socket has something, a deadline comes, or another thread wakes it: it looks
//! again for a moment, then sleeps.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::busy_poll::BusyPoll;
use crate::clock;
use crate::poller::{Poller, Waker};

/// Waits on one socket; it belongs to one thread.
pub struct Waiter {
    poller: Poller,
    /// How long before a deadline sleeping stops, because the kernel wakes a thread late.
    spin: Duration,
    busy_poll: BusyPoll,
}

impl Waiter {
    /// Waits on `socket`. Within `spin` of a deadline it returns at once and leaves the rest to a busy
    /// caller; zero is right where being late by a scheduler's whim does no harm.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn new(socket: Arc<UdpSocket>, spin: Duration) -> io::Result<Self> {
        Ok(Self { poller: Poller::new(socket)?, spin, busy_poll: BusyPoll::new() })
    }

    /// A handle to end waits with.
    pub fn waker(&self) -> Waker {
        self.poller.waker()
    }

    /// Returns when the socket is readable (or, if asked for, writable), when `deadline` is near, or when
    /// woken. May return early for no reason.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn wait(&mut self, deadline: Option<Instant>, writable: bool) -> io::Result<()> {
        let begin = clock::now();
        let sleep_until = deadline.map(|deadline| deadline.checked_sub(self.spin).unwrap_or(begin));
        if sleep_until.is_some_and(|until| until <= begin) {
            std::hint::spin_loop();
            return Ok(());
        }
        let Self { poller, busy_poll, .. } = self;
        busy_poll.wait(begin, sleep_until, |time| poller.poll(time, writable))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::busy_poll::{BUSY, SLEEPS};

    const LONG: Duration = Duration::from_secs(3600);

    fn waiter(spin: Duration) -> (Waiter, Arc<UdpSocket>) {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        (Waiter::new(Arc::clone(&socket), spin).unwrap(), socket)
    }

    #[test]
    fn a_deadline_ends_waiting_and_not_much_before_its_time() {
        let (mut waiter, _socket) = waiter(Duration::ZERO);
        for sleeps in [0, SLEEPS] {
            waiter.busy_poll.sleeps = sleeps;
            let deadline = clock::now() + Duration::from_millis(20);
            let mut waits = 0;
            while clock::now() < deadline {
                waiter.wait(Some(deadline), false).unwrap();
                waits += 1;
            }
            assert!(waits < 100, "it sleeps: {waits} waits for one deadline");
        }
    }

    #[test]
    fn near_or_past_deadlines_are_the_callers() {
        let (mut waiter, _socket) = waiter(LONG);
        waiter.wait(Some(clock::now() + LONG / 2), false).unwrap();
        waiter.wait(Some(clock::now()), false).unwrap();
        assert_eq!(waiter.busy_poll.sleeps, 0, "neither was a wait");
    }

    #[test]
    fn after_looking_in_vain_it_sleeps_at_once_for_some_waits_and_then_looks_again() {
        let (mut waiter, socket) = waiter(Duration::ZERO);
        waiter.busy_poll.busy = BUSY;
        let near = |waiter: &mut Waiter| {
            waiter.wait(Some(clock::now() + Duration::from_millis(1)), false).unwrap();
            waiter.busy_poll.sleeps
        };
        assert_eq!(near(&mut waiter), SLEEPS);
        for left in (0..SLEEPS).rev() {
            assert_eq!(near(&mut waiter), left);
        }
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        waiter.wait(None, false).unwrap();
        assert_eq!(waiter.busy_poll.sleeps, 0, "it looked and found something");
    }

    #[test]
    fn a_wake_up_is_seen_busy_and_asleep_and_before_the_wait() {
        for busy in [Duration::ZERO, LONG] {
            let (mut waiter, _socket) = waiter(Duration::ZERO);
            waiter.busy_poll.busy = busy;
            let waker = waiter.waker();
            waker.wake();
            waiter.wait(None, false).unwrap();
            let said = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&said);
            let other = thread::spawn(move || {
                flag.store(true, Ordering::SeqCst);
                waker.wake();
            });
            while !said.load(Ordering::SeqCst) {
                waiter.wait(None, false).unwrap();
            }
            other.join().unwrap();
        }
    }

    #[test]
    fn a_socket_with_room_ends_only_a_wait_for_room() {
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
