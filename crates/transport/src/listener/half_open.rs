//! Half-open peers: classic senders whose SYN was answered and that have not sent enough to count
//! as connected. Classic has no proof of address, so forged SYNs must not take the slots of
//! connected peers. They fill this table only, and its oldest entry makes room for a new one.
//!
//! A half-open peer has a receiver and gets all its answers. The application hears of it once three
//! packets in order arrived, or the FIN of a shorter transfer. An empty transfer needs a repeated
//! FIN, which costs an honest sender one timeout. Until then its events wait in the receiver. The
//! same holds for a new transfer of a classic peer that is connected and has finished.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::Listener;
use super::entry::Entry;
use super::sources::Sources;
use crate::ReceiverEvent;

/// Largest number of half-open peers of a listener. With the receivers, the table needs less than 4
/// MiB.
pub const MAX_HALF_OPEN_PEERS: usize = 1024;
/// Largest number of half-open peers of one source. Further SYNs get no answer, so an honest sender
/// behind the same address repeats its SYN and finds a slot later.
const MAX_HALF_OPEN_PER_SOURCE: u32 = 256;
/// Limit on the data of all half-open peers, bytes.
const MAX_HALF_OPEN_MEMORY: u64 = 4 << 20;
/// Limit on the data of one half-open peer beyond holes, bytes.
const MAX_HALF_OPEN_PEER_MEMORY: u64 = MAX_HALF_OPEN_MEMORY / 4;

/// Table of half-open peers; their state lies beside that of the connected ones.
#[derive(Debug)]
pub(super) struct HalfOpen<P> {
    /// Idle deadline of every half-open peer, as in [`Listener::idle`]. The first is the oldest.
    pub(super) idle: BTreeSet<(Instant, P)>,
    sources: Sources<P>,
    /// Memory of the receivers of all half-open peers, bytes.
    memory: u64,
}

impl<P: Copy + Ord> HalfOpen<P> {
    pub(super) fn new() -> Self {
        Self { idle: BTreeSet::new(), sources: Sources::new(), memory: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.idle.len()
    }

    /// True if the source of `peer` may have one more half-open peer.
    pub(super) fn has_room_for(&self, peer: &P) -> bool {
        self.sources.has_room_for(peer, MAX_HALF_OPEN_PER_SOURCE)
    }

    pub(super) fn insert(&mut self, idle_at: Instant, peer: P) {
        self.idle.insert((idle_at, peer));
        self.sources.add(&peer);
    }

    /// Removes `peer`, whose receiver holds `memory` bytes.
    pub(super) fn remove(&mut self, idle_at: Instant, peer: P, memory: u64) {
        self.idle.remove(&(idle_at, peer));
        self.memory -= memory;
        self.sources.remove(&peer);
    }

    /// Updates the memory of a half-open peer.
    pub(super) fn on_memory(&mut self, before: u64, now: u64) {
        self.memory = self.memory - before + now;
    }

    /// Returns the memory limit of a half-open peer that holds `held` bytes.
    pub(super) fn allowance(&self, held: u64) -> u64 {
        (held + MAX_HALF_OPEN_MEMORY.saturating_sub(self.memory)).min(MAX_HALF_OPEN_PEER_MEMORY)
    }
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Limits the number of peers of one source: half-open ones, and connected ones
    /// ([`ListenerConfig::max_peers_per_source`](super::ListenerConfig::max_peers_per_source)).
    /// `source_of` returns the key under which the addresses of one host count, the same for every
    /// port. Call it before the first datagram.
    pub fn limit_sources(&mut self, source_of: fn(&P) -> u64) {
        self.half_open.sources.count_by(source_of);
        self.sources.count_by(source_of);
    }

    /// True if `peer` is half-open: the application has not heard of it.
    pub fn is_half_open(&self, peer: P) -> bool {
        self.peers.get(&peer).is_some_and(|entry| entry.is_half_open)
    }

    /// True if `peer` may be connected as one more. A quarter of the slots is kept for peers that
    /// prove their address, unless this one counts as proved.
    pub(super) fn has_slot(&self, peer: &P, is_unproved: bool) -> bool {
        let all = self.config.max_peers;
        let kept = if is_unproved { all / 4 } else { 0 };
        self.active() + self.other_load.peers < all
            && self.active() < all - kept
            && self.sources.has_room_for(peer, self.config.max_peers_per_source)
    }

    /// Removes the oldest half-open peers until the table has room for one more.
    pub(super) fn make_room_for_half_open(&mut self) {
        while self.half_open.len() >= MAX_HALF_OPEN_PEERS {
            self.remove_oldest_half_open();
        }
    }

    /// Removes the oldest half-open peer.
    fn remove_oldest_half_open(&mut self) {
        if let Some(&(_, peer)) = self.half_open.idle.first() {
            self.stats.half_open_dropped += 1;
            self.close(peer);
        }
    }

    /// Connects the peer looked up last, or reports its new transfer, if enough of its transfer
    /// arrived.
    pub(super) fn end_probation(&mut self, peer: P) {
        let Some(entry) = self.peers.latest_mut() else { return };
        if !entry.receiver.has_passed_probation() {
            while self.half_open.memory > MAX_HALF_OPEN_MEMORY {
                self.remove_oldest_half_open();
            }
            return;
        }
        entry.on_probation = false;
        if entry.is_half_open {
            if !self.has_slot(&peer, true) {
                self.stats.refused += 1;
                return self.close(peer);
            }
            self.connect(peer);
        }
        self.report_events(peer);
    }

    /// Moves a half-open peer to the connected ones.
    fn connect(&mut self, peer: P) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        entry.is_half_open = false;
        let Entry { idle_at, memory, .. } = *entry;
        self.half_open.remove(idle_at, peer, memory);
        self.idle.insert((idle_at, peer));
        self.count_admitted(peer);
    }

    /// Counts and reports a peer that is now connected.
    pub(super) fn count_admitted(&mut self, peer: P) {
        self.sources.add(&peer);
        if self.peers.get_mut(&peer).is_some() {
            self.count_open(peer);
        }
        self.stats.admitted += 1;
        self.stats.max_active = self.stats.max_active.max(self.active());
        self.events.push_back((peer, ReceiverEvent::Connected));
    }
}
