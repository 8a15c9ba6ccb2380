//! Replies without a receiver: cookies, version lists, refusals and stateless resets for
//! unconnected addresses, and CLOSEs to peers that were just removed.
//!
//! A stateless reset tells the sender of an unknown connection that the receiver restarted or timed
//! out, so the sender fails at once. Only a connection ID and an address that are both unknown are
//! reset: any other answer might reach a sender whose transfer goes on.
//!
//! Queues are bounded. An unconnected sender that gets no reply asks again; a removed peer does
//! not, so CLOSEs have a queue of their own.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::Listener;
use crate::cookie::Cookie;
use crate::wire::native::{CloseReason, Versions};
use crate::wire::{self, MAX_REPLY};

/// Largest number of queued replies to unconnected addresses.
const MAX_QUEUED: usize = 256;
/// Replies to peers between two replies to unconnected addresses: floods from such addresses cost
/// the peers little, and a busy peer starves no new one.
const PEER_REPLIES_PER_STATELESS: u32 = 16;
/// Average interval of replies to unconnected addresses while peers send data: 10,000 a second.
/// Each costs a cookie and a system call, some 4 us.
const BUSY_INTERVAL: Duration = Duration::from_micros(100);
/// Burst of such replies: 32.
const BUSY_BURST: Duration = Duration::from_micros(3200);
/// Time after the newest data for which peers count as sending.
const BUSY_TIME: Duration = Duration::from_millis(10);
/// Average interval of stateless resets: 1000 a second, as systems limit their ICMP errors, or 0.4
/// Mbit/s with headers.
const RESET_INTERVAL: Duration = Duration::from_millis(1);
/// Burst of stateless resets: 1000. Retransmission timers of transfers that ended together fire
/// together. With 4096 peers, the default limit, all senders are reset within 4 s.
const RESET_BURST: Duration = Duration::from_secs(1);

/// Reply to an unconnected address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stateless {
    /// Asks for a SYN with this cookie.
    Retry(Cookie),
    /// Lists the supported versions.
    Versions,
    /// Refuses the connection.
    Close(CloseReason),
    /// Resets an unknown connection, in answer to this packet number.
    Reset(u64),
}

/// Queues of stateless replies, each with its peer and connection ID.
#[derive(Debug)]
pub(super) struct StatelessReplies<P> {
    replies: VecDeque<(P, u64, Stateless)>,
    /// CLOSEs to peers that were just removed.
    closes: VecDeque<(P, u64, CloseReason)>,
    max_closes: usize,
    /// Replies to peers since the last one to an unconnected address.
    peer_replies: u32,
    replies_dropped: u64,
    closes_dropped: u64,
    /// Arrival of the newest data of any peer.
    data_at: Option<Instant>,
    /// Limit while peers send data.
    busy: RateLimiter,
    /// Time until which `busy` holds the queue back.
    wait_until: Option<Instant>,
}

impl<P> StatelessReplies<P> {
    /// Returns empty queues, with room for a CLOSE to each of `peers` at once.
    pub(super) fn new(peers: usize) -> Self {
        Self {
            replies: VecDeque::new(),
            closes: VecDeque::new(),
            max_closes: peers,
            peer_replies: 0,
            replies_dropped: 0,
            closes_dropped: 0,
            data_at: None,
            busy: RateLimiter::new(BUSY_INTERVAL, BUSY_BURST),
            wait_until: None,
        }
    }

    /// Returns the number of replies to unconnected addresses that found the queue full.
    pub(super) fn replies_dropped(&self) -> u64 {
        self.replies_dropped
    }

    /// Returns the number of CLOSEs that found the queue full.
    pub(super) fn closes_dropped(&self) -> u64 {
        self.closes_dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.closes.is_empty()
    }

    /// True if a reply to an unconnected address finds a place in the queue. Otherwise counts it as
    /// dropped.
    pub(super) fn reserve(&mut self) -> bool {
        let has_room = self.replies.len() < MAX_QUEUED;
        self.replies_dropped += u64::from(!has_room);
        has_room
    }

    /// Notes that data of a peer arrived: replies to unconnected addresses are limited for a while.
    pub(super) fn on_data(&mut self, now: Instant) {
        self.data_at = Some(now);
    }

    /// Returns the time at which the rate limit lets the next reply leave; `None` if no reply waits
    /// for it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.wait_until
    }

    /// True if there is a reply to an unconnected address, and the rate limit lets it leave now.
    fn may_leave(&mut self, now: Instant) -> bool {
        self.wait_until = None;
        if self.replies.is_empty() {
            return false;
        }
        let is_busy = self.data_at.is_some_and(|at| now.saturating_duration_since(at) < BUSY_TIME);
        let granted = !is_busy || self.busy.take(now);
        if !granted {
            self.wait_until = self.busy.next_at();
        }
        granted
    }

    /// Queues a reply to an unconnected address; false if the queue is full. A dropped reset is not
    /// counted, because no sender waits for one.
    pub(super) fn push(&mut self, peer: P, connection_id: u64, reply: Stateless) -> bool {
        let has_room = self.replies.len() < MAX_QUEUED;
        if has_room {
            self.replies.push_back((peer, connection_id, reply));
        } else if !matches!(reply, Stateless::Reset(_)) {
            self.replies_dropped += 1;
        }
        has_room
    }

    /// Makes the newest reply answer `packet_number`, if that reply is a reset of the same
    /// connection. Returns false otherwise.
    pub(super) fn renew_reset(&mut self, peer: &P, connection_id: u64, packet_number: u64) -> bool
    where
        P: PartialEq,
    {
        let Some((to, about, Stateless::Reset(answered))) = self.replies.back_mut() else { return false };
        let same = to == peer && *about == connection_id;
        if same {
            *answered = packet_number;
        }
        same
    }

    /// Queues a CLOSE to a peer that is being removed.
    pub(super) fn push_close(&mut self, peer: P, connection_id: u64, reason: CloseReason) {
        if self.closes.len() < self.max_closes {
            self.closes.push_back((peer, connection_id, reason));
        } else {
            self.closes_dropped += 1;
        }
    }

    /// Writes the next CLOSE to a removed peer; returns the peer and the length.
    pub(super) fn pop_close(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        let (peer, connection_id, reason) = self.closes.pop_front()?;
        Some(encode((peer, connection_id, Stateless::Close(reason)), out))
    }

    /// Writes the next reply to an unconnected address, if it may leave now; returns the address
    /// and the length.
    pub(super) fn pop(&mut self, now: Instant, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        if !self.may_leave(now) {
            return None;
        }
        let reply = self.replies.pop_front()?;
        self.peer_replies = 0;
        Some(encode(reply, out))
    }

    /// Like [`pop`](Self::pop), but only if enough replies to peers were sent since the last reply
    /// to an unconnected address.
    pub(super) fn pop_overdue(&mut self, now: Instant, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        if self.peer_replies < PEER_REPLIES_PER_STATELESS {
            return None;
        }
        self.pop(now, out)
    }

    pub(super) fn on_peer_reply(&mut self) {
        self.peer_replies = self.peer_replies.saturating_add(1);
    }
}

fn encode<P>((peer, connection_id, reply): (P, u64, Stateless), out: &mut [u8; MAX_REPLY]) -> (P, usize) {
    let len = match reply {
        Stateless::Retry(cookie) => wire::encode_retry(connection_id, &cookie, out),
        Stateless::Versions => wire::encode_versions(connection_id, Versions::OURS, out),
        Stateless::Close(reason) => wire::encode_close(connection_id, reason, out),
        Stateless::Reset(packet_number) => wire::encode_no_connection(connection_id, packet_number, out),
    };
    (peer, len)
}

/// Rate limit: a token bucket kept as a time.
#[derive(Debug)]
pub(super) struct RateLimiter {
    interval: Duration,
    burst: Duration,
    /// Time until which what was granted so far uses the average rate up.
    spent_until: Option<Instant>,
}

impl RateLimiter {
    fn new(interval: Duration, burst: Duration) -> Self {
        Self { interval, burst, spent_until: None }
    }

    /// Returns the limit of stateless resets.
    pub(super) fn of_resets() -> Self {
        Self::new(RESET_INTERVAL, RESET_BURST)
    }

    /// Returns the time from which one is granted; `None` before the first.
    fn next_at(&self) -> Option<Instant> {
        self.spent_until.and_then(|until| (until + self.interval).checked_sub(self.burst))
    }

    /// Uses one of the allowance; false if none is left now.
    fn take(&mut self, now: Instant) -> bool {
        let spent_until = self.spent_until.map_or(now, |until| until.max(now)) + self.interval;
        let granted = spent_until <= now + self.burst;
        if granted {
            self.spent_until = Some(spent_until);
        }
        granted
    }
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Queues a reset that answers `packet_number` of `connection_id` from `peer`, which has no
    /// receiver.
    pub(super) fn reset(&mut self, now: Instant, peer: P, connection_id: u64, packet_number: u64) {
        // Packets that arrive together get one reset.
        if self.stateless.renew_reset(&peer, connection_id, packet_number) || !self.resets.take(now) {
            return;
        }
        // A linear search, which the rate limit bounds.
        let elsewhere = self.peers.values().any(|entry| entry.wire.connection_id() == Some(connection_id));
        if !elsewhere && self.stateless.push(peer, connection_id, Stateless::Reset(packet_number)) {
            self.stats.resets += 1;
        }
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
