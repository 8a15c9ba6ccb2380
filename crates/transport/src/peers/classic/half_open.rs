//! Half-open peers: classic senders whose SYN was answered and that have not sent enough to count
//! as connected. Classic has no proof of address, so forged SYNs must not take the slots of
//! connected peers. They fill this table only, and its oldest entry makes room for a new one: the
//! oldest of those that sent a SYN alone, so a sender that has begun its data stays while there are
//! others. Who forges data as well needs two packets for a place.
//!
//! A half-open peer has a receiver and gets all its answers. The application hears of it once three
//! packets in order arrived, or the FIN of a shorter transfer. An empty transfer needs a repeated
//! FIN, which costs an honest sender one timeout. Until then its events wait in the receiver. The
//! same holds for a new transfer of a classic peer that is connected and has finished.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::peers::sources::SourceCounts;

/// Largest number of half-open classic peers. With the receivers, the table needs less than 4 MiB.
pub const MAX_HALF_OPEN_PEERS: usize = 1024;
/// Largest number of half-open peers of one source. Further SYNs get no answer, so an honest sender
/// behind the same address repeats its SYN and finds a slot later.
const MAX_HALF_OPEN_PER_SOURCE: usize = 256;
/// Limit on the data of all half-open peers, bytes.
pub(super) const MAX_HALF_OPEN_MEMORY: u64 = 4 << 20;
/// Limit on the data of one half-open peer beyond holes, bytes.
const MAX_HALF_OPEN_PEER_MEMORY: u64 = MAX_HALF_OPEN_MEMORY / 4;

/// Table of half-open peers; their state lies beside that of the connected ones.
#[derive(Debug)]
pub(super) struct HalfOpen<P> {
    /// Timer of every half-open peer that sent a SYN alone. The first is the oldest.
    silent: BTreeSet<(Instant, P)>,
    /// The same of those that sent data.
    heard: BTreeSet<(Instant, P)>,
    sources: SourceCounts,
    /// Memory of the receivers of all half-open peers, bytes.
    pub(super) memory: u64,
}

impl<P: Copy + Ord> HalfOpen<P> {
    pub(super) fn new() -> Self {
        let (silent, heard) = (BTreeSet::new(), BTreeSet::new());
        Self { silent, heard, sources: SourceCounts::default(), memory: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.silent.len() + self.heard.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_HALF_OPEN_PEERS
    }

    pub(super) fn has_room_for(&self, source: Option<u64>) -> bool {
        self.sources.of(source) < MAX_HALF_OPEN_PER_SOURCE
    }

    /// Returns the peer that makes room for a new one.
    pub(super) fn oldest(&self) -> Option<P> {
        self.silent.first().or(self.heard.first()).map(|(_, peer)| *peer)
    }

    pub(super) fn postpone(&mut self, entry: (Instant, P), deadline: Instant) {
        for peers in [&mut self.silent, &mut self.heard] {
            if peers.remove(&entry) {
                peers.insert((deadline, entry.1));
            }
        }
    }

    pub(super) fn on_data(&mut self, entry: (Instant, P)) {
        if self.silent.remove(&entry) {
            self.heard.insert(entry);
        }
    }

    pub(super) fn insert(&mut self, entry: (Instant, P), source: Option<u64>) {
        self.silent.insert(entry);
        self.sources.add(source);
    }

    /// Removes a peer whose receiver holds `memory` bytes.
    pub(super) fn remove(&mut self, (idle_at, peer): (Option<Instant>, P), source: Option<u64>, memory: u64) {
        if let Some(idle_at) = idle_at {
            let _ = self.silent.remove(&(idle_at, peer)) || self.heard.remove(&(idle_at, peer));
        }
        self.memory -= memory;
        self.sources.remove(source);
    }

    pub(super) fn on_memory(&mut self, before: u64, now: u64) {
        self.memory = self.memory - before + now;
    }

    /// Returns the memory limit of a half-open peer that holds `held` bytes.
    pub(super) fn allowance(&self, held: u64) -> u64 {
        (held + MAX_HALF_OPEN_MEMORY.saturating_sub(self.memory)).min(MAX_HALF_OPEN_PEER_MEMORY)
    }
}
