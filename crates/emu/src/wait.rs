//! Sleeping until a packet comes, one is due, or the end.

use std::io;
use std::time::{Duration, Instant};

use rdt_driver::clock;

/// How long before a deadline sleeping stops, because the kernel wakes a thread late.
pub const SPIN: Duration = Duration::from_micros(60);
/// How long a waiter looks again and again before it sleeps; see `rdt_driver::Waiter`.
const BUSY: Duration = Duration::from_micros(20);
/// Waits that sleep at once after looking was in vain.
const SLEEPS: u32 = 16;

/// Linux may end a wait late by a thousandth of its time (`select_estimate_accuracy`, for poll and epoll alike): that
/// much and more is kept for another wait.
const SLACK_SHARE: u32 = 512;

/// How a relay waits between its turns.
pub trait Wait {
    /// Returns when a port has something, when `deadline` is near, or when the end is asked for. May
    /// return early for no reason. False is the end.
    ///
    /// # Errors
    /// As the operating system says.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool>;
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Nothing,
    Packet,
    /// The end is asked for.
    Stop,
}

/// One question to the system: has a port something?
pub(crate) trait Look {
    /// Returns when a port has something, when the end is asked for, or after `timeout`, perhaps early.
    ///
    /// # Errors
    /// As the operating system says.
    fn look(&mut self, timeout: Option<Duration>) -> io::Result<Seen>;
}

/// Looks for a moment, then sleeps. It belongs to one thread.
pub(crate) struct Waiter<L> {
    look: L,
    /// The thread that waits has been made one that the kernel wakes on time.
    prompt: bool,
    /// How long it is busy before it sleeps.
    busy: Duration,
    /// Waits that are to sleep at once.
    sleeps: u32,
}

impl<L: Look> Waiter<L> {
    pub(crate) fn new(look: L) -> Self {
        let alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        let busy = if alone { Duration::ZERO } else { BUSY };
        Self { look, prompt: false, busy, sleeps: 0 }
    }

    /// Otherwise Linux may join this thread's wake-ups with others up to 50 us later. Where it refuses, packets are
    /// late by that.
    fn be_prompt(&mut self) {
        #[cfg(target_os = "linux")]
        if !self.prompt {
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        self.prompt = true;
    }
}

impl<L: Look> Wait for Waiter<L> {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        self.be_prompt();
        let begin = clock::now();
        let sleep_until = deadline.map(|deadline| deadline.checked_sub(SPIN).unwrap_or(begin));
        if sleep_until.is_some_and(|until| until <= begin) {
            std::hint::spin_loop();
            // Else a path that is never idle would not end.
            return Ok(self.look.look(Some(Duration::ZERO))? != Seen::Stop);
        }
        let mut now = begin;
        if self.sleeps > 0 {
            self.sleeps -= 1;
        } else {
            let busy_until = sleep_until.map_or(begin + self.busy, |until| until.min(begin + self.busy));
            while now < busy_until {
                match self.look.look(Some(Duration::ZERO))? {
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
        Ok(self.look.look(rest.map(|rest| rest.saturating_sub(rest / SLACK_SHARE)))? != Seen::Stop)
    }
}

#[cfg(target_os = "linux")]
pub(crate) use descriptors::{Descriptors, Stop};

#[cfg(target_os = "linux")]
mod descriptors;
