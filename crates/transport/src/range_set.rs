//! Set of 64-bit numbers as sorted, disjoint ranges that do not touch, for data beyond a hole.
//!
//! The number of ranges is limited, because a peer could send every second byte. A lookup takes
//! O(log n) in the number of ranges, and O(1) in the usual case that new numbers follow the
//! largest.

use std::collections::VecDeque;
use std::ops::Range;

/// The set has reached its limit of ranges, and the new one touches none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the set has reached its limit of ranges")]
pub(crate) struct Full;

/// Sorted, disjoint, non-empty ranges with at least one missing number between any two.
#[derive(Debug, Clone)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range<u64>>,
    limit: usize,
}

impl RangeSet {
    /// Memory of one range, bytes.
    pub(crate) const RANGE_SIZE: usize = size_of::<Range<u64>>();

    pub(crate) fn new(limit: usize) -> Self {
        Self { ranges: VecDeque::new(), limit }
    }

    /// Adds a range and returns how many of its numbers are new. An empty range changes nothing.
    ///
    /// # Errors
    /// [`Full`] if the limit is reached and the range touches no other; the set is unchanged.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> Result<u64, Full> {
        let length = range.end.saturating_sub(range.start);
        if length == 0 {
            return Ok(0);
        }
        match self.ranges.back_mut() {
            Some(last) if last.end == range.start => {
                last.end = range.end;
                return Ok(length);
            }
            Some(last) if last.end > range.start => {}
            _ => return self.add(self.ranges.len(), range),
        }
        let first = self.first_touching(range.start);
        if self.ranges[first].start > range.end {
            return self.add(first, range);
        }
        let mut held = 0;
        let mut merged = range;
        let mut past = first;
        while let Some(next) = self.ranges.get(past).filter(|next| next.start <= merged.end) {
            held += next.end - next.start;
            merged = merged.start.min(next.start)..merged.end.max(next.end);
            past += 1;
        }
        let new = merged.end - merged.start - held;
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..past);
        Ok(new)
    }

    /// True if [`RangeSet::insert`] would succeed for this range.
    pub(crate) fn has_room_for(&self, range: &Range<u64>) -> bool {
        self.ranges.len() < self.limit || range.is_empty() || self.touches(range)
    }

    /// Removes the numbers below `start` and returns their count.
    pub(crate) fn remove_below(&mut self, start: u64) -> u64 {
        let mut removed = 0;
        while let Some(front) = self.ranges.front().filter(|front| front.end <= start) {
            removed += front.end - front.start;
            self.ranges.pop_front();
        }
        if let Some(front) = self.ranges.front_mut().filter(|front| front.start < start) {
            removed += start - front.start;
            front.start = start;
        }
        removed
    }

    pub(crate) fn range_of(&self, number: u64) -> Option<Range<u64>> {
        let range = match self.ranges.back() {
            Some(last) if last.start <= number => last,
            _ => self.ranges.get(self.first_ending_after(number))?,
        };
        range.contains(&number).then(|| range.clone())
    }

    /// Returns the smallest number from `start` on that is not in the set.
    pub(crate) fn first_missing(&self, start: u64) -> u64 {
        self.range_of(start).map_or(start, |range| range.end)
    }

    /// Iterates over the parts of `range` that are not in the set, in ascending order.
    pub(crate) fn gaps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut next = match self.ranges.back() {
            Some(last) if last.end > range.start => self.first_ending_after(range.start),
            _ => self.ranges.len(),
        };
        let mut start = range.start;
        std::iter::from_fn(move || {
            while start < range.end {
                let held = self.ranges.get(next).map_or(range.end..range.end, Clone::clone);
                let gap = start..held.start.min(range.end);
                start = held.end;
                next += 1;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// Iterates over the ranges in ascending order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Range<u64>> + DoubleEndedIterator + '_ {
        self.ranges.iter().cloned()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Range<u64>> {
        self.ranges.get(index)
    }

    /// Returns the index of the first range that ends after `number`; [`RangeSet::len`] if none
    /// does. Searches outwards from index `near`, in O(log d) for a distance d.
    pub(crate) fn first_ending_after_near(&self, number: u64, near: usize) -> usize {
        let ends_before = |index: usize| self.ranges.get(index).is_some_and(|range| range.end <= number);
        let mut low = near.min(self.ranges.len());
        let mut high = low;
        let mut step = 1;
        while ends_before(high) {
            low = high + 1;
            high = (high + step).min(self.ranges.len());
            step *= 2;
        }
        while low > 0 && !ends_before(low - 1) {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
        // Ranges below `low` end at or before `number`; range `high`, if it exists, ends after it.
        while low < high {
            let middle = low + (high - low) / 2;
            if ends_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the first range that starts at `start` or above, else the first (round-robin).
    pub(crate) fn next_round(&self, start: u64) -> Option<Range<u64>> {
        let index = self.ranges.partition_point(|range| range.start < start);
        self.ranges.get(index).or(self.ranges.front()).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.get(self.first_touching(range.start)).is_some_and(|next| next.start <= range.end)
    }

    fn first_touching(&self, start: u64) -> usize {
        self.ranges.partition_point(|range| range.end < start)
    }

    fn first_ending_after(&self, start: u64) -> usize {
        self.ranges.partition_point(|range| range.end <= start)
    }

    fn add(&mut self, index: usize, range: Range<u64>) -> Result<u64, Full> {
        if self.ranges.len() >= self.limit {
            return Err(Full);
        }
        let length = range.end - range.start;
        self.ranges.insert(index, range);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::random;

    impl RangeSet {
        pub(crate) fn contains(&self, number: u64) -> bool {
            self.range_of(number).is_some()
        }
    }

    fn set(ranges: &[Range<u64>]) -> RangeSet {
        let mut set = RangeSet::new(64);
        for range in ranges {
            set.insert(range.clone()).unwrap();
        }
        set
    }

    fn ranges(set: &RangeSet) -> Vec<Range<u64>> {
        set.iter().collect()
    }

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        let mut set = set(&[10..20, 30..40, 50..60]);
        assert_eq!(set.insert(20..25), Ok(5), "after one");
        assert_eq!(set.insert(28..30), Ok(2), "before one");
        assert_eq!(ranges(&set), [10..25, 28..40, 50..60]);
        assert_eq!(set.insert(22..55), Ok(13), "25 to 28 and 40 to 50");
        assert_eq!(ranges(&set), std::slice::from_ref(&(10..60)));
        assert_eq!((set.insert(15..16), set.insert(7..7)), (Ok(0), Ok(0)));
    }

    #[test]
    fn full_set_takes_only_adjacent_ranges() {
        let mut set = RangeSet::new(2);
        assert_eq!((set.insert(10..11), set.insert(20..21)), (Ok(1), Ok(1)));
        for refused in [0..1, 12..13, 30..31] {
            assert!(!set.has_room_for(&refused));
            assert_eq!(set.insert(refused), Err(Full));
        }
        assert!(set.has_room_for(&(11..20)));
        assert_eq!(set.insert(11..20), Ok(9));
        assert_eq!(ranges(&set), std::slice::from_ref(&(10..21)));
    }

    #[test]
    fn largest_number_can_be_held() {
        let mut set = set(&[0..1, u64::MAX - 1..u64::MAX]);
        assert_eq!(set.insert(1..u64::MAX), Ok(u64::MAX - 2));
        assert_eq!(ranges(&set), std::slice::from_ref(&(0..u64::MAX)));
    }

    #[test]
    fn gaps_are_what_is_missing() {
        let set = set(&[10..20, 30..40]);
        assert_eq!(set.gaps(0..50).collect::<Vec<_>>(), [0..10, 20..30, 40..50]);
        assert_eq!(set.gaps(15..35).collect::<Vec<_>>(), std::slice::from_ref(&(20..30)));
        assert_eq!(set.gaps(12..18).count(), 0);
        assert_eq!(set.gaps(40..41).collect::<Vec<_>>(), std::slice::from_ref(&(40..41)));
    }

    #[test]
    fn going_round_starts_again_at_the_first() {
        let set = set(&[10..20, 30..40]);
        assert_eq!(set.next_round(11), Some(30..40));
        assert_eq!(set.next_round(31), Some(10..20));
        assert_eq!(RangeSet::new(1).next_round(0), None);
    }

    #[test]
    fn random_operations_match_bit_table() {
        for seed in 0..300_u64 {
            let mut random = random(seed);
            let mut set = RangeSet::new(12);
            let mut bits = [false; 100];
            for step in 0..200 {
                let start = random(100);
                let end = (start + random(12)).min(100);
                if random(20) == 0 {
                    let below = bits[..index(start)].iter().filter(|bit| **bit).count() as u64;
                    assert_eq!(set.remove_below(start), below, "seed {seed} step {step}");
                    bits[..index(start)].fill(false);
                } else {
                    let new = bits[index(start)..index(end)].iter().filter(|bit| !**bit).count() as u64;
                    let room = set.has_room_for(&(start..end));
                    let gaps: u64 = set.gaps(start..end).map(|gap| gap.end - gap.start).sum();
                    assert_eq!(gaps, new, "seed {seed} step {step}");
                    match set.insert(start..end) {
                        Ok(got) => {
                            assert_eq!((got, room), (new, true), "seed {seed} step {step}");
                            bits[index(start)..index(end)].fill(true);
                        }
                        Err(Full) => assert!(set.len() == 12 && !room, "seed {seed} step {step}"),
                    }
                }
                assert_eq!(ranges(&set), runs(&bits), "seed {seed} step {step}");
                let probe = random(100);
                assert_eq!(set.contains(probe), bits[index(probe)], "seed {seed} step {step}");
                let missing = (probe..100).find(|n| !bits[index(*n)]).unwrap_or(100);
                assert_eq!(set.first_missing(probe), missing, "seed {seed} step {step}");
                let near = index(random(14));
                let place = set.iter().position(|range| range.end > probe).unwrap_or(set.len());
                assert_eq!(set.first_ending_after_near(probe, near), place, "seed {seed} step {step}");
            }
        }
    }

    fn index(number: u64) -> usize {
        usize::try_from(number).unwrap()
    }

    fn runs(bits: &[bool]) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (number, _) in (0..).zip(bits).filter(|(_, bit)| **bit) {
            match runs.last_mut() {
                Some(last) if last.end == number => last.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        runs
    }
}
