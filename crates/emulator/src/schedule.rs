//! A value that changes at given times.
//!
//! Times count from the start of the link ([`Link::start`](crate::Link::start)).

use std::time::Duration;

/// A first value and later values, each valid from a time on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule<T> {
    first: T,
    /// Time and new value of each change, in ascending order of time. No time occurs twice.
    changes: Vec<(Duration, T)>,
}

impl<T: Copy> Schedule<T> {
    /// Returns a schedule whose value never changes.
    pub const fn constant(value: T) -> Self {
        Self { first: value, changes: Vec::new() }
    }

    /// Returns a schedule of `first` and of each value in `changes` from its time on.
    ///
    /// The changes may be in any order. Of several at the same time the last in the list applies.
    pub fn new(first: T, changes: impl IntoIterator<Item = (Duration, T)>) -> Self {
        changes.into_iter().fold(Self::constant(first), |schedule, (at, value)| schedule.then(at, value))
    }

    /// Adds a change to `value` at the time `at`, or replaces an earlier change at that time.
    #[must_use]
    pub fn then(mut self, at: Duration, value: T) -> Self {
        match self.changes.binary_search_by_key(&at, |change| change.0) {
            Ok(same) => self.changes[same].1 = value,
            Err(place) => self.changes.insert(place, (at, value)),
        }
        self
    }

    /// Returns the value at `elapsed` since the start. A change at exactly that time is in effect.
    pub fn at(&self, elapsed: Duration) -> T {
        self.stretch(self.changes.partition_point(|change| change.0 <= elapsed)).0
    }

    /// Returns true if the value never changes.
    pub const fn is_constant(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the value at the start and the later values, in the order of time.
    pub fn values(&self) -> impl Iterator<Item = T> {
        std::iter::once(self.first).chain(self.changes.iter().map(|change| change.1))
    }

    /// Returns the value at the start, and the time and new value of each change.
    #[cfg(feature = "spec")]
    pub(crate) fn parts(&self) -> (T, &[(Duration, T)]) {
        (self.first, &self.changes)
    }

    /// Applies `change` to every value; the times stay the same.
    pub(crate) fn map<U>(&self, mut change: impl FnMut(T) -> U) -> Schedule<U> {
        let changes = self.changes.iter().map(|&(at, value)| (at, change(value))).collect();
        Schedule { first: change(self.first), changes }
    }

    /// Returns the value after the first `changes` changes, and the time of the next, if any.
    pub(crate) fn stretch(&self, changes: usize) -> (T, Option<Duration>) {
        let value = changes.checked_sub(1).map_or(self.first, |last| self.changes[last].1);
        (value, self.changes.get(changes).map(|change| change.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdt_testing::{just_before, ms};

    #[test]
    fn change_applies_at_its_own_time() {
        let schedule = Schedule::new(1, [(ms(20), 3), (ms(10), 2)]);
        let seen =
            [ms(0), just_before(ms(10)), ms(10), ms(19), ms(20), Duration::MAX].map(|at| schedule.at(at));
        assert_eq!(seen, [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn last_of_simultaneous_changes_counts() {
        let schedule = Schedule::constant(1).then(ms(5), 2).then(ms(5), 3);
        assert_eq!(schedule, Schedule::new(1, [(ms(5), 3)]));
    }

    #[test]
    fn stretches_follow_each_other() {
        let schedule = Schedule::new(1, [(ms(10), 2), (ms(20), 3)]);
        let stretches = [0, 1, 2].map(|n| schedule.stretch(n));
        assert_eq!(stretches, [(1, Some(ms(10))), (2, Some(ms(20))), (3, None)]);
    }
}
