//! The only reading of the time in the project's libraries.

use std::time::{Duration, Instant, SystemTime};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Both clocks, read together, once for all messages of one read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    now: Instant,
    /// Time since 1970 by the system's clock, which the kernel stamps datagrams with.
    system: Duration,
}

impl Reading {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub(crate) fn take() -> Self {
        let system = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { now: now(), system }
    }

    /// When a datagram with this stamp arrived; when it was read, if there is no stamp or it makes no sense,
    /// because the system's clock was set in between.
    pub(crate) fn arrival(&self, stamp: Option<Duration>) -> Instant {
        /// A datagram that waited longer than this in the socket's buffer is an unlikely thing.
        const LONGEST: Duration = Duration::from_secs(10);
        match stamp.and_then(|stamp| self.system.checked_sub(stamp)) {
            Some(age) if age <= LONGEST => self.now.checked_sub(age).unwrap_or(self.now),
            _ => self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_gives_the_arrival_and_nonsense_gives_the_reading() {
        let reading = Reading { now: now(), system: Duration::from_secs(1_000_000) };
        let at = |seconds| reading.arrival(Some(Duration::from_secs(seconds)));
        assert_eq!(reading.now - at(999_998), Duration::from_secs(2));
        for nonsense in [at(1_000_001), at(0), reading.arrival(None)] {
            assert_eq!(nonsense, reading.now);
        }
    }
}
