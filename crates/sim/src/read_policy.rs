//! How fast the application of a server reads: at once, or as a slow one does. Owns what it may still read at
//! this moment; the node does the reading.

use std::time::{Duration, Instant};

/// Between two reads of an application that reads at a rate.
const TICK: Duration = Duration::from_millis(10);

/// An application that does not read at once. Times count from the start of virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPolicy {
    /// Every 10 ms what this many bytes per second allow; what was not read in one such time is not made up
    /// for.
    AtRate(u64),
    /// Nothing from the first time on for the second, and at once before and after.
    Stalled {
        /// When the application stops reading.
        from: Duration,
        /// For how long.
        length: Duration,
    },
}

/// A [`ReadPolicy`] in the making.
#[derive(Debug)]
pub(crate) struct Reader {
    policy: ReadPolicy,
    epoch: Instant,
    /// Index of the tick of `budget`.
    tick: u128,
    /// Bytes that may be read in this tick.
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

    /// So many bytes were read.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// When more may be read than at `now`, if nothing may.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let elapsed = now.saturating_duration_since(self.epoch);
        match self.policy {
            ReadPolicy::AtRate(_) => {
                let into = elapsed.as_nanos() % TICK.as_nanos();
                // Less than 10 ms.
                now + TICK.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or(0)))
            }
            ReadPolicy::Stalled { from, length } => self.epoch + from + length,
        }
    }
}
