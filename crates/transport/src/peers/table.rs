//! Map of peers that caches the latest lookup, so a run from one peer costs one search of the tree.

use std::collections::BTreeMap;

/// Map from peers to their state, which lies in slots.
#[derive(Debug)]
pub(super) struct Table<P, V> {
    slots: Vec<Option<(P, V)>>,
    /// Indices of empty slots.
    free: Vec<usize>,
    index: BTreeMap<P, usize>,
    /// Slot of the latest [`Table::get_mut`]; may be empty or out of range.
    latest: usize,
}

impl<P: Copy + Ord, V> Table<P, V> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), index: BTreeMap::new(), latest: 0 }
    }

    fn slot(&self, peer: &P) -> Option<usize> {
        match self.slots.get(self.latest) {
            Some(Some((latest, _))) if latest == peer => Some(self.latest),
            _ => self.index.get(peer).copied(),
        }
    }

    pub(super) fn get(&self, peer: &P) -> Option<&V> {
        self.slots[self.slot(peer)?].as_ref().map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, peer: &P) -> Option<&mut V> {
        self.latest = self.slot(peer)?;
        self.slots[self.latest].as_mut().map(|(_, value)| value)
    }

    /// Returns the state of the peer that [`Table::get_mut`] found last, without a search.
    pub(super) fn latest_mut(&mut self) -> Option<&mut V> {
        self.slots.get_mut(self.latest)?.as_mut().map(|(_, value)| value)
    }

    pub(super) fn latest(&self) -> usize {
        self.latest
    }

    /// Returns the peer in a slot and its state, without a search, as the latest lookup.
    pub(super) fn at_mut(&mut self, slot: usize) -> Option<(P, &mut V)> {
        self.latest = slot;
        self.slots.get_mut(slot)?.as_mut().map(|(peer, value)| (*peer, value))
    }

    pub(super) fn contains_key(&self, peer: &P) -> bool {
        self.slot(peer).is_some()
    }

    /// Adds a peer that is not in the map.
    pub(super) fn insert(&mut self, peer: P, value: V) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let earlier = self.index.insert(peer, slot);
        debug_assert!(earlier.is_none(), "a peer has one slot");
        self.slots[slot] = Some((peer, value));
        self.latest = slot;
    }

    pub(super) fn remove(&mut self, peer: &P) -> Option<V> {
        let slot = self.index.remove(peer)?;
        self.free.push(slot);
        let value = self.slots[slot].take().map(|(_, value)| value);
        if self.index.is_empty() {
            // Frees what a burst of peers needed.
            *self = Self::new();
        }
        value
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Iterates over all states in the order of slots.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Iterates over all peers and states in the order of slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(P, V)> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a plain map. A reused slot must not be found for the peer that left it.
    #[test]
    fn random_operations_match_btreemap() {
        for seed in 1..=50_u64 {
            let mut bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut random = move |end: u64| {
                bits ^= bits << 13;
                bits ^= bits >> 7;
                bits ^= bits << 17;
                (bits >> 11) % end
            };
            let (mut peers, mut map) = (Table::new(), BTreeMap::new());
            for step in 0..2000_u64 {
                let peer = random(6);
                match random(4) {
                    0 if !map.contains_key(&peer) => {
                        peers.insert(peer, step);
                        map.insert(peer, step);
                    }
                    1 => assert_eq!(peers.remove(&peer), map.remove(&peer), "seed {seed} step {step}"),
                    2 => assert_eq!(peers.get_mut(&peer), map.get_mut(&peer), "seed {seed} step {step}"),
                    _ => assert_eq!(peers.get(&peer), map.get(&peer), "seed {seed} step {step}"),
                }
                let known: Vec<_> = (0..6).filter(|peer| peers.contains_key(peer)).collect();
                assert!(known.iter().eq(map.keys()), "seed {seed} step {step}");
                let mut values: Vec<_> = peers.values().copied().collect();
                let mut expected: Vec<_> = map.values().copied().collect();
                values.sort_unstable();
                expected.sort_unstable();
                assert_eq!((values, peers.len()), (expected, map.len()), "seed {seed} step {step}");
                assert!(peers.slots.len() <= 6, "slots are reused");
            }
        }
    }
}
