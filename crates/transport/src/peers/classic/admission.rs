//! Admission of classic peers. They have no proof of address, so they are half-open at first, and
//! never take the last slots, which native connections need.

use std::time::Instant;

use super::entry::Entry;
use super::half_open::MAX_HALF_OPEN_MEMORY;
use crate::ReceiverEvent;
use crate::peers::account::{Account, Key};
use crate::peers::{AddressKey, ConnectionSet};
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

impl<P: AddressKey> ConnectionSet<P> {
    /// Admits a classic peer, which sent a valid SYN, if there is room.
    pub fn admit_classic(&mut self, now: Instant, peer: P) -> Admission {
        if self.classic.table.get_mut(&peer).is_some() {
            return Admission::Known;
        }
        let is_half_open = !self.classic.is_faithful();
        let source = self.config.source_of(&peer);
        let has_room = self.has_slot(source, is_half_open)
            && (!is_half_open || self.classic.half_open.has_room_for(source));
        let Some(config) = self.config.classic.filter(|_| has_room) else {
            self.classic.stats.refused += 1;
            return Admission::Refused;
        };
        let idle_at = now + self.classic.idle_limit();
        let entry = Entry {
            receiver: Receiver::new(config.receiver),
            account: Account::default(),
            is_half_open,
            on_probation: is_half_open,
            last_active: now,
        };
        if is_half_open {
            while self.classic.half_open.is_full() {
                self.remove_oldest_half_open();
            }
            self.classic.half_open.insert((idle_at, peer), source);
        }
        self.classic.table.insert(peer, entry);
        let slot = self.classic.table.latest();
        if let Some(entry) = self.classic.table.latest_mut() {
            self.timers.schedule(&mut entry.account, Key::Classic(slot), Some(idle_at));
        }
        if !is_half_open {
            self.count_admitted(peer);
        }
        Admission::New
    }

    /// True if a peer of this source may be connected as one more. A quarter of the slots is kept
    /// for peers that prove their address, unless this one counts as proved. Hosts share the other
    /// three quarters by the rule of all slots, so that two of them leave room for a third.
    /// Finished peers have no slot, but count here: their receivers stay until they are idle.
    fn has_slot(&self, source: Option<u64>, is_unproved: bool) -> bool {
        let kept = if is_unproved { self.slots.max / 4 } else { 0 };
        let free = (self.slots.max - kept).saturating_sub(self.classic.active());
        self.slots.has_room_for(source) && self.slots.allows(self.classic.sources.of(source), free)
    }

    fn remove_oldest_half_open(&mut self) {
        if let Some(peer) = self.classic.half_open.oldest() {
            self.classic.stats.half_open_dropped += 1;
            self.close_classic(peer);
        }
    }

    /// Connects the peer looked up last, or reports its new transfer, if enough of it arrived.
    pub(super) fn end_probation(&mut self, peer: P) {
        let Some(entry) = self.classic.table.latest_mut() else { return };
        if !entry.receiver.has_passed_probation() {
            if entry.is_half_open
                && entry.receiver.stats().data > 0
                && let Some(idle_at) = entry.account.timer
            {
                self.classic.half_open.on_data((idle_at, peer));
            }
            while self.classic.half_open.memory > MAX_HALF_OPEN_MEMORY {
                self.remove_oldest_half_open();
            }
            return;
        }
        entry.on_probation = false;
        if entry.is_half_open {
            if !self.has_slot(self.config.source_of(&peer), true) {
                self.classic.stats.refused += 1;
                return self.close_classic(peer);
            }
            self.connect_classic(peer);
        }
        self.classic.report_events(peer);
    }

    /// Moves the half-open peer looked up last to the connected ones.
    fn connect_classic(&mut self, peer: P) {
        let slot = self.classic.table.latest();
        let Some(entry) = self.classic.table.latest_mut() else { return };
        entry.is_half_open = false;
        let (idle_at, memory) = (entry.account.timer, entry.account.memory);
        self.classic.half_open.remove((idle_at, peer), self.config.source_of(&peer), memory);
        if std::mem::take(&mut entry.account.is_queued) {
            self.leave_queue(slot, true);
            self.queue_classic();
        }
        self.count_admitted(peer);
    }

    /// Counts and reports the peer looked up last, which is now connected.
    fn count_admitted(&mut self, peer: P) {
        self.classic.sources.add(self.config.source_of(&peer));
        self.count_open(peer);
        let active = self.classic.active();
        self.classic.stats.admitted += 1;
        self.classic.stats.max_active = self.classic.stats.max_active.max(active);
        self.classic.events.push_back((peer, ReceiverEvent::Connected));
    }
}
