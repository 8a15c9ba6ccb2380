//! Keep-alive: a packet that the receiver answers and does not deliver, sent while the application
//! has nothing to send, so that the receiver does not forget the transfer.

use std::time::{Duration, Instant};

/// Longest idle time before a keep-alive. The course's receiver forgets its peers after 25 s of
/// silence.
const INTERVAL: Duration = Duration::from_secs(10);

/// Timer of the next keep-alive.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeepAlive {
    at: Option<Instant>,
    due: bool,
}

impl KeepAlive {
    /// When the timer fires.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// A keep-alive is to leave.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Restarts the timer if the transfer is `idle`, else stops it. The receiver waits for
    /// `idle_timeout`, if it said so: three keep-alives fit in.
    pub(super) fn restart(
        &mut self,
        now: Instant,
        idle: bool,
        idle_timeout: impl FnOnce() -> Option<Duration>,
    ) {
        let interval = || idle_timeout().map_or(INTERVAL, |timeout| INTERVAL.min(timeout / 3));
        self.at = idle.then(|| now + interval());
    }

    /// Stops the timer.
    pub(super) fn stop(&mut self) {
        self.at = None;
    }

    /// Data leaves: neither timer nor keep-alive is needed.
    pub(super) fn cancel(&mut self) {
        *self = Self::default();
    }

    /// The timer may be due; only an `open` transfer sends a keep-alive then.
    pub(super) fn expire(&mut self, now: Instant, open: bool) {
        if self.at.is_some_and(|at| at <= now) {
            self.at = None;
            self.due = open;
        }
    }

    /// A keep-alive left.
    pub(super) fn on_sent(&mut self, now: Instant, idle_timeout: Option<Duration>) {
        self.due = false;
        self.restart(now, true, || idle_timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_third_of_short_idle_timeout() {
        let now = rdt_testing::epoch();
        let secs = Duration::from_secs;
        let mut timer = KeepAlive::default();
        for (idle_timeout, interval) in [(None, 10), (Some(3), 1), (Some(60), 10)] {
            timer.restart(now, true, || idle_timeout.map(secs));
            assert_eq!(timer.deadline(), Some(now + secs(interval)));
            timer.expire(now + secs(interval), true);
            assert!(timer.is_due() && timer.deadline().is_none());
            timer.cancel();
        }
    }
}
