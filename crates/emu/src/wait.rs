//! Sleeping until a packet comes, one is due, or the end.

use std::io;
use std::mem;
use std::time::{Duration, Instant};

use rdt_udp::clock;

use vigil::Vigil;
pub use vigil::Waiting;

/// How long before a deadline sleeping stops, because the kernel wakes a thread late.
pub const SPIN: Duration = Duration::from_micros(60);
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

/// Questions to the system: has a port something, and what time is it?
pub(crate) trait Look {
    /// Returns when a port has something, when the end is asked for, or after `timeout`, perhaps early.
    ///
    /// # Errors
    /// As the operating system says.
    fn look(&mut self, timeout: Option<Duration>) -> io::Result<Seen>;

    /// The time.
    fn now(&self) -> Instant {
        clock::now()
    }
}

/// Looks, then sleeps. It belongs to one thread.
pub(crate) struct Waiter<L> {
    look: L,
    /// The thread that waits has been made one that the kernel wakes on time.
    prompt: bool,
    /// When it looks; where another thread would have to wait for it, it never does.
    vigil: Option<Vigil>,
}

impl<L: Look> Waiter<L> {
    pub(crate) fn new(waiting: Waiting, look: L) -> Self {
        let alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        Self { look, prompt: false, vigil: (!alone).then(|| Vigil::new(waiting)) }
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

impl<L: Look> Waiter<L> {
    /// Looks again and again as long as that is worth it, `deadline` at most. Gives what was seen, and the time.
    fn look_awake(&mut self, begin: Instant, deadline: Option<Instant>) -> io::Result<(Seen, Instant)> {
        let mut now = begin;
        let Some(vigil) = &mut self.vigil else { return Ok((Seen::Nothing, now)) };
        let until = vigil.look_until(begin);
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        while now < until {
            let seen = self.look.look(Some(Duration::ZERO))?;
            if seen != Seen::Nothing {
                return Ok((seen, now));
            }
            // Whoever shares this processor may be the one that is waited for.
            std::thread::yield_now();
            let before = mem::replace(&mut now, self.look.now());
            if vigil.is_in_the_way(before, now) {
                break;
            }
        }
        vigil.on_vain();
        Ok((Seen::Nothing, now))
    }

    /// Looks, or sleeps after looking in vain.
    fn find(&mut self, deadline: Option<Instant>) -> io::Result<Seen> {
        let begin = self.look.now();
        let sleep_until = deadline.map(|deadline| deadline.checked_sub(SPIN).unwrap_or(begin));
        if sleep_until.is_some_and(|until| until <= begin) {
            std::hint::spin_loop();
            // Else a path that is never idle would not end.
            return self.look.look(Some(Duration::ZERO));
        }
        match self.look_awake(begin, sleep_until)? {
            (Seen::Nothing, now) => {
                let awake_at = self.vigil.as_ref().and_then(|vigil| vigil.awake_at(now));
                let until = sleep_until.into_iter().chain(awake_at).min();
                let rest = until.map(|until| until.saturating_duration_since(now));
                self.look.look(rest.map(|rest| rest.saturating_sub(rest / SLACK_SHARE)))
            }
            (seen, _) => Ok(seen),
        }
    }
}

impl<L: Look> Wait for Waiter<L> {
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        self.be_prompt();
        let seen = self.find(deadline)?;
        if seen == Seen::Packet
            && let Some(vigil) = &mut self.vigil
        {
            vigil.on_packet();
        }
        Ok(seen != Seen::Stop)
    }
}

#[cfg(target_os = "linux")]
pub(crate) use descriptors::{Descriptors, Stop};

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(test)]
mod tests;
mod vigil;
