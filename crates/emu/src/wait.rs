//! Sleeping until a packet comes, one is due, or the end.

use std::io;
use std::time::{Duration, Instant};

/// How long before a deadline sleeping stops, because the kernel wakes a thread late.
pub const SPIN: Duration = Duration::from_micros(60);

/// How a relay waits between its turns.
pub trait Wait {
    /// Returns when a port has something, when `deadline` is near, or when the end is asked for. May
    /// return early for no reason. False is the end.
    ///
    /// # Errors
    /// As the operating system says.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool>;
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{Stop, Waiter};

#[cfg(target_os = "linux")]
mod linux {
    use std::num::NonZeroU64;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use rdt_driver::clock;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::io::Errno;

    use super::{Duration, Instant, SPIN, Wait, io};

    /// How long a waiter looks again and again before it sleeps; see `rdt_driver::Waiter`.
    const BUSY: Duration = Duration::from_micros(20);
    /// Waits that sleep at once after looking was in vain.
    const SLEEPS: u32 = 16;
    /// The kernel may end a poll late by a thousandth of its time: that much and more is kept for another poll.
    const SLACK_SHARE: u32 = 512;

    /// Asks a relay to end, from any thread.
    #[derive(Debug, Clone)]
    pub(crate) struct Stop(Arc<OwnedFd>);

    impl Stop {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
        }

        /// Readable when it was set.
        pub(crate) fn fd(&self) -> &OwnedFd {
            &self.0
        }

        pub(crate) fn set(&self) {
            // It fails only if it was set 2^64 times, and once is enough.
            let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
        }
    }

    /// Waits on the descriptors of two ports; it belongs to one thread.
    pub(crate) struct Waiter {
        ports: [Arc<OwnedFd>; 2],
        stop: Stop,
        /// The thread that waits has been made one that the kernel wakes on time.
        prompt: bool,
        /// How long it is busy before it sleeps.
        busy: Duration,
        /// Waits that are to sleep at once.
        sleeps: u32,
    }

    impl Waiter {
        pub(crate) fn new(ports: [Arc<OwnedFd>; 2], stop: Stop) -> Self {
            let alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
            let busy = if alone { Duration::ZERO } else { BUSY };
            Self { ports, stop, prompt: false, busy, sleeps: 0 }
        }

        /// One look for `timeout`.
        fn poll(&mut self, timeout: Option<Duration>) -> io::Result<Seen> {
            if !self.prompt {
                // Otherwise the kernel may join this thread's wake-ups with others up to 50 us later. Where it
                // refuses, packets are late by that.
                let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                self.prompt = true;
            }
            let mut fds =
                [&self.ports[0], &self.ports[1], &self.stop.0].map(|fd| PollFd::new(&**fd, PollFlags::IN));
            // A time that no timespec holds is longer than anybody waits.
            let timeout =
                timeout.and_then(|time| Timespec::try_from(time.saturating_sub(time / SLACK_SHARE)).ok());
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [near, far, stop] = fds.map(|fd| !fd.revents().is_empty());
            Ok(if stop {
                Seen::Stop
            } else if near || far {
                Seen::Packet
            } else {
                Seen::Nothing
            })
        }
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Seen {
        Nothing,
        Packet,
        Stop,
    }

    impl Wait for Waiter {
        fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
            let begin = clock::now();
            let sleep_until = deadline.map(|deadline| deadline.checked_sub(SPIN).unwrap_or(begin));
            if sleep_until.is_some_and(|until| until <= begin) {
                std::hint::spin_loop();
                // Else a path that is never idle would not end.
                return Ok(self.poll(Some(Duration::ZERO))? != Seen::Stop);
            }
            let mut now = begin;
            if self.sleeps > 0 {
                self.sleeps -= 1;
            } else {
                let busy_until = sleep_until.map_or(begin + self.busy, |until| until.min(begin + self.busy));
                while now < busy_until {
                    match self.poll(Some(Duration::ZERO))? {
                        Seen::Nothing => {}
                        seen => return Ok(seen != Seen::Stop),
                    }
                    // Whoever shares this processor may be the one that is waited for.
                    std::thread::yield_now();
                    now = clock::now();
                }
                self.sleeps = SLEEPS;
            }
            let rest = sleep_until.map(|until| until.saturating_duration_since(now));
            Ok(self.poll(rest)? != Seen::Stop)
        }
    }

    #[cfg(test)]
    mod tests {
        use std::net::UdpSocket;
        use std::thread;

        use super::*;

        /// A waiter on two sockets, of which the second is given.
        fn waiter() -> (Waiter, Stop, UdpSocket) {
            let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let fds = [near.into(), OwnedFd::from(far.try_clone().unwrap())].map(Arc::new);
            let stop = Stop::new().unwrap();
            (Waiter::new(fds, stop.clone()), stop, far)
        }

        #[test]
        fn a_deadline_ends_waiting_and_not_much_before_its_time() {
            let (mut waiter, _stop, _socket) = waiter();
            for sleeps in [0, SLEEPS] {
                waiter.sleeps = sleeps;
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
        fn a_packet_ends_waiting_until_it_is_read() {
            let (mut waiter, _stop, socket) = waiter();
            let address = socket.local_addr().unwrap();
            let other = thread::spawn(move || UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", address));
            assert!(waiter.wait(None).unwrap());
            assert_eq!(other.join().unwrap().unwrap(), 1);
            assert!(waiter.wait(None).unwrap(), "it is still there");
        }

        #[test]
        fn the_end_is_seen_in_every_wait_even_one_that_does_not_sleep() {
            let (mut waiter, stop, _socket) = waiter();
            let other = thread::spawn(move || stop.set());
            while waiter.wait(None).unwrap() {}
            other.join().unwrap();
            assert!(!waiter.wait(Some(clock::now())).unwrap());
            assert!(!waiter.wait(Some(clock::now() + Duration::from_secs(3600))).unwrap());
        }
    }
}
