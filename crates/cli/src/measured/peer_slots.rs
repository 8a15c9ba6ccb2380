//! Limits on peers: in all, and of one host, by the rule of [`rdt_transport::ConnectionSetConfig`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdt_udp::Remote;

/// Slots for peers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct PeerSlots {
    max: usize,
    /// Fixed limit on the peers of one host. `None`: a host gets one more slot while it holds fewer
    /// than are free.
    max_per_source: Option<usize>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    by_source: BTreeMap<u64, usize>,
    /// Counts so far, for the summary.
    counts: Counts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) active: usize,
    pub(super) max_active: usize,
    pub(super) senders: u64,
    pub(super) refused: u64,
}

/// Slot of one peer, freed when it is dropped.
#[derive(Debug)]
pub(super) struct PeerSlot {
    source: u64,
    taken: Arc<Mutex<Taken>>,
}

impl PeerSlots {
    pub(super) fn new(max: usize, max_per_source: Option<usize>) -> Self {
        Self { max, max_per_source, taken: Arc::default() }
    }

    /// Takes a slot for a peer; `None` if it would be beyond a limit.
    pub(super) fn take(&self, peer: SocketAddr) -> Option<PeerSlot> {
        let source = Remote::from(peer).source();
        let mut taken = lock(&self.taken);
        let of_source = taken.by_source.get(&source).copied().unwrap_or(0);
        let free = self.max.saturating_sub(taken.counts.active);
        if free == 0 || of_source >= self.max_per_source.unwrap_or(free) {
            taken.counts.refused += 1;
            return None;
        }
        taken.by_source.insert(source, of_source + 1);
        taken.counts.active += 1;
        taken.counts.senders += 1;
        taken.counts.max_active = taken.counts.max_active.max(taken.counts.active);
        Some(PeerSlot { source, taken: Arc::clone(&self.taken) })
    }

    /// Returns the limit on all peers, and the fixed one on those of one host.
    pub(super) fn limits(&self) -> (usize, Option<usize>) {
        (self.max, self.max_per_source)
    }

    pub(super) fn counts(&self) -> Counts {
        lock(&self.taken).counts
    }
}

impl Drop for PeerSlot {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.counts.active -= 1;
        if let Some(count) = taken.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                taken.by_source.remove(&self.source);
            }
        }
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_all_hosts_have_limits() {
        let slots = PeerSlots::new(3, Some(2));
        let [a, b]: [SocketAddr; 2] = ["192.0.2.1:1", "192.0.2.2:1"].map(|it| it.parse().unwrap());
        let first = slots.take(a);
        let second = slots.take("192.0.2.1:2".parse().unwrap());
        assert!(first.is_some() && second.is_some() && slots.take(a).is_none(), "two of one host");
        let third = slots.take(b);
        assert!(third.is_some() && slots.take(b).is_none(), "three in all");
        drop(first);
        assert!(slots.take(a).is_some());
        drop((second, third));
        assert_eq!(slots.counts(), Counts { active: 0, max_active: 3, senders: 4, refused: 2 });
    }
}
