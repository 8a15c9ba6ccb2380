//! Busy polling before sleep. Going to sleep and waking up costs about 20 us, as much as processing
//! a batch of datagrams, so a thread first polls for that time. Measured:
//! docs/measurements/2026-11-21-busy-poll.md.

use std::io;
use std::mem;
use std::time::{Duration, Instant};

use crate::clock;

/// Time that a thread polls before it sleeps under [`Policy::Brief`].
const BRIEF_POLL: Duration = Duration::from_micros(20);
/// Waits without a poll after one found nothing: the peer is slow, or needs this processor.
const SLEEPS_AFTER_POLL: u32 = 16;
/// Poll time after a packet under [`Policy::WhilePacketsPass`]: more than the 1 s between pings.
const AWAKE_AFTER_PACKET: Duration = Duration::from_secs(2);
/// A gap this long between two polls means that the thread was preempted.
const PREEMPTION_GAP: Duration = Duration::from_micros(200);
/// First sleep after a preemption. A shorter one would soon cost the competitor's next time slice.
const MIN_REST: Duration = Duration::from_millis(50);
/// Longest sleep after repeated preemptions; it doubles with each.
const MAX_REST: Duration = Duration::from_secs(2);
/// Inverse of the share by which a sleep is shortened. Linux ends a wait late by up to 1/1000 of
/// its length (`select_estimate_accuracy`); a second wait covers the rest.
const SLACK_SHARE: u32 = 512;

/// When a thread polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Polls for 20 us before each sleep, but not before the next 16 after a poll without success.
    Brief,
    /// Polls until no packet arrived for 2 s. Needs a processor of its own: a thread that is
    /// preempted sleeps for 50 ms to 2 s.
    WhilePacketsPass,
}

/// Busy polling of one thread. With one processor it is off, as it would delay the awaited thread.
#[derive(Debug)]
pub struct BusyPoll {
    policy: Policy,
    enabled: bool,
    /// True once the timer slack of the thread is set.
    precise: bool,
    /// Number of the next waits that sleep at once.
    sleeps: u32,
    /// True if something was ready since the last wait.
    found: bool,
    /// End of the present time of polling, in a loop that calls [`BusyPoll::should_poll`].
    poll_end: Option<Instant>,
    awake_until: Option<Instant>,
    rest_until: Option<Instant>,
    rest: Duration,
}

impl BusyPoll {
    /// Creates the state of one thread.
    pub fn new(policy: Policy) -> Self {
        let enabled = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        Self {
            policy,
            enabled,
            precise: false,
            sleeps: 0,
            found: false,
            poll_end: None,
            awake_until: None,
            rest_until: None,
            rest: MIN_REST,
        }
    }

    /// Waits until `poll` returns true, or until `deadline`; may return early. Calls `poll` with a
    /// zero timeout while busy-polling, then once with the time to sleep. `now` is the time.
    pub fn wait(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        poll: impl FnMut(Option<Duration>) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.set_timer_slack();
        self.wait_by(clock::now, now, deadline, poll)
    }

    /// Records that something was ready outside of [`BusyPoll::wait`].
    pub fn note_ready(&mut self) {
        self.found = true;
        self.poll_end = None;
    }

    /// Returns true if an event loop that does not block, such as a task, should poll once more,
    /// and false if it should wait. Call it when nothing was ready, else
    /// [`note_ready`](Self::note_ready). Replaces [`BusyPoll::wait`] for such loops.
    pub fn should_poll(&mut self, now: Instant) -> bool {
        let Some(end) = self.poll_end else {
            self.poll_end = self.poll_until(now);
            return self.poll_end.is_some();
        };
        if now >= end {
            self.poll_end = None;
            self.sleeps = SLEEPS_AFTER_POLL;
        }
        self.poll_end.is_some()
    }

    fn wait_by(
        &mut self,
        clock: impl Fn() -> Instant,
        mut now: Instant,
        deadline: Option<Instant>,
        mut poll: impl FnMut(Option<Duration>) -> io::Result<bool>,
    ) -> io::Result<()> {
        if let Some(until) = self.poll_until(now) {
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            while now < until {
                if poll(Some(Duration::ZERO))? {
                    self.found = true;
                    return Ok(());
                }
                // The awaited thread may be queued on this processor.
                std::thread::yield_now();
                let before = mem::replace(&mut now, clock());
                if self.was_preempted(before, now) {
                    break;
                }
            }
            self.sleeps = SLEEPS_AFTER_POLL;
        }
        let until = deadline.into_iter().chain(self.rest_end(now)).min();
        let sleep = until.map(|until| until.saturating_duration_since(now));
        self.found |= poll(sleep.map(|sleep| sleep.saturating_sub(sleep / SLACK_SHARE)))?;
        Ok(())
    }

    /// Begins a wait: returns the time until which to poll, or `None` to sleep at once.
    fn poll_until(&mut self, now: Instant) -> Option<Instant> {
        if mem::take(&mut self.found) && self.policy == Policy::WhilePacketsPass {
            self.awake_until = Some(now + AWAKE_AFTER_PACKET);
        }
        if !self.enabled {
            return None;
        }
        let resting = self.rest_until.is_some_and(|rest_until| now < rest_until);
        if let Some(awake_until) = self.awake_until.filter(|awake_until| now < *awake_until && !resting) {
            return Some(awake_until);
        }
        if self.sleeps > 0 {
            self.sleeps -= 1;
            return None;
        }
        Some(now + BRIEF_POLL)
    }

    /// Returns the time at which polling resumes after a rest; `None` without such a rest.
    fn rest_end(&self, now: Instant) -> Option<Instant> {
        let awake_until = self.awake_until?;
        self.rest_until.filter(|rest_until| now < *rest_until && *rest_until < awake_until)
    }

    /// Compares the times of two polls. After a preemption, begins a rest and returns true.
    fn was_preempted(&mut self, before: Instant, now: Instant) -> bool {
        if now.saturating_duration_since(before) < PREEMPTION_GAP {
            return false;
        }
        let soon = self.rest_until.is_some_and(|rest_until| now < rest_until + self.rest);
        self.rest = if soon { (self.rest * 2).min(MAX_REST) } else { MIN_REST };
        self.rest_until = Some(now + self.rest);
        true
    }

    /// Sets the timer slack of the thread to 1 ns, once. By default Linux may delay a wake-up by 50
    /// us to merge it with others. If the system refuses, deadlines are missed by that much.
    fn set_timer_slack(&mut self) {
        #[cfg(linux_api)]
        if !self.precise {
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        self.precise = true;
    }
}

#[cfg(test)]
mod tests;
