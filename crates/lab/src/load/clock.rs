//! Time of a run: 0 is the start that all flows share.

use std::time::{Duration, Instant};

use rdt_udp::clock;

/// Clock of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    zero: Instant,
}

impl Clock {
    /// Starts a clock that reaches 0 after `lead`.
    pub(super) fn start(lead: Duration) -> Self {
        Self { zero: clock::now() + lead }
    }

    /// Returns the time since 0; 0 before.
    pub(super) fn now(self) -> Duration {
        self.at(clock::now())
    }

    /// Returns the time of `instant`; 0 before.
    pub(super) fn at(self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.zero)
    }

    /// Returns time 0 on the system's monotonic clock, which the path reports by. Time 0 is past.
    pub(super) fn monotonic_zero(self) -> Duration {
        let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::try_from(monotonic).unwrap_or_default().saturating_sub(self.now())
    }

    /// Returns the instant at `time`.
    pub(super) fn instant(self, time: Duration) -> Instant {
        self.zero + time
    }

    /// Sleeps until `time`.
    pub(super) fn sleep_until(self, time: Duration) {
        clock::sleep_until(self.zero + time);
    }
}
