//! Why the sender waited, and for how long: the honest source of "application-limited". Owns the clock of it.

use std::time::{Duration, Instant};

/// What stops new data from leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The congestion window is full.
    Cwnd,
    /// The receiver's window is full.
    PeerWindow,
    /// The pace allows the next packet at this time.
    Pacing(Instant),
    /// The application has written nothing.
    NoData,
}

impl Blocked {
    fn index(self) -> usize {
        match self {
            Self::Cwnd => 0,
            Self::PeerWindow => 1,
            Self::Pacing(_) => 2,
            Self::NoData => 3,
        }
    }
}

/// For how long each reason held the sender up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// The congestion window.
    pub cwnd: Duration,
    /// The receiver's window.
    pub peer_window: Duration,
    /// Pacing.
    pub pacing: Duration,
    /// The application.
    pub application: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    since: Option<(Blocked, Instant)>,
    total: [Duration; 4],
}

impl Waiting {
    /// Nothing leaves from now on, because of this.
    pub(crate) fn stop(&mut self, now: Instant, why: Blocked) {
        if let Some((before, since)) = self.since {
            self.total[before.index()] += now.saturating_duration_since(since);
        }
        self.since = Some((why, now));
    }

    /// Something left.
    pub(crate) fn go(&mut self, now: Instant) {
        if let Some((before, since)) = self.since.take() {
            self.total[before.index()] += now.saturating_duration_since(since);
        }
    }

    /// Why nothing leaves.
    pub(crate) fn reason(&self) -> Option<Blocked> {
        self.since.map(|(why, _)| why)
    }

    /// When the pace allows the next packet, if that is what is waited for.
    pub(crate) fn paced_until(&self) -> Option<Instant> {
        match self.since {
            Some((Blocked::Pacing(until), _)) => Some(until),
            _ => None,
        }
    }

    pub(crate) fn times(&self) -> Waited {
        let [cwnd, peer_window, pacing, application] = self.total;
        Waited { cwnd, peer_window, pacing, application }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_gets_its_own_time() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let t0 = Instant::now();
        let at = |ms| t0 + Duration::from_millis(ms);
        let mut waiting = Waiting::default();
        waiting.stop(at(0), Blocked::NoData);
        waiting.stop(at(10), Blocked::Cwnd);
        waiting.stop(at(13), Blocked::Cwnd);
        waiting.go(at(20));
        waiting.stop(at(30), Blocked::Pacing(at(40)));
        assert_eq!(waiting.paced_until(), Some(at(40)));
        waiting.go(at(35));
        waiting.go(at(99));
        let times = waiting.times();
        assert_eq!(
            (times.application.as_millis(), times.cwnd.as_millis(), times.pacing.as_millis()),
            (10, 10, 5)
        );
        assert_eq!((times.peer_window, waiting.paced_until()), (Duration::ZERO, None));
    }
}
