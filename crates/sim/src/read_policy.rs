//! Read policy of a server's application: limits on how much it reads and when. The node does the
//! reading.

use std::time::{Duration, Instant};

/// Interval between two reads of an application that reads at a rate.
const TICK: Duration = Duration::from_millis(10);

/// Behaviour of an application that does not always read immediately. Times count from the start of
/// virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPolicy {
    /// Reads this many bytes per second, in portions every 10 ms. A missed portion is not made up
    /// for.
    AtRate(u64),
    /// Reads nothing for a time, and everything immediately before and after.
    Stalled {
        /// Time at which the application stops reading.
        from: Duration,
        /// Length of the stall.
        length: Duration,
    },
}

/// State of an application that follows a [`ReadPolicy`].
#[derive(Debug)]
pub(crate) struct Reader {
    policy: ReadPolicy,
    epoch: Instant,
    /// Index of the tick that `budget` belongs to.
    tick: u128,
    /// Bytes that may still be read in this tick.
    budget: u64,
}

impl Reader {
    pub(crate) fn new(policy: ReadPolicy, epoch: Instant) -> Self {
        Self { policy, epoch, tick: u128::MAX, budget: 0 }
    }

    /// Bytes that may be read now.
    pub(crate) fn budget(&mut self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.epoch);
        match self.policy {
            ReadPolicy::AtRate(rate) => {
                let tick = elapsed.as_nanos() / TICK.as_nanos();
                if tick != self.tick {
                    self.tick = tick;
                    self.budget = rate / 100;
                }
                self.budget
            }
            ReadPolicy::Stalled { from, length } => {
                if (from..from + length).contains(&elapsed) {
                    0
                } else {
                    u64::MAX
                }
            }
        }
    }

    /// Counts bytes that were read.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// Time at which reading continues, if nothing may be read at `now`.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let elapsed = now.saturating_duration_since(self.epoch);
        match self.policy {
            ReadPolicy::AtRate(_) => {
                let into = elapsed.as_nanos() % TICK.as_nanos();
                // The remainder is below 10 ms, so it always fits.
                now + TICK.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or(0)))
            }
            ReadPolicy::Stalled { from, length } => self.epoch + from + length,
        }
    }
}
