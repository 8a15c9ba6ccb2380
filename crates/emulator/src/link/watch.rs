//! Optional measurements of a link besides its ledger: queueing delays and late drops.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::{LateDrop, Link};
use crate::delay_histogram::DelayHistogram;

#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) delays: Option<DelayHistogram>,
    /// Late drops not yet popped, oldest first.
    pub(super) dropped: VecDeque<LateDrop>,
    /// Limit on the length of `dropped`. 0: none is stored.
    pub(super) most_dropped: usize,
    /// Late drops removed from `dropped` because of `most_dropped`.
    pub(super) overlooked: u64,
}

impl Watch {
    pub(super) fn on_served(&mut self, waited: Duration) {
        if let Some(delays) = &mut self.delays {
            delays.record(waited);
        }
    }

    pub(super) fn on_dropped(&mut self, drop: LateDrop) {
        if self.most_dropped == 0 {
            return;
        }
        if self.dropped.len() >= self.most_dropped {
            self.dropped.pop_front();
            self.overlooked += 1;
        }
        self.dropped.push_back(drop);
    }
}

impl Link {
    /// Starts to measure the queueing delay of each packet. The histogram uses about 40 kB.
    pub fn measure_queue_delays(&mut self) {
        self.watch.get_or_insert_default().delays.get_or_insert_default();
    }

    /// Exchanges the link's histogram of queueing delays with `delays`; `None` stops the
    /// measurement. Several links can thus add to one histogram in turn.
    pub fn swap_queue_delays(&mut self, delays: &mut Option<DelayHistogram>) {
        mem::swap(&mut self.watch.get_or_insert_default().delays, delays);
    }

    /// Returns the queueing delays since [`measure_queue_delays`](Self::measure_queue_delays).
    /// `None` if the link does not measure them.
    pub fn queue_delays(&self) -> Option<&DelayHistogram> {
        self.watch.as_ref()?.delays.as_ref()
    }

    /// Starts to store packets that are dropped after their [`push`](Self::push) succeeded, for
    /// [`pop_dropped`](Self::pop_dropped). Stores at most `most` of them and frees the oldest
    /// first. They do not count towards the memory limit.
    ///
    /// By default, and if `most` is 0, none is stored; the [`Ledger`](crate::Ledger) counts them.
    pub fn keep_dropped(&mut self, most: usize) {
        let watch = self.watch.get_or_insert_default();
        watch.most_dropped = most;
        let beyond = watch.dropped.len().saturating_sub(most);
        watch.dropped.drain(..beyond);
        watch.overlooked += beyond as u64;
    }

    /// Returns whether the link can drop packets after their [`push`](Self::push) succeeded.
    pub fn drops_late(&self) -> bool {
        self.impairments.is_some() || (self.managed.is_some() && !self.decides_on_arrival())
    }

    /// Removes and returns the oldest stored drop.
    pub fn pop_dropped(&mut self) -> Option<LateDrop> {
        self.watch.as_mut()?.dropped.pop_front()
    }

    /// Returns the number of late drops freed because of the limit of
    /// [`keep_dropped`](Self::keep_dropped).
    pub fn overlooked_drops(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.overlooked)
    }

    pub(super) fn keep_drop(&mut self, drop: LateDrop) {
        if let Some(watch) = &mut self.watch {
            watch.on_dropped(drop);
        }
    }
}
