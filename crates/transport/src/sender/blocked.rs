//! Time that the sender waits, by reason: congestion window, receive window, pacing, application,
//! and the last ACKs.
//! Decides when the sender is app-limited.

use std::time::{Duration, Instant};

/// Reason why the sender cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The congestion window is full.
    Cwnd,
    /// The receive window is full.
    PeerWindow,
    /// The pacer allows the next packet at this time.
    Pacing(Instant),
    /// The application has written nothing.
    NoData,
}

/// Time that the sender waited, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// Time waited for the congestion window.
    pub cwnd: Duration,
    /// Time waited for the receive window.
    pub peer_window: Duration,
    /// Time waited for the pacer.
    pub pacing: Duration,
    /// Time waited for the application to write.
    pub application: Duration,
    /// Time waited for the ACKs of the end of the stream, after all of it was sent.
    pub last_acks: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct BlockedTime {
    since: Option<(Blocked, Instant)>,
    /// Start of the wait for the last ACKs, once all of the stream is sent.
    ended: Option<Instant>,
    pub(crate) total: Waited,
    /// Bytes in flight when sending stopped.
    in_flight: u64,
    /// True if the application filled all the room at its last call: it would have written more.
    pub(super) filled_room: bool,
    /// Time at which all data of the last write had been sent.
    drained_at: Option<Instant>,
    /// True if the pacing deadline is void: the transfer is over, or the paced packet is not
    /// needed.
    unpaced: bool,
}

impl BlockedTime {
    /// Records whether the application filled all the room at its call.
    pub(crate) fn on_asked(&mut self, filled: bool) {
        self.filled_room = filled;
        self.drained_at = None;
    }

    /// Returns true if the sender is app-limited, now that all written data is sent. False within
    /// the instant in which the application filled all the room, because it has had no chance to
    /// write since.
    pub(crate) fn is_starved(&mut self, now: Instant) -> bool {
        !self.filled_room || *self.drained_at.get_or_insert(now) < now
    }

    /// Records that sending stops now for this reason, with `in_flight` bytes in flight.
    pub(crate) fn stop(&mut self, now: Instant, why: Blocked, in_flight: u64) {
        self.in_flight = in_flight;
        self.count(now);
        self.since = Some((why, now));
        self.unpaced = false;
    }

    /// Records that all of a finished stream is sent: until something is sent again, the sender
    /// waits for the last ACKs alone.
    pub(crate) fn end(&mut self, now: Instant) {
        if self.ended.is_none() {
            self.count(now);
            self.ended = Some(now);
        }
    }

    /// True if sending has stopped for this reason and, with pacing, the deadline is valid.
    pub(crate) fn is_stopped_for(&self, why: Blocked) -> bool {
        self.reason() == Some(why) && !self.unpaced
    }

    /// Cancels the pacing deadline until sending stops again.
    pub(crate) fn cancel_pace(&mut self) {
        self.unpaced = true;
    }

    /// Records that sending resumes.
    pub(crate) fn go(&mut self, now: Instant) {
        self.count(now);
        (self.since, self.ended) = (None, None);
    }

    /// Adds the time since the last call to the reason in force.
    pub(crate) fn count(&mut self, now: Instant) {
        let before = self.since.as_mut().map(|(why, since)| (*why, std::mem::replace(since, now)));
        if let Some(ended) = &mut self.ended {
            self.total.last_acks += now.saturating_duration_since(std::mem::replace(ended, now));
        } else if let Some((before, since)) = before {
            let (total, end) = match before {
                Blocked::Cwnd => (&mut self.total.cwnd, now),
                Blocked::PeerWindow => (&mut self.total.peer_window, now),
                // The pacer would have allowed the packet at `until`, so later time is not due to
                // pacing.
                Blocked::Pacing(until) => (&mut self.total.pacing, now.min(until)),
                Blocked::NoData => (&mut self.total.application, now),
            };
            *total += end.saturating_duration_since(since);
        }
    }

    /// Forgets the waits so far: those before the first data are of the handshake.
    pub(crate) fn forget(&mut self) {
        (self.since, self.ended) = (None, None);
        self.total = Waited::default();
    }

    /// Returns the reason to wait, if sending has stopped.
    pub(crate) fn reason(&self) -> Option<Blocked> {
        self.since.map(|(why, _)| why)
    }

    /// True if the sender is cwnd-limited, so that the window of `cwnd` bytes may grow (RFC 9438,
    /// section 5.8). If the pacing rate follows from the window or a configured limit (`own_pace`),
    /// every sender waits for the pacer; then half of the window must be in flight (RFC 7661,
    /// section 4.2: validated phase).
    pub(crate) fn used_cwnd(&self, cwnd: u64, own_pace: bool) -> bool {
        match self.reason() {
            Some(Blocked::Cwnd) => true,
            Some(Blocked::Pacing(_)) => !own_pace || self.in_flight >= cwnd / 2,
            _ => false,
        }
    }

    /// Returns the pacing deadline, if the sender waits for the pacer.
    pub(crate) fn paced_until(&self) -> Option<Instant> {
        match self.since {
            Some((Blocked::Pacing(until), _)) if !self.unpaced => Some(until),
            _ => None,
        }
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
        let times = waiting.total;
        assert_eq!(
            (times.application.as_millis(), times.cwnd.as_millis(), times.pacing.as_millis()),
            (10, 10, 7)
        );
        assert_eq!((times.peer_window, waiting.paced_until()), (Duration::ZERO, None));
        // The end of the stream is known before the wait for the application is over.
        waiting.stop(at(200), Blocked::NoData, 9);
        waiting.end(at(205));
        waiting.stop(at(207), Blocked::Cwnd, 9);
        waiting.end(at(207));
        waiting.count(at(230));
        let times = waiting.total;
        assert_eq!((times.application.as_millis(), times.last_acks.as_millis()), (15, 25));
    }
}
