//! Limits of datagrams to addresses without a connection: floods from such addresses cost the
//! connected peers little, and a busy peer starves no new one.

use std::time::{Duration, Instant};

/// Replies to peers between two replies to unconnected addresses.
const PEER_REPLIES_PER_STATELESS: u32 = 16;
/// Average interval of replies to unconnected addresses while peers send data: 10,000 a second.
/// Each costs a cookie and a system call, 4 to 15 us.
const BUSY_INTERVAL: Duration = Duration::from_micros(100);
/// Burst of such replies.
const BUSY_BURST: u32 = 32;
/// Time after the newest data, or the newest drop at the socket's full buffer, for which replies
/// are limited. Longer than a full buffer of 50,000 SYNs delays data, 3 s on a busy host: otherwise
/// the limit would end before the next data, and the buffer would stay full.
const BUSY_TIME: Duration = Duration::from_secs(5);
/// Average interval of stateless resets: 1000 a second, as for ICMP errors, or 0.4 Mbit/s.
const RESET_INTERVAL: Duration = Duration::from_millis(1);
/// Burst of stateless resets. Retransmission timers of transfers that ended together fire together.
/// With 4096 peers, the default limit, all senders are reset within 4 s.
const RESET_BURST: u32 = 1000;

/// Average interval of AUTH packets that are read although the one before was changed, so that the
/// handshake is computed again: 100 a second, 2 % of a core.
const REBUILD_INTERVAL: Duration = Duration::from_millis(10);
/// Burst of such packets.
const REBUILD_BURST: u32 = 32;

/// Average interval of handshakes with unproved addresses, and of those that begin while the table
/// of half-open connections is full: 4000 a second of each. Each costs about 0.12 ms, half a core
/// in all. In a table of 1024, a client has a quarter of a second to complete one.
const HANDSHAKE_INTERVAL: Duration = Duration::from_micros(250);
/// Burst of such handshakes.
const HANDSHAKE_BURST: u32 = 400;
/// What remains of a limit of handshakes while peers send data: 500 a second, 6 % of a core.
const BUSY_SHARE: u32 = 8;

/// Schedule of datagrams to unconnected addresses, among those to connected peers.
#[derive(Debug)]
pub(super) struct StatelessLimit {
    /// Replies to peers since the last one to an unconnected address.
    peer_replies: u32,
    /// Arrival of the newest data of any peer, or report of the newest drop at the socket's buffer.
    busy_at: Option<Instant>,
    /// True if drops were reported since a reply was last due.
    overflowed: bool,
    /// Limit while peers send data, or the socket's buffer is full.
    busy: RateLimiter,
    /// Time until which `busy` holds the queue back.
    wait_until: Option<Instant>,
}

impl Default for StatelessLimit {
    fn default() -> Self {
        let busy = RateLimiter::new(BUSY_INTERVAL, BUSY_BURST);
        Self { peer_replies: 0, busy_at: None, overflowed: false, busy, wait_until: None }
    }
}

impl StatelessLimit {
    /// Notes that data of a peer arrived: replies to unconnected addresses are limited for a while.
    pub(super) fn on_data(&mut self, now: Instant) {
        self.busy_at = Some(now);
    }

    /// Notes that the socket's full buffer dropped messages: this host cannot answer all of them.
    pub(super) fn on_overflow(&mut self) {
        self.overflowed = true;
    }

    /// True if data of a peer, or a drop at the socket's full buffer, is recent.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.busy_at.is_some_and(|at| now.saturating_duration_since(at) < BUSY_TIME)
    }

    pub(super) fn on_peer_reply(&mut self) {
        self.peer_replies = self.peer_replies.saturating_add(1);
    }

    /// True if enough replies to peers were sent since the last one to an unconnected address.
    pub(super) fn is_overdue(&self) -> bool {
        self.peer_replies >= PEER_REPLIES_PER_STATELESS
    }

    /// Returns the time at which the rate limit lets the next reply leave, if one waits for it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.wait_until
    }

    /// True if a reply to an unconnected address `is_queued` and may leave now. It counts as sent.
    pub(super) fn take(&mut self, now: Instant, is_queued: bool) -> bool {
        self.wait_until = None;
        if !is_queued {
            return false;
        }
        if std::mem::take(&mut self.overflowed) {
            self.busy_at = Some(now);
        }
        let granted = !self.is_busy(now) || self.busy.take(now);
        if granted {
            self.peer_replies = 0;
        } else {
            self.wait_until = self.busy.next_at();
        }
        granted
    }
}

/// Rate limit: a token bucket kept as a time.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// Time in which one token is added.
    interval: Duration,
    /// Time in which a full bucket is filled.
    fill_time: Duration,
    /// Time at which the bucket will be full again. `None` before the first token was taken.
    full_at: Option<Instant>,
}

impl RateLimiter {
    /// Returns a full bucket of `burst` tokens, to which one is added in each `interval`.
    fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, fill_time: interval * burst, full_at: None }
    }

    pub(super) fn of_resets() -> Self {
        Self::new(RESET_INTERVAL, RESET_BURST)
    }

    pub(super) fn of_rebuilds() -> Self {
        Self::new(REBUILD_INTERVAL, REBUILD_BURST)
    }

    /// Returns the time of the next token; `None` before the first was taken.
    fn next_at(&self) -> Option<Instant> {
        self.full_at.and_then(|at| (at + self.interval).checked_sub(self.fill_time))
    }

    /// Takes one token; false if none is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.interval;
        let granted = full_at <= now + self.fill_time;
        if granted {
            self.full_at = Some(full_at);
        }
        granted
    }
}

/// Rate limit of handshakes, which is lower while peers send data.
#[derive(Debug)]
pub(super) struct LoadLimiter {
    idle: RateLimiter,
    busy: RateLimiter,
}

impl LoadLimiter {
    /// Returns the limit of handshakes with unproved addresses, and of those
    /// that begin while the table of half-open connections is full.
    pub(super) fn of_handshakes() -> Self {
        let busy = RateLimiter::new(HANDSHAKE_INTERVAL * BUSY_SHARE, HANDSHAKE_BURST / BUSY_SHARE);
        Self { idle: RateLimiter::new(HANDSHAKE_INTERVAL, HANDSHAKE_BURST), busy }
    }

    pub(super) fn take(&mut self, now: Instant, is_busy: bool) -> bool {
        if is_busy { self.busy.take(now) } else { self.idle.take(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_start_with_a_burst_then_keep_rate() {
        let epoch = rdt_testing::epoch();
        let granted = |limiter: &mut RateLimiter, at: u64| {
            let now = epoch + Duration::from_millis(at);
            (0..10_000).filter(|_| limiter.take(now)).count()
        };
        let mut limiter = RateLimiter::of_resets();
        assert_eq!(granted(&mut limiter, 0), 1000);
        assert_eq!(granted(&mut limiter, 0), 0);
        assert_eq!(granted(&mut limiter, 20), 20);
        let in_one_second: usize = (1..=100).map(|n| granted(&mut limiter, 20 + 10 * n)).sum();
        assert_eq!(in_one_second, 1000);
        assert_eq!(granted(&mut limiter, 100_000), 1000, "unused allowance does not add up");
    }
}
