//! Read policy of a receiving application: how much it may read and when. The node reads the data.

use std::time::Duration;

/// Interval between two reads of an application with [`ReadPolicy::AtRate`].
const TICK: Duration = Duration::from_millis(10);

/// Restriction on the reading of an application. Times count from the start of virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPolicy {
    /// Reads at most this number of bytes per second: a hundredth of it in each interval of 10 ms.
    /// Bytes not read in an interval are not added to the next.
    AtRate(u64),
    /// Reads nothing during a stall, and everything immediately before and after it.
    Stalled {
        /// Start of the stall, since the start of virtual time.
        from: Duration,
        /// Length of the stall.
        length: Duration,
    },
}

/// Policy with what it still allows. Times are virtual.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    policy: ReadPolicy,
    /// Interval of 10 ms to which `budget` applies, counted from the start.
    tick: u128,
    /// Bytes that the application may still read in interval `tick`.
    budget: u64,
}

impl Reader {
    pub(crate) fn new(policy: ReadPolicy) -> Self {
        Self { policy, tick: u128::MAX, budget: 0 }
    }

    pub(crate) fn budget(&mut self, now: Duration) -> u64 {
        match self.policy {
            ReadPolicy::AtRate(rate) => {
                let tick = now.as_nanos() / TICK.as_nanos();
                if tick != self.tick {
                    self.tick = tick;
                    self.budget = rate / 100;
                }
                self.budget
            }
            ReadPolicy::Stalled { from, length } => {
                if (from..from + length).contains(&now) {
                    0
                } else {
                    u64::MAX
                }
            }
        }
    }

    /// Subtracts bytes that the application has read from the budget.
    pub(crate) fn read(&mut self, bytes: u64) {
        self.budget = self.budget.saturating_sub(bytes);
    }

    /// Returns when the application may read again, if it may not read at `now`.
    pub(crate) fn next(&self, now: Duration) -> Duration {
        match self.policy {
            ReadPolicy::AtRate(_) => {
                let into = now.as_nanos() % TICK.as_nanos();
                // The remainder is below 10 ms, so the conversion cannot fail.
                now + TICK.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or(0)))
            }
            ReadPolicy::Stalled { from, length } => from + length,
        }
    }
}
