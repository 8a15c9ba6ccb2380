//! Whether to look again before sleeping: what all who wait for datagrams have in common.

use std::io;
use std::time::{Duration, Instant};

use crate::clock;

/// How long a waiter looks at its sockets again and again before it sleeps. Going to sleep and being woken costs
/// both sides about as much, and a batch of datagrams takes less. Measured: docs/PERFORMANCE.md, "Waiting".
pub(crate) const BUSY: Duration = Duration::from_micros(20);
/// Waits that sleep at once after looking was in vain: then the other side is slow, or shares this processor and
/// would get on if this side slept.
pub(crate) const SLEEPS: u32 = 16;

/// How one thread waits.
#[derive(Debug)]
pub struct BusyPoll {
    /// How long it is busy before it sleeps: nothing where another thread would have to wait for it.
    pub(crate) busy: Duration,
    /// Waits that are to sleep at once.
    pub(crate) sleeps: u32,
}

impl BusyPoll {
    /// Creates the policy of a thread.
    #[allow(clippy::new_without_default, reason = "reads the number of processors")]
    pub fn new() -> Self {
        let alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        Self { busy: if alone { Duration::ZERO } else { BUSY }, sleeps: 0 }
    }

    /// Calls `poll` until it says that something is there, and at last, `now` being the present, with the time that is
    /// left until `deadline`: then it may sleep.
    ///
    /// # Errors
    /// Those of `poll`.
    pub fn wait(
        &mut self,
        mut now: Instant,
        deadline: Option<Instant>,
        mut poll: impl FnMut(Option<Duration>) -> io::Result<bool>,
    ) -> io::Result<()> {
        if self.sleeps > 0 {
            self.sleeps -= 1;
        } else {
            let busy_until = deadline.map_or(now + self.busy, |until| until.min(now + self.busy));
            while now < busy_until {
                if poll(Some(Duration::ZERO))? {
                    return Ok(());
                }
                // Whoever shares this processor may be the one that is waited for.
                std::thread::yield_now();
                now = clock::now();
            }
            self.sleeps = SLEEPS;
        }
        poll(deadline.map(|until| until.saturating_duration_since(now))).map(drop)
    }
}
