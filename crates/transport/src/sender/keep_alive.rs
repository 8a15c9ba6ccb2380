//! Keep-alive: a packet without data that the receiver acknowledges, sent while the application
//! pauses, so that the receiver's idle timeout does not end the transfer.

use std::time::{Duration, Instant};

/// Longest pause before a keep-alive. The reference receiver has an idle timeout of 25 s.
const INTERVAL: Duration = Duration::from_secs(10);

/// Timer of the next keep-alive.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeepAlive {
    pub(super) at: Option<Instant>,
    /// True if a keep-alive is to be sent.
    pub(super) due: bool,
}

impl KeepAlive {
    /// Restarts the timer if the transfer is `idle`, else stops it. `idle_timeout` is the
    /// receiver's, if known: three keep-alives fit into it.
    pub(super) fn restart(
        &mut self,
        now: Instant,
        idle: bool,
        idle_timeout: impl FnOnce() -> Option<Duration>,
    ) {
        let interval = || idle_timeout().map_or(INTERVAL, |timeout| INTERVAL.min(timeout / 3));
        self.at = idle.then(|| now + interval());
    }

    /// Cancels timer and keep-alive: data or a FIN is sent, or the transfer ended.
    pub(super) fn cancel(&mut self) {
        *self = Self::default();
    }

    /// Handles the timer if it is due. Only an `open` transfer sends a keep-alive.
    pub(super) fn expire(&mut self, now: Instant, open: bool) {
        if self.at.is_some_and(|at| at <= now) {
            self.at = None;
            self.due = open;
        }
    }

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
            assert_eq!(timer.at, Some(now + secs(interval)));
            timer.expire(now + secs(interval), true);
            assert!(timer.due && timer.at.is_none());
            timer.cancel();
        }
    }
}
