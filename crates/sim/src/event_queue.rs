//! Priority queue of events. Events of the same time are in the order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Reverse<(Instant, u64, T)>>,
    inserted: u64,
}

impl<T: Ord> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }

    pub(crate) fn insert(&mut self, time: Instant, item: T) {
        self.heap.push(Reverse((time, self.inserted, item)));
        self.inserted += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<(Instant, T)> {
        self.heap.pop().map(|Reverse((time, _, item))| (time, item))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ties_keep_order_of_insertion() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let t0 = Instant::now();
        let mut events = EventQueue::new();
        for (ms, item) in [(5, 'a'), (3, 'z'), (5, 'b'), (3, 'y')] {
            events.insert(t0 + Duration::from_millis(ms), item);
        }
        let order: String = std::iter::from_fn(|| events.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, "zyab");
    }
}
