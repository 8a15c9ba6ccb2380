//! What an observer of a link asked for beyond the ledger.
//!
//! Owns the measured queue delays and the packets kept for it. Nothing here bears on any packet's fate.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::{LateDrop, Link};
use crate::delay_histogram::DelayHistogram;

/// The default is to watch nothing.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) delays: Option<DelayHistogram>,
    /// The oldest first.
    pub(super) dropped: VecDeque<LateDrop>,
    /// How many of them are kept at most.
    pub(super) most_dropped: usize,
    /// How many were freed because there were more.
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
    /// From now on measures how long each packet waits for the serialiser. A histogram takes some 40 kB.
    pub fn measure_queue_delays(&mut self) {
        self.watch.get_or_insert_default().delays.get_or_insert_default();
    }

    /// Exchanges what [`measure_queue_delays`](Self::measure_queue_delays) has counted in for another, or none: many
    /// links whose packets are counted together borrow one in turn.
    pub fn swap_queue_delays(&mut self, delays: &mut Option<DelayHistogram>) {
        mem::swap(&mut self.watch.get_or_insert_default().delays, delays);
    }

    /// How long packets waited since [`measure_queue_delays`](Self::measure_queue_delays), or `None`
    /// without it.
    pub fn queue_delays(&self) -> Option<&DelayHistogram> {
        self.watch.as_ref()?.delays.as_ref()
    }

    /// From now on keeps packets that are dropped after [`push`](Self::push) took them, for
    /// [`pop_dropped`](Self::pop_dropped): at most this many, and of more the newest. They do not count as
    /// held by the link.
    ///
    /// Otherwise, and with 0, they are freed. The [`Ledger`](crate::Ledger) counts them anyway.
    pub fn keep_dropped(&mut self, most: usize) {
        let watch = self.watch.get_or_insert_default();
        watch.most_dropped = most;
        let beyond = watch.dropped.len().saturating_sub(most);
        watch.dropped.drain(..beyond);
        watch.overlooked += beyond as u64;
    }

    /// The next of the packets kept, in the order in which they were dropped.
    pub fn pop_dropped(&mut self) -> Option<LateDrop> {
        self.watch.as_mut()?.dropped.pop_front()
    }

    /// How many packets were freed that [`pop_dropped`](Self::pop_dropped) would have given if more were kept.
    pub fn overlooked_drops(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.overlooked)
    }

    /// A packet was dropped whose push does not hand it back.
    pub(super) fn keep_drop(&mut self, drop: LateDrop) {
        if let Some(watch) = &mut self.watch {
            watch.on_dropped(drop);
        }
    }
}
