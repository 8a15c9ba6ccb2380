//! Limits on connected peers, in total and for each host, over both formats.
//!
//! Unless a host has a fixed limit, it gets one more slot only while it holds fewer than are free:
//! the dynamic threshold of Choudhury and Hahne (IEEE/ACM Transactions on Networking 6(2), 1998)
//! with alpha = 1. So one host takes at most half of the slots, and each further one at most half
//! of what the others left. With 4096 slots, hosts that each take all they get leave one for the
//! thirteenth.

use super::sources::SourceCounts;

/// Count of peers, and of those of each host.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) max: usize,
    /// Fixed limit on the slots of one host; `None` for the dynamic one.
    max_per_source: Option<usize>,
    pub(super) taken: usize,
    sources: SourceCounts,
    /// True if no further peer gets a slot.
    pub(super) is_refusing: bool,
}

/// Slot of one peer, until it ends.
#[derive(Debug)]
pub(super) struct Slot {
    /// Host of a peer that connected to this side, if addresses have hosts.
    source: Option<u64>,
}

impl Slots {
    pub(super) fn new(max: usize, max_per_source: Option<usize>) -> Self {
        Self { max, max_per_source, taken: 0, sources: SourceCounts::default(), is_refusing: false }
    }

    /// True if a peer of this source may have a slot.
    pub(super) fn has_room_for(&self, source: Option<u64>) -> bool {
        !self.is_refusing && self.allows(self.sources.of(source), self.max.saturating_sub(self.taken))
    }

    /// True if a peer of this source may have the slot of another one that ends for it. One of the
    /// same host may always, because the host holds no more than before.
    pub(super) fn may_take_over(&self, other: &Slot, source: Option<u64>) -> bool {
        let free = self.max.saturating_add(1).saturating_sub(self.taken);
        let is_same_host = source.is_some() && source == other.source;
        let is_allowed = is_same_host || self.allows(self.sources.of(source), free);
        !self.is_refusing && free > 0 && is_allowed
    }

    /// True if a host that holds `held` places may have one more of the `free` ones.
    pub(super) fn allows(&self, held: usize, free: usize) -> bool {
        free > 0 && held < self.max_per_source.unwrap_or(free)
    }

    pub(super) fn is_full(&self) -> bool {
        self.taken >= self.max
    }

    pub(super) fn take(&mut self, source: Option<u64>) -> Slot {
        self.taken += 1;
        self.sources.add(source);
        Slot { source }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a slot is freed once")]
    pub(super) fn free(&mut self, slot: Slot) {
        self.taken -= 1;
        self.sources.remove(slot.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes slots for a host until it gets no more, and returns their number.
    fn fill(slots: &mut Slots, source: u64) -> usize {
        let mut taken = 0;
        while slots.has_room_for(Some(source)) {
            let _slot = slots.take(Some(source));
            taken += 1;
        }
        taken
    }

    #[test]
    fn each_host_leaves_half_of_what_it_finds() {
        for (max, hosts) in [(1, vec![1, 0]), (2, vec![1, 1, 0]), (4, vec![2, 1, 1, 0]), (5, vec![3, 1, 1])] {
            let mut slots = Slots::new(max, None);
            let taken: Vec<_> = (0..hosts.len() as u64).map(|host| fill(&mut slots, host)).collect();
            assert_eq!(taken, hosts, "{max} slots");
        }
    }

    #[test]
    fn ten_hosts_leave_slot_for_eleventh() {
        for hosts in [2, 10] {
            let mut slots = Slots::new(4096, None);
            (0..hosts).for_each(|host| assert!(fill(&mut slots, host) > 0));
            assert!(slots.has_room_for(Some(hosts)), "{hosts} hosts hold all {}", slots.taken);
        }
    }

    #[test]
    fn fixed_limit_holds_whatever_others_have() {
        let mut slots = Slots::new(8, Some(3));
        assert_eq!([1, 2, 3, 4].map(|host| fill(&mut slots, host)), [3, 3, 2, 0]);
    }

    #[test]
    fn silent_slot_goes_to_its_host_or_to_one_without() {
        let mut slots = Slots::new(4, None);
        let first = slots.take(Some(1));
        for host in [1, 2, 3] {
            slots.take(Some(host));
        }
        let may = [1, 2, 9].map(|host| slots.may_take_over(&first, Some(host)));
        assert_eq!(may, [true, false, true]);
        slots.is_refusing = true;
        assert!(!slots.may_take_over(&first, Some(1)));
    }
}
