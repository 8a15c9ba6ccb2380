//! Memory of the packets inside emulated links. Each path has a floor of its own, which other paths
//! cannot use up, and shares the rest with them.

/// Largest floor of a path, bytes: the rest is for few paths with much in flight.
const MAX_FLOOR: u64 = 1 << 20;

/// Limit on the memory of many paths, in bytes. A path counts with both of its links.
#[derive(Debug)]
pub(crate) struct LinkMemory {
    /// Memory that each path may use in any case.
    floor: u64,
    /// Memory that all paths share beyond their floors.
    shared: u64,
    /// Part of `shared` in use.
    used: u64,
}

impl LinkMemory {
    /// Divides `limit` for at most `paths` paths: a quarter for floors, at most 1 MiB each.
    pub(crate) fn new(limit: u64, paths: usize) -> Self {
        let paths = (paths as u64).max(1);
        let floor = (limit / paths.saturating_mul(4)).min(MAX_FLOOR);
        Self { floor, shared: limit - floor * paths, used: 0 }
    }

    /// Returns how much a path may hold that holds `held` now.
    pub(crate) fn limit_of(&self, held: u64) -> u64 {
        let others = self.used - self.beyond_floor(held);
        self.floor + self.shared.saturating_sub(others)
    }

    /// Updates the memory of a path from `before` to `held`. A new path holds 0.
    pub(crate) fn update(&mut self, before: u64, held: u64) {
        self.used = self.used - self.beyond_floor(before) + self.beyond_floor(held);
    }

    fn beyond_floor(&self, held: u64) -> u64 {
        held.saturating_sub(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_pool_leaves_floors() {
        let mut memory = LinkMemory::new(1000, 10);
        assert_eq!(memory.limit_of(0), 25 + 750, "a floor and all that is shared");
        memory.update(0, 775);
        assert_eq!((memory.limit_of(775), memory.limit_of(0)), (775, 25));
        memory.update(0, 25);
        assert_eq!(memory.limit_of(25), 25);
        memory.update(775, 500);
        assert_eq!((memory.limit_of(0), memory.limit_of(25)), (25 + 275, 25 + 275));
        memory.update(500, 0);
        memory.update(25, 0);
        assert_eq!(memory.limit_of(0), 775);
    }

    #[test]
    fn floors_never_exceed_limit() {
        for (limit, paths) in [(0, 0), (0, 5), (3, 1), (1 << 40, 1), (u64::MAX, usize::MAX)] {
            let memory = LinkMemory::new(limit, paths);
            assert!(memory.limit_of(0) <= limit && memory.floor <= MAX_FLOOR, "{limit}, {paths}");
        }
    }
}
