//! Measurements of a link beyond the ledger: queueing delays and late drops.
//!
//! They change no packet's fate.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::{LateDrop, Link};
use crate::delay_histogram::DelayHistogram;

/// By default nothing is measured.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) delays: Option<DelayHistogram>,
    /// Oldest first.
    pub(super) dropped: VecDeque<LateDrop>,
    /// Limit on the number of kept drops.
    pub(super) most_dropped: usize,
    /// Drops freed because of that limit.
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
    /// Starts to measure the queueing delay of each packet. A histogram takes about 40 kB.
    pub fn measure_queue_delays(&mut self) {
        self.watch.get_or_insert_default().delays.get_or_insert_default();
    }

    /// Exchanges the histogram of [`measure_queue_delays`](Self::measure_queue_delays) for another,
    /// or for none. Many links counted together can thus share one.
    pub fn swap_queue_delays(&mut self, delays: &mut Option<DelayHistogram>) {
        mem::swap(&mut self.watch.get_or_insert_default().delays, delays);
    }

    /// The queueing delays since [`measure_queue_delays`](Self::measure_queue_delays), or `None`
    /// without it.
    pub fn queue_delays(&self) -> Option<&DelayHistogram> {
        self.watch.as_ref()?.delays.as_ref()
    }

    /// Starts to keep packets that are dropped after [`push`](Self::push) accepted them, for
    /// [`pop_dropped`](Self::pop_dropped). Beyond `most` packets the oldest are freed. They do not
    /// count as held by the link.
    ///
    /// By default, and with 0, they are freed. The [`Ledger`](crate::Ledger) counts them in any
    /// case.
    pub fn keep_dropped(&mut self, most: usize) {
        let watch = self.watch.get_or_insert_default();
        watch.most_dropped = most;
        let beyond = watch.dropped.len().saturating_sub(most);
        watch.dropped.drain(..beyond);
        watch.overlooked += beyond as u64;
    }

    /// The next kept packet, in the order of the drops.
    pub fn pop_dropped(&mut self) -> Option<LateDrop> {
        self.watch.as_mut()?.dropped.pop_front()
    }

    /// Packets freed because more than [`keep_dropped`](Self::keep_dropped) allows were dropped.
    pub fn overlooked_drops(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.overlooked)
    }

    /// Keeps a packet that was dropped although its push succeeded.
    pub(super) fn keep_drop(&mut self, drop: LateDrop) {
        if let Some(watch) = &mut self.watch {
            watch.on_dropped(drop);
        }
    }
}
