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
use std::time::Instant;

use super::Listener;
use crate::cookie::Cookie;
use crate::stateless_limit::StatelessLimit;
use crate::wire::native::{CloseReason, Versions};
use crate::wire::{self, MAX_REPLY};

/// Largest number of queued replies to unconnected addresses.
const MAX_QUEUED: usize = 256;

/// Reply to an unconnected address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stateless {
    /// Asks for a SYN with this cookie.
    Retry(Cookie),
    /// Lists the versions that the socket takes.
    Versions(Versions),
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
    replies_dropped: u64,
    closes_dropped: u64,
    limit: StatelessLimit,
}

impl<P> StatelessReplies<P> {
    /// Returns empty queues, with room for a CLOSE to each of `peers` at once.
    pub(super) fn new(peers: usize) -> Self {
        Self {
            replies: VecDeque::new(),
            closes: VecDeque::new(),
            max_closes: peers,
            replies_dropped: 0,
            closes_dropped: 0,
            limit: StatelessLimit::default(),
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

    /// True if the queue has room for a reply to an unconnected address. Otherwise counts it as
    /// dropped.
    pub(super) fn reserve(&mut self) -> bool {
        let has_room = self.replies.len() < MAX_QUEUED;
        self.replies_dropped += u64::from(!has_room);
        has_room
    }

    /// Returns the limit under which replies to unconnected addresses leave.
    pub(super) fn limit(&mut self) -> &mut StatelessLimit {
        &mut self.limit
    }

    /// Returns the time at which the rate limit lets the next reply leave; `None` if no reply waits
    /// for it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.limit.deadline()
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
        if !self.limit.take(now, !self.replies.is_empty()) {
            return None;
        }
        self.replies.pop_front().map(|reply| encode(reply, out))
    }

    /// Like [`pop`](Self::pop), but only if enough replies to peers were sent since the last reply
    /// to an unconnected address.
    pub(super) fn pop_overdue(&mut self, now: Instant, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        if self.limit.is_overdue() { self.pop(now, out) } else { None }
    }
}

fn encode<P>((peer, connection_id, reply): (P, u64, Stateless), out: &mut [u8; MAX_REPLY]) -> (P, usize) {
    let len = match reply {
        Stateless::Retry(cookie) => wire::encode_retry(connection_id, &cookie, out),
        Stateless::Versions(versions) => wire::encode_versions(connection_id, versions, out),
        Stateless::Close(reason) => wire::encode_close(connection_id, reason, out),
        Stateless::Reset(packet_number) => wire::encode_no_connection(connection_id, packet_number, out),
    };
    (peer, len)
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
