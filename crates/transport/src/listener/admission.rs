//! Who may become a peer: has proved its address where its format can, and finds room. Nothing is kept of anybody else.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::time::Instant;

use super::stateless::Notice;
use super::{Entry, Listener};
use crate::wire::Open;
use crate::wire::native::CloseReason;
use crate::{Receiver, ReceiverEvent};

/// Peers that are looked at to find a finished one when there is no room for a new one.
const MAX_SEARCHED: usize = 64;

/// What to do with a SYN of a new peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The peer has a receiver now, and had none before.
    New,
    /// The peer had one.
    Known,
    /// There is no room.
    Refused,
    /// The peer is asked to prove its address first.
    Unproven,
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Makes room for `peer`, which sent a valid SYN.
    pub fn admit(&mut self, now: Instant, peer: P, open: &Open) -> Admission {
        if let Some(entry) = self.peers.get_mut(&peer)
            && entry.wire == open.wire
        {
            return Admission::Known;
        }
        // Anybody can forge a SYN that needs no cookie; it must not end a transfer that did.
        let proven = |entry: &Entry| entry.wire.connection_id().is_some() && entry.receiver.is_unfinished();
        if open.wire.connection_id().is_none() && self.peers.get(&peer).is_some_and(proven) {
            self.stats.refused += 1;
            return Admission::Refused;
        }
        if !self.is_proven(now, peer, open) {
            return Admission::Unproven;
        }
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.wire = open.wire;
            return Admission::Known;
        }
        if self.peers.len() >= self.config.max_peers {
            self.forget_finished(now);
        }
        if self.peers.len() >= self.config.max_peers {
            self.stats.refused += 1;
            if let Some(connection_id) = open.wire.connection_id() {
                self.notices.answer(peer, connection_id, Notice::Close(CloseReason::Refused));
            }
            return Admission::Refused;
        }
        let mut receiver = Receiver::new(self.config.receiver);
        receiver.set_idle(self.config.native_idle);
        let idle_at = now + self.idle_limit(open.wire);
        let entry = Entry {
            receiver,
            wire: open.wire,
            last_active: now,
            idle_at,
            queued: false,
            timer: None,
            memory: 0,
            claim: None,
        };
        self.peers.insert(peer, entry);
        self.idle.insert((idle_at, peer));
        self.set_deadline();
        self.stats.admitted += 1;
        self.stats.max_active = self.stats.max_active.max(self.peers.len());
        self.events.push_back((peer, ReceiverEvent::Connected));
        Admission::New
    }

    /// Forgets one of the peers that were admitted first which has finished and was silent for as long as peers without
    /// a proof of address are remembered. Senders that were answered are gone, and are many more than those that were not.
    fn forget_finished(&mut self, now: Instant) {
        let silent =
            |entry: &Entry| !entry.receiver.is_unfinished() && entry.last_active + self.config.idle <= now;
        let mut oldest = self.idle.iter().map(|(_, peer)| *peer).take(MAX_SEARCHED);
        let found = oldest.find(|peer| self.peers.get(peer).is_some_and(silent));
        if let Some(peer) = found {
            self.close(peer);
        }
    }

    /// True if the SYN shows a cookie of ours, where its wire knows them; else the peer is asked for it, and
    /// nothing is kept of it.
    fn is_proven(&mut self, now: Instant, peer: P, open: &Open) -> bool {
        let Some(connection_id) = open.wire.connection_id() else { return true };
        let epoch = *self.epoch.get_or_insert(now);
        let Some(jar) = &self.jar else {
            self.stats.refused += 1;
            return false;
        };
        let now_s = now.saturating_duration_since(epoch).as_secs();
        let mut address = Address::default();
        peer.hash(&mut address);
        if open.cookie.is_some_and(|cookie| jar.check(&cookie, now_s, &address.0, connection_id)) {
            return true;
        }
        let retry = Notice::Retry(jar.mint(now_s, &address.0, connection_id));
        self.stats.retries += u64::from(self.notices.answer(peer, connection_id, retry));
        false
    }
}

/// The bytes of a peer's key, for its cookie.
#[derive(Default)]
struct Address(Vec<u8>);

impl Hasher for Address {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Nobody wants a number of it.
    fn finish(&self) -> u64 {
        0
    }
}
