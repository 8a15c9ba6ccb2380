//! Why the sender waited, and for how long: the honest source of "application-limited". Owns the
//! clock of it.

use std::time::{Duration, Instant};

/// Reason why new data does not leave.
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
pub(crate) struct BlockedTime {
    since: Option<(Blocked, Instant)>,
    total: [Duration; 4],
    /// Bytes in flight when the last of it left.
    in_flight: u64,
    /// The application filled all the room that there was when it was asked last.
    has_more: bool,
    /// When what it wrote then ran out.
    ran_out: Option<Instant>,
    /// Nothing waits for the pace: the transfer is over, or what was paced is void.
    unpaced: bool,
}

impl BlockedTime {
    /// The application was asked for data, and it did or did not fill the room that there was.
    pub(crate) fn on_asked(&mut self, filled: bool) {
        self.has_more = filled;
        self.ran_out = None;
    }

    /// The application would have written more, had there been room.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// All that was written has left; true if the application is to blame. It is not if it filled
    /// the room that there was and was not asked since: time passes while what it wrote is sent,
    /// and then it is asked again. One that is not asked has nothing.
    pub(crate) fn is_starved(&mut self, now: Instant) -> bool {
        !self.has_more || *self.ran_out.get_or_insert(now) < now
    }

    /// Sending stops now for this reason, with `in_flight` bytes in flight.
    pub(crate) fn stop(&mut self, now: Instant, why: Blocked, in_flight: u64) {
        self.in_flight = in_flight;
        self.go(now);
        self.since = Some((why, now));
        self.unpaced = false;
    }

    /// True if sending has stopped for this reason, and its timer is set if it has one.
    pub(crate) fn is_stopped_for(&self, why: Blocked) -> bool {
        self.reason() == Some(why) && !self.unpaced
    }

    /// The pace sets no timer until sending stops for it again.
    pub(crate) fn cancel_pace(&mut self) {
        self.unpaced = true;
    }

    /// Something left.
    pub(crate) fn go(&mut self, now: Instant) {
        if let Some((before, since)) = self.since.take() {
            let end = match before {
                // From then on the packet might have left.
                Blocked::Pacing(until) => now.min(until),
                _ => now,
            };
            self.total[before.index()] += end.saturating_duration_since(since);
        }
    }

    /// Why nothing leaves.
    pub(crate) fn reason(&self) -> Option<Blocked> {
        self.since.map(|(why, _)| why)
    }

    /// The congestion window of `cwnd` bytes was used until nothing more left, so it may grow (RFC
    /// 9438, section 5.8). Behind a pace that is made of the window itself (`own_pace`) everybody
    /// waits, so there half of it must have been in flight (RFC 7661, section 4.2: the validated
    /// phase).
    pub(crate) fn used_cwnd(&self, cwnd: u64, own_pace: bool) -> bool {
        match self.reason() {
            Some(Blocked::Cwnd) => true,
            Some(Blocked::Pacing(_)) => !own_pace || self.in_flight >= cwnd / 2,
            _ => false,
        }
    }

    /// When the pace allows the next packet, if that is what is waited for.
    pub(crate) fn paced_until(&self) -> Option<Instant> {
        match self.since {
            Some((Blocked::Pacing(until), _)) if !self.unpaced => Some(until),
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
    use rdt_testing::epoch;

    #[test]
    fn paced_window_is_used_from_half_in_flight() {
        let (now, mut waiting) = (epoch(), BlockedTime::default());
        assert!(!waiting.used_cwnd(1000, true), "nothing was held up");
        for (why, in_flight, own_pace, used) in [
            (Blocked::Cwnd, 999, true, true),
            (Blocked::Pacing(now), 500, true, true),
            (Blocked::Pacing(now), 499, true, false),
            (Blocked::Pacing(now), 0, false, true),
            (Blocked::PeerWindow, 1000, true, false),
            (Blocked::NoData, 1000, true, false),
        ] {
            waiting.stop(now, why, in_flight);
            assert_eq!(waiting.used_cwnd(1000, own_pace), used, "{why:?} with {in_flight} bytes in flight");
        }
    }

    #[test]
    fn application_is_starved_only_if_not_asked_again() {
        let t0 = epoch();
        let at = |ms| t0 + Duration::from_millis(ms);
        let mut waiting = BlockedTime::default();
        assert!(waiting.is_starved(at(0)), "it wrote nothing");
        waiting.on_asked(true);
        assert!(!waiting.is_starved(at(1)) && !waiting.is_starved(at(1)), "however often it is looked at");
        waiting.on_asked(true);
        assert!(!waiting.is_starved(at(2)));
        assert!(waiting.is_starved(at(3)), "it was not asked meanwhile");
        waiting.on_asked(false);
        assert!(waiting.is_starved(at(3)));
    }

    #[test]
    fn each_reason_has_its_own_time() {
        let t0 = epoch();
        let at = |ms| t0 + Duration::from_millis(ms);
        let mut waiting = BlockedTime::default();
        waiting.stop(at(0), Blocked::NoData, 0);
        waiting.stop(at(10), Blocked::Cwnd, 0);
        waiting.stop(at(13), Blocked::Cwnd, 0);
        waiting.go(at(20));
        waiting.stop(at(30), Blocked::Pacing(at(40)), 0);
        assert_eq!(waiting.paced_until(), Some(at(40)));
        waiting.go(at(35));
        waiting.go(at(99));
        waiting.stop(at(100), Blocked::Pacing(at(102)), 0);
        waiting.go(at(150));
        let times = waiting.times();
        assert_eq!(
            (times.application.as_millis(), times.cwnd.as_millis(), times.pacing.as_millis()),
            (10, 10, 7)
        );
        assert_eq!((times.peer_window, waiting.paced_until()), (Duration::ZERO, None));
    }
}
