//! Timer of a driver. Pacing has deadlines of some 10 us, but tokio's timers have steps of 1 ms.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tokio::time::{Sleep, sleep_until};

/// Step of tokio's timers.
const STEP: Duration = Duration::from_millis(1);

pub(super) enum Timer {
    /// timerfd, exact to some microseconds. One system call for a deadline.
    #[cfg(target_os = "linux")]
    Kernel(timerfd::TimerFd),
    /// Timer of the runtime.
    #[cfg_attr(
        all(target_os = "linux", not(feature = "emulator")),
        expect(dead_code, reason = "of emulated networks and other systems")
    )]
    Runtime {
        sleep: Option<Pin<Box<Sleep>>>,
        /// True to poll again and again within one step of a deadline. Never with a paused clock,
        /// which stands still while a task runs.
        is_spinning: bool,
    },
}

impl Timer {
    /// Creates the timer of an endpoint with a socket.
    #[cfg(target_os = "linux")]
    pub(super) fn of_socket() -> io::Result<Self> {
        timerfd::TimerFd::new().map(Self::Kernel)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "fails on Linux")]
    pub(super) fn of_socket() -> io::Result<Self> {
        Ok(Self::Runtime { sleep: None, is_spinning: true })
    }

    /// Creates the timer of an endpoint whose clock is the runtime's.
    #[cfg(feature = "emulator")]
    pub(super) fn of_runtime() -> Self {
        Self::Runtime { sleep: None, is_spinning: false }
    }

    /// Waits until `deadline`, or until a later call names another one. Ready if it has passed.
    pub(super) fn poll(&mut self, now: Instant, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        if deadline <= now {
            return Poll::Ready(());
        }
        match self {
            #[cfg(target_os = "linux")]
            Self::Kernel(timer) => timer.poll(now, deadline, cx),
            Self::Runtime { is_spinning: true, .. } if deadline - now < STEP => Poll::Ready(()),
            Self::Runtime { sleep, .. } => {
                let sleep = sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
                if sleep.deadline() != deadline.into() {
                    sleep.as_mut().reset(deadline.into());
                }
                sleep.as_mut().poll(cx)
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod timerfd {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::Instant;

    use ::tokio::io::Interest;
    use ::tokio::io::unix::AsyncFd;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    use super::super::register;

    pub(in crate::tokio) struct TimerFd {
        fd: AsyncFd<Arc<OwnedFd>>,
        /// Deadline in the kernel. May be earlier than the caller's: then the timer is set again
        /// after it, instead of at each change.
        armed: Option<Instant>,
    }

    impl TimerFd {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = Arc::new(timerfd_create(TimerfdClockId::Monotonic, flags)?);
            Ok(Self { fd: register(fd, Interest::READABLE)?, armed: None })
        }

        pub(super) fn poll(&mut self, now: Instant, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
            if self.armed.is_none_or(|armed| armed <= now || deadline < armed)
                && self.set(now, deadline).is_err()
            {
                // Impossible: the descriptor is a timer, and the time is valid.
                return Poll::Ready(());
            }
            while let Poll::Ready(guard) = self.fd.poll_read_ready(cx) {
                let Ok(mut guard) = guard else { return Poll::Ready(()) };
                guard.clear_ready();
                // If an earlier deadline has expired, the kernel's timer is no longer set.
                let now = rdt_udp::clock::now();
                if now >= deadline || self.set(now, deadline).is_err() {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }

        /// Sets the kernel's timer, which forgets an expiry that was not read.
        fn set(&mut self, now: Instant, deadline: Instant) -> io::Result<()> {
            let it_value = Timespec::try_from(deadline - now).map_err(io::Error::other)?;
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            let time = Itimerspec { it_interval, it_value };
            timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &time)?;
            self.armed = Some(deadline);
            Ok(())
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::future::poll_fn;

    use ::tokio::time::{sleep, timeout};

    use super::*;

    #[::tokio::test]
    async fn earlier_expiry_does_not_swallow_deadline() {
        let now = rdt_udp::clock::now();
        let (early, late) = (now + STEP, now + 100 * STEP);
        let mut timer = Timer::of_socket().unwrap();
        let polled = poll_fn(|cx| Poll::Ready(timer.poll(now, Some(early), cx))).await;
        assert!(polled.is_pending());
        sleep(20 * STEP).await;
        // The turn of this call read the clock before the early deadline.
        let expiry = poll_fn(|cx| timer.poll(now, Some(late), cx));
        timeout(Duration::from_secs(10), expiry).await.expect("no expiry");
        assert!(rdt_udp::clock::now() >= late);
    }
}
