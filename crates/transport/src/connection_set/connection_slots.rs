//! Limits on connections that have not ended, in total and for each host. Connections that have
//! ended free their slots at once, and only the newest of them repeat their last answers.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Instant;

use super::ConnectionSet;
use crate::listener::{SourceCounts, source_number};

/// Least number of ended connections that repeat their last answers. With few slots, a connection
/// may otherwise be forgotten before its peer has repeated a FIN whose FIN-ACK was lost.
const MIN_ENDED: usize = 64;

/// Count of connections, and of those of each host.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlots {
    taken: usize,
    /// Connections of each source.
    pub(super) sources: SourceCounts,
    /// Counts of the [`Listener`](crate::Listener) on this socket, which the limit of a source
    /// includes.
    pub(super) other_sources: SourceCounts,
    /// Ended connections that the application has released, oldest first. An ID stays after its
    /// connection was removed.
    ended: VecDeque<u64>,
    /// Time before which no peer has been silent for long, so that a full set searches seldom.
    all_heard_until: Option<Instant>,
}

/// Slot of one connection, until it ends.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    /// Host of a peer that opened the connection, if addresses have hosts.
    source: Option<u64>,
}

impl ConnectionSlots {
    pub(super) fn take(&mut self, address: Option<IpAddr>) -> ConnectionSlot {
        self.taken += 1;
        let source = address.map(source_number);
        if let Some(source) = source {
            self.sources.add(source);
        }
        ConnectionSlot { source }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a slot is freed once")]
    pub(super) fn free(&mut self, slot: ConnectionSlot) {
        self.taken -= 1;
        if let Some(source) = slot.source {
            self.sources.remove(source);
        }
    }

    /// Number of connections that have not ended.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    fn of_source(&self, address: IpAddr) -> usize {
        let source = source_number(address);
        usize::try_from(self.sources.of(source).saturating_add(self.other_sources.of(source)))
            .unwrap_or(usize::MAX)
    }

    /// Forgets the ended connections: all were removed.
    pub(super) fn forget_ended(&mut self) {
        self.ended = VecDeque::new();
    }

    /// Notes an ended connection that was released. Returns the one to be removed for it.
    fn push_ended(&mut self, id: u64, max: usize) -> Option<u64> {
        self.ended.push_back(id);
        if self.ended.len() > max.max(MIN_ENDED) { self.ended.pop_front() } else { None }
    }
}

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// True if a peer may open one more connection.
    pub(super) fn has_slot_for(&self, peer: &P) -> bool {
        let address = self.config.ip_of.map(|ip_of| ip_of(peer));
        !self.is_refusing
            && self.slots.taken() + self.other_load.peers < self.config.max_connections
            && address
                .is_none_or(|address| self.slots.of_source(address) < self.config.max_connections_per_source)
    }

    /// True if a peer may open one more connection, perhaps in slot of a silent one.
    pub(super) fn may_have_slot_for(&mut self, now: Instant, peer: &P) -> bool {
        self.has_slot_for(peer) || self.find_silent(now).is_some()
    }

    /// Same for a peer that has proved its keys: ends a silent connection if the set is full.
    pub(super) fn make_slot_for(&mut self, now: Instant, peer: &P) -> bool {
        if !self.has_slot_for(peer)
            && let Some(id) = self.find_silent(now)
            && let Some(entry) = self.connections.get_mut(&id)
        {
            entry.connection.end_idle(now);
            self.process_output(id);
        }
        self.has_slot_for(peer)
    }

    /// Returns the connection whose peer has been silent the longest, if that is two thirds of the
    /// idle timeout: a peer that is there sends two keep-alives in that time. `None` unless the set
    /// is full.
    fn find_silent(&mut self, now: Instant) -> Option<u64> {
        let is_full = self.slots.taken() + self.other_load.peers >= self.config.max_connections;
        if !is_full || self.is_refusing || self.slots.all_heard_until.is_some_and(|until| now < until) {
            return None;
        }
        let limit = self.responder.as_ref()?.config.idle_timeout * 2 / 3;
        let with_slot = self.connections.iter().filter(|(_, entry)| entry.slot.is_some());
        let heard = with_slot.filter_map(|(id, entry)| Some((entry.connection.last_active()?, *id)));
        let (heard_at, id) = heard.min()?;
        self.slots.all_heard_until = Some(heard_at + limit);
        (heard_at + limit <= now).then_some(id)
    }

    /// Leaves the slot of a connection that has ended. If it was released, the oldest of the ended
    /// ones may make room for it.
    pub(super) fn free_slot_if_ended(&mut self, id: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        if entry.connection.closed().is_none() {
            return;
        }
        if let Some(slot) = entry.slot.take() {
            self.slots.free(slot);
        }
        if !entry.is_released || std::mem::replace(&mut entry.is_ended, true) {
            return;
        }
        if let Some(oldest) = self.slots.push_ended(id, self.config.max_connections) {
            self.remove(oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_64_ended_connections_stay() {
        let mut slots = ConnectionSlots::default();
        let removed =
            |slots: &mut ConnectionSlots, max| (0..100).filter_map(|id| slots.push_ended(id, max)).count();
        assert_eq!(removed(&mut slots, 1), 36);
        assert_eq!(removed(&mut slots, 80), 84);
    }
}
