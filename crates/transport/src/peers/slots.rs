//! Limits on peers that are connected and have not ended, in total and for each host, over both
//! formats.

use super::sources::SourceCounts;

/// Count of peers, and of those of each host.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) max: usize,
    pub(super) max_per_source: usize,
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
    pub(super) fn new(max: usize, max_per_source: usize) -> Self {
        Self { max, max_per_source, taken: 0, sources: SourceCounts::default(), is_refusing: false }
    }

    /// True if a peer of this source may have a slot.
    pub(super) fn has_room_for(&self, source: Option<u64>) -> bool {
        !self.is_refusing && !self.is_full() && self.sources.of(source) < self.max_per_source
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
