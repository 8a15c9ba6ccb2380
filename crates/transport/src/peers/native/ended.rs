//! Ended connections. They free their slots at once, and only the newest repeat their last answers.

use std::collections::VecDeque;
use std::time::Instant;

use super::{AddressKey, ConnectionSet};

/// Least number of ended connections that repeat their last answers. With few slots, a connection
/// may otherwise be forgotten before its peer has repeated a FIN whose FIN-ACK was lost.
const MIN_ENDED: usize = 64;

/// Ended and silent connections.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Ended and released connections, oldest first. An ID stays after its connection was removed.
    released: VecDeque<u64>,
    /// Time before which no peer has been silent for long, so that a full set searches seldom.
    all_heard_until: Option<Instant>,
}

impl Ended {
    /// Forgets the ended connections: all were removed.
    pub(super) fn forget(&mut self) {
        self.released = VecDeque::new();
    }

    /// Notes an ended connection that was released. Returns the one to be removed for it.
    fn push(&mut self, id: u64, max: usize) -> Option<u64> {
        self.released.push_back(id);
        if self.released.len() > max.max(MIN_ENDED) { self.released.pop_front() } else { None }
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    /// True if a peer may open one more connection, perhaps in the slot of a silent one.
    pub(super) fn may_have_slot_for(&mut self, now: Instant, peer: &P) -> bool {
        let source = self.config.source_of(peer);
        self.slots.has_room_for(source) || self.find_replaced(now, source).is_some()
    }

    /// Same for a peer that has proved its keys: ends a silent connection if the set is full.
    pub(super) fn make_slot_for(&mut self, now: Instant, peer: &P) -> bool {
        let source = self.config.source_of(peer);
        if self.slots.has_room_for(source) {
            return true;
        }
        let Some(id) = self.find_replaced(now, source) else { return false };
        let Some(entry) = self.native.connections.get_mut(&id) else { return false };
        entry.connection.end_idle(now);
        self.process_output(id);
        true
    }

    /// Returns the silent connection whose slot a peer of this source may have.
    fn find_replaced(&mut self, now: Instant, source: Option<u64>) -> Option<u64> {
        let id = self.find_silent(now)?;
        let slot = self.native.connections.get(&id)?.account.slot.as_ref()?;
        self.slots.may_take_over(slot, source).then_some(id)
    }

    /// Returns the connection whose peer is silent the longest, if the set is full and that is two
    /// thirds of the idle timeout: a peer that is there sends two keep-alives in that time.
    fn find_silent(&mut self, now: Instant) -> Option<u64> {
        let is_heard = self.native.ended.all_heard_until.is_some_and(|until| now < until);
        if !self.slots.is_full() || self.slots.is_refusing || is_heard {
            return None;
        }
        let limit = self.acceptor.responder.as_ref()?.config.idle_timeout * 2 / 3;
        let with_slot = self.native.connections.iter().filter(|(_, entry)| entry.account.slot.is_some());
        let heard = with_slot.filter_map(|(id, entry)| Some((entry.connection.last_active()?, *id)));
        let (heard_at, id) = heard.min()?;
        self.native.ended.all_heard_until = Some(heard_at + limit);
        (heard_at + limit <= now).then_some(id)
    }

    /// Frees the slot of an ended connection. If it was released, the oldest one may be removed.
    pub(super) fn free_ended_slot(&mut self, id: u64) {
        let Some(entry) = self.native.connections.get_mut(&id) else { return };
        if let Some(slot) = entry.account.slot.take() {
            self.slots.free(slot);
            if let Some(association) = entry.association {
                self.native.held.on_ended(association);
            }
        }
        if !entry.is_released || std::mem::replace(&mut entry.is_ended, true) {
            return;
        }
        if let Some(oldest) = self.native.ended.push(id, self.config.max_connections) {
            self.remove(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_64_ended_connections_stay() {
        let mut ended = Ended::default();
        let removed = |ended: &mut Ended, max| (0..100).filter_map(|id| ended.push(id, max)).count();
        assert_eq!(removed(&mut ended, 1), 36);
        assert_eq!(removed(&mut ended, 80), 84);
    }
}
