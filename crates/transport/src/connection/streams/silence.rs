//! Silence of the peer: the time after which the connection has ended, and that after which a side
//! that sends no keep-alives probes the path.

use std::time::{Duration, Instant};

/// Upper limit of [`Silence::quiet_time`]. Longer than the peer's keep-alive interval of 10 s.
const MAX_QUIET_TIME: Duration = Duration::from_secs(12);

/// Time since the peer was heard.
#[derive(Debug)]
pub(super) struct Silence {
    /// Time without a packet of the peer after which the connection has ended.
    idle_timeout: Duration,
    /// Time without a packet of the peer after which a side without keep-alives probes the path.
    quiet_time: Duration,
    /// Arrival of the newest authentic packet; at first, the end of the handshake.
    pub(super) heard_at: Instant,
    /// Time of the last path probe because of silence; at first, the end of the handshake.
    probed_at: Instant,
}

impl Silence {
    /// `of_peer` is the idle timeout of the peer, if it named one.
    pub(super) fn new(now: Instant, idle_timeout: Duration, of_peer: Option<Duration>) -> Self {
        let quiet_time = of_peer.unwrap_or(idle_timeout).min(idle_timeout) * 2 / 5;
        Self { idle_timeout, quiet_time: quiet_time.min(MAX_QUIET_TIME), heard_at: now, probed_at: now }
    }

    /// Counts from `now` on, because the handshake was repeated.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.heard_at, self.probed_at) = (now, now);
    }

    pub(super) fn on_packet(&mut self, now: Instant) {
        self.heard_at = now;
    }

    pub(super) fn on_probe(&mut self, now: Instant) {
        self.probed_at = now;
    }

    /// Returns the time at which the connection has ended.
    pub(super) fn deadline(&self) -> Instant {
        self.heard_at + self.idle_timeout
    }

    /// Returns the time of the next probe because of silence.
    pub(super) fn probe_deadline(&self) -> Instant {
        self.heard_at.max(self.probed_at) + self.quiet_time
    }
}
