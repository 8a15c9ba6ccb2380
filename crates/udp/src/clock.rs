//! The only place of the libraries that reads the time.

use std::time::{Duration, Instant, SystemTime};

/// Reads the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the time since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns how long this host was suspended since its start: [`now`] stood still then (on Linux).
pub fn suspended() -> Duration {
    // A thread that is interrupted between the readings of two clocks sees too long a time.
    read_suspended().min(read_suspended()).min(read_suspended())
}

/// Returns [`suspended`] if it is `least` or more. Reads two clocks if it is not.
pub fn suspended_at_least(least: Duration) -> Option<Duration> {
    (read_suspended() >= least).then(suspended).filter(|time| *time >= least)
}

#[cfg(target_os = "linux")]
fn read_suspended() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    let monotonic = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(monotonic)
}

#[cfg(not(target_os = "linux"))]
fn read_suspended() -> Duration {
    Duration::ZERO
}

/// Sleeps until `time`. For measurements: all other waits are on a poller, which a datagram ends.
#[expect(clippy::disallowed_methods, reason = "real time is the schedule, and no datagram ends the wait")]
pub fn sleep_until(time: Instant) {
    std::thread::sleep(time.saturating_duration_since(now()));
}

/// Returns the seconds since 1970.
pub fn unix_time_s() -> u64 {
    unix_time().as_secs()
}

/// Monotonic and system clock, read together once for all messages of a receive call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    now: Instant,
    /// System time since 1970: the kernel stamps messages with this clock.
    system: Duration,
}

impl Reading {
    pub(crate) fn take() -> Self {
        Self { now: now(), system: unix_time() }
    }

    /// Returns the arrival time of a message with the kernel's timestamp `stamp`. Returns the time
    /// of the reading if there is none, or if the system clock was set since the message arrived.
    pub(crate) fn arrival(&self, stamp: Option<Duration>) -> Instant {
        /// Longest plausible stay of a message in the socket's receive buffer. An older timestamp
        /// shows that the system clock was set.
        const MAX_AGE: Duration = Duration::from_secs(10);
        match stamp.and_then(|stamp| self.system.checked_sub(stamp)) {
            Some(age) if age <= MAX_AGE => self.now.checked_sub(age).unwrap_or(self.now),
            _ => self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implausible_timestamp_falls_back_to_reading_time() {
        let reading = Reading { now: now(), system: Duration::from_secs(1_000_000) };
        let at = |seconds| reading.arrival(Some(Duration::from_secs(seconds)));
        assert_eq!(reading.now - at(999_998), Duration::from_secs(2));
        for nonsense in [at(1_000_001), at(0), reading.arrival(None)] {
            assert_eq!(nonsense, reading.now);
        }
    }
}
