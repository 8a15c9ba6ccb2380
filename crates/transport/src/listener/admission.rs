//! Admission of classic peers. They have no proof of address, so they are half-open at first, and
//! never take the last slots, which native connections need.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::Listener;
use super::entry::Entry;
use crate::receiver::Receiver;

/// Result of admitting the sender of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Admitted with a new receiver, connected or half-open.
    New,
    /// Admitted: the peer has a receiver already.
    Known,
    /// Refused: there is no room.
    Refused,
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Admits `peer`, which sent a valid SYN, if there is room.
    pub fn admit(&mut self, now: Instant, peer: P) -> Admission {
        if self.peers.get_mut(&peer).is_some() {
            return Admission::Known;
        }
        let is_half_open = !self.config.receiver.faithful;
        if !self.has_slot(&peer, is_half_open) || is_half_open && !self.half_open.has_room_for(&peer) {
            self.stats.refused += 1;
            return Admission::Refused;
        }
        self.add(now, peer, is_half_open);
        Admission::New
    }

    /// Adds a peer with a receiver.
    fn add(&mut self, now: Instant, peer: P, is_half_open: bool) {
        let idle_at = now + self.idle_limit();
        let entry = Entry {
            receiver: Receiver::new(self.config.receiver),
            is_half_open,
            on_probation: is_half_open,
            last_active: now,
            idle_at,
            queued: false,
            memory: 0,
            is_open: false,
            claim: None,
        };
        if is_half_open {
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
}
