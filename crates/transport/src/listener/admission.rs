//! Admission of peers: native ones must prove their address with a cookie, and there must be room.
//! Classic ones, which have no proof, are half-open at first. No state is kept for an address that
//! is not admitted.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::time::Instant;

use super::Listener;
use super::entry::{Entry, PeerState};
use super::stateless::Stateless;
use crate::cookie::CookieKey;
use crate::receiver::Receiver;
use crate::wire::Open;
use crate::wire::native::CloseReason;

/// Limit on the peers searched for a finished one, which is removed to make room for a new one.
const MAX_SEARCHED: usize = 64;

/// Result of admitting the sender of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Admitted with a new receiver, connected or half-open.
    New,
    /// Admitted: the peer has a receiver already.
    Known,
    /// Refused: there is no room.
    Refused,
    /// Not admitted: the peer must prove its address first.
    Unproven,
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Admits `peer`, which sent a valid SYN, if its address is proved and there is room.
    pub fn admit(&mut self, now: Instant, peer: P, open: &Open<'_>) -> Admission {
        if let Some(entry) = self.peers.get_mut(&peer)
            && entry.wire == open.wire
        {
            return Admission::Known;
        }
        // A SYN that needs no cookie can be forged; it must not end a transfer whose address is
        // proved.
        let proven = |entry: &Entry| entry.wire.connection_id().is_some() && entry.receiver.is_unfinished();
        if open.wire.connection_id().is_none() && self.peers.get(&peer).is_some_and(proven) {
            self.stats.refused += 1;
            return Admission::Refused;
        }
        if !self.is_proven(now, peer, open) {
            return Admission::Unproven;
        }
        if open.wire.connection_id().is_some_and(|id| self.ends.contains(now, id)) {
            // A replay, or a copy of the SYN that arrives after the transfer.
            self.stats.replayed += 1;
            return Admission::Refused;
        }
        if self.is_half_open(peer) {
            // A native sender at this address replaces the half-open classic one.
            self.close(peer);
        }
        if let Some(entry) = self.peers.get_mut(&peer) {
            let earlier = entry.receiver.connection_id();
            entry.wire = open.wire;
            if entry.state == PeerState::Unproved && open.wire.connection_id().is_some() {
                entry.state = PeerState::Proved;
                self.unproved -= 1;
            }
            self.remember_end(now, earlier);
            return Admission::Known;
        }
        let proved = open.wire.connection_id().is_some() || self.config.receiver.faithful;
        let state = if proved { PeerState::Proved } else { PeerState::HalfOpen };
        self.make_slot(now, &peer, state);
        if !self.has_slot(&peer, state) || !proved && !self.half_open.has_room_for(&peer) {
            self.stats.refused += 1;
            if let Some(connection_id) = open.wire.connection_id() {
                self.stateless.push(peer, connection_id, Stateless::Close(CloseReason::Refused));
            }
            return Admission::Refused;
        }
        self.add(now, peer, open, state);
        Admission::New
    }

    /// Adds a peer with a receiver.
    fn add(&mut self, now: Instant, peer: P, open: &Open<'_>, state: PeerState) {
        let mut receiver = Receiver::new(self.config.receiver);
        receiver.set_idle(self.config.native_idle);
        let idle_at = now + self.idle_limit(open.wire);
        let entry = Entry {
            receiver,
            wire: open.wire,
            state,
            on_probation: state == PeerState::HalfOpen,
            last_active: now,
            idle_at,
            queued: false,
            ack_timer: None,
            memory: 0,
            is_open: false,
            claim: None,
        };
        if state == PeerState::HalfOpen {
            self.make_room_for_half_open();
            self.half_open.insert(idle_at, peer);
            self.peers.insert(peer, entry);
        } else {
            self.idle.insert((idle_at, peer));
            self.peers.insert(peer, entry);
            self.count_admitted(peer);
        }
        self.set_deadline();
    }

    /// Removes a finished peer if there is no slot for `newcomer`.
    pub(super) fn make_slot(&mut self, now: Instant, newcomer: &P, state: PeerState) {
        if !self.has_slot(newcomer, state) {
            self.remove_finished(now, newcomer);
        }
    }

    /// Removes one peer that has finished and was silent for the classic idle timeout, if there is
    /// one among those that expire first. Its sender most likely has the FIN-ACK and is gone. If
    /// the source of `newcomer` is at its limit, the peer must be of the same source.
    fn remove_finished(&mut self, now: Instant, newcomer: &P) {
        let any_source = self.source_has_slot(newcomer);
        let silent = |entry: &Entry| {
            let idle = now.saturating_duration_since(entry.last_active);
            !entry.is_unfinished() && idle >= self.config.idle
        };
        let mut oldest = self.idle.iter().map(|(_, peer)| *peer).take(MAX_SEARCHED);
        let found = oldest.find(|peer| {
            (any_source || self.sources.are_same(peer, newcomer)) && self.peers.get(peer).is_some_and(silent)
        });
        if let Some(peer) = found {
            self.close(peer);
        }
    }

    /// Remembers a connection that ended, so that a replay of its SYN opens no other one.
    pub(super) fn remember_end(&mut self, last_active: Instant, connection_id: Option<u64>) {
        let Some(connection_id) = connection_id else { return };
        if !self.ends.insert(last_active, connection_id) {
            // No cookie may outlive the memory of its connection, so all become invalid.
            self.cookies_aged_s += 2 * CookieKey::SLOT_S;
        }
    }

    /// True if the SYN carries a valid cookie or its format has none (classic). Otherwise replies
    /// with a cookie.
    fn is_proven(&mut self, now: Instant, peer: P, open: &Open<'_>) -> bool {
        let Some(connection_id) = open.wire.connection_id() else { return true };
        let epoch = *self.cookie_epoch.get_or_insert(now);
        let Some(key) = &self.cookies else {
            self.stats.refused += 1;
            return false;
        };
        let now_s = now.saturating_duration_since(epoch).as_secs() + self.cookies_aged_s;
        if open.cookie.is_none() && !self.stateless.reserve() {
            return false;
        }
        self.address.0.clear();
        peer.hash(&mut self.address);
        let address = &self.address.0;
        if let Some(cookie) = open.cookie {
            if key.verify(&cookie, now_s, address, connection_id) {
                return true;
            }
            if !self.stateless.reserve() {
                return false;
            }
        }
        let retry = Stateless::Retry(key.issue(now_s, address, connection_id));
        self.stats.retries += u64::from(self.stateless.push(peer, connection_id, retry));
        false
    }
}

/// Hasher that collects the bytes of a peer's key, for its cookie.
#[derive(Debug, Default)]
pub(crate) struct Address(pub(crate) Vec<u8>);

impl Hasher for Address {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns 0: the hash value is not used.
    fn finish(&self) -> u64 {
        0
    }
}
