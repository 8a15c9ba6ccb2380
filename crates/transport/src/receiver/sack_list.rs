//! Blocks of a SACK and their order (RFC 2018, section 4): first the block with the newest arrival,
//! then the most recently reported ones. If not all blocks fit, a quarter of the places rotates
//! through the others, so that each is reported in time however old it is.

use std::ops::Range;

use crate::range_set::RangeSet;

/// Largest number of blocks in one SACK.
const MAX_BLOCKS: usize = 32;
/// If not all blocks fit, one in this many places of a report goes to the rotation.
const ROTATION_DIVISOR: usize = 4;

/// Blocks by recency. Each is represented by one of its numbers, because blocks grow and merge.
#[derive(Debug, Default)]
pub(super) struct SackList {
    /// One number of each block with an arrival, newest first. The block may be gone.
    recent: Vec<u64>,
    /// The rotation continues with the first block that starts here or above.
    round: u64,
    report: Vec<Range<u64>>,
}

impl SackList {
    /// Releases all memory. Call while nothing is held, so that there is no block to report.
    pub(super) fn shrink(&mut self) {
        self.recent = Vec::new();
        self.report = Vec::new();
    }

    /// Handles the arrival of bytes, new or not, that are now in `block`.
    pub(crate) fn on_arrival(&mut self, block: &Range<u64>) {
        if self.recent.first().is_some_and(|newest| block.contains(newest)) {
            return;
        }
        self.recent.retain(|number| !block.contains(number));
        self.recent.truncate(MAX_BLOCKS - 1);
        // The last number stays in the block when numbers are removed from below.
        self.recent.insert(0, block.end - 1);
    }

    /// Returns the blocks of `held` to report now, at most `max` and [`MAX_BLOCKS`].
    pub(crate) fn report(&mut self, held: &RangeSet, max: usize) -> &[Range<u64>] {
        let max = max.min(MAX_BLOCKS);
        let rounds = if held.len() > max { max / ROTATION_DIVISOR } else { 0 };
        self.report.clear();
        let mut gone = false;
        for number in &self.recent {
            if self.report.len() == max - rounds {
                break;
            }
            match held.range_of(*number) {
                Some(block) if !self.report.contains(&block) => self.report.push(block),
                _ => gone = true,
            }
        }
        if gone {
            self.forget(held);
        }
        self.go_round(held, max);
        &self.report
    }

    /// Keeps one number of each block that still exists, the newer one if two blocks merged.
    fn forget(&mut self, held: &RangeSet) {
        let mut kept: [u64; MAX_BLOCKS] = [0; MAX_BLOCKS];
        let mut count = 0;
        self.recent.retain(|number| {
            let Some(block) = held.range_of(*number) else { return false };
            let new = !kept[..count].contains(&block.start);
            if new {
                kept[count] = block.start;
                count += 1;
            }
            new
        });
    }

    fn go_round(&mut self, held: &RangeSet, max: usize) {
        let wanted = max.min(held.len());
        for _ in 0..held.len().min(2 * MAX_BLOCKS) {
            if self.report.len() >= wanted {
                return;
            }
            let Some(block) = held.next_round(self.round) else { return };
            self.round = block.end;
            if !self.report.contains(&block) {
                self.report.push(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one number each, which arrived in ascending order.
    fn every_second(blocks: u64) -> (RangeSet, SackList) {
        let mut held = RangeSet::new(4096);
        let mut list = SackList::default();
        for number in 0..blocks {
            arrive(&mut held, &mut list, 10 + 2 * number..11 + 2 * number);
        }
        (held, list)
    }

    fn arrive(held: &mut RangeSet, list: &mut SackList, range: Range<u64>) {
        let start = range.start;
        held.insert(range).unwrap();
        list.on_arrival(&held.range_of(start).unwrap());
    }

    #[test]
    fn newest_arrival_is_first_then_most_recent() {
        let (mut held, mut list) = every_second(3);
        assert_eq!(list.report(&held, 3), [14..15, 12..13, 10..11]);
        arrive(&mut held, &mut list, 9..10);
        assert_eq!(list.report(&held, 3), [9..11, 14..15, 12..13]);
        arrive(&mut held, &mut list, 13..14);
        assert_eq!(list.report(&held, 3), [12..15, 9..11], "two blocks became one");
    }

    #[test]
    fn delivered_blocks_are_not_reported() {
        let (mut held, mut list) = every_second(3);
        held.remove_below(13);
        assert_eq!(list.report(&held, 3), std::slice::from_ref(&(14..15)));
        held.remove_below(15);
        assert_eq!(list.report(&held, 3), []);
    }

    #[test]
    fn all_blocks_are_reported_if_they_fit() {
        let (held, _) = every_second(32);
        let mut blocks = SackList::default().report(&held, MAX_BLOCKS).to_vec();
        blocks.sort_by_key(|block| block.start);
        assert_eq!(blocks, held.iter().collect::<Vec<_>>());
    }

    #[test]
    fn old_blocks_are_reported_while_new_ones_arrive() {
        let (mut held, mut list) = every_second(200);
        let mut missing: Vec<u64> = held.iter().map(|block| block.start).collect();
        // 200 blocks and one more per report, 8 places of 32 going round: 200 / 7 reports at most.
        for report in 0..29 {
            arrive(&mut held, &mut list, 1000 + 2 * report..1001 + 2 * report);
            let blocks = list.report(&held, MAX_BLOCKS);
            assert_eq!((blocks.len(), blocks[0].start), (32, 1000 + 2 * report));
            missing.retain(|start| blocks.iter().all(|block| block.start != *start));
        }
        assert_eq!(missing, []);
    }

    #[test]
    fn random_reports_have_held_blocks_once() {
        for seed in 0..300 {
            let mut random = rdt_testing::random(seed);
            let (mut held, mut list) = (RangeSet::new(100), SackList::default());
            for step in 0..300 {
                let start = random(1000);
                let range = start..start + 1 + random(4);
                let arrived = held.has_room_for(&range);
                if arrived {
                    arrive(&mut held, &mut list, range);
                }
                if random(30) == 0 {
                    held.remove_below(random(1000));
                }
                let (max, newest) = (usize::try_from(random(40)).unwrap(), held.range_of(start));
                let blocks = list.report(&held, max);
                let all: Vec<_> = held.iter().collect();
                assert_eq!(blocks.len(), max.min(32).min(all.len()), "seed {seed} step {step}");
                assert!(blocks.iter().all(|block| all.contains(block)), "seed {seed} step {step}");
                let mut starts: Vec<_> = blocks.iter().map(|block| block.start).collect();
                starts.sort_unstable();
                starts.dedup();
                assert_eq!(starts.len(), blocks.len(), "seed {seed} step {step}");
                if let (true, Some(newest), Some(first)) = (arrived, newest, blocks.first()) {
                    assert_eq!(*first, newest, "seed {seed} step {step}");
                }
            }
        }
    }
}
