//! Optional measurements of a link: queueing delays, late drops, busy periods, length of the queue.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use super::{LateDrop, Link};
use crate::delay_histogram::DelayHistogram;
use crate::packet::Service;
use crate::time::saturating_add;

#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) delays: Option<DelayHistogram>,
    /// Late drops not yet popped, oldest first.
    pub(super) dropped: VecDeque<LateDrop>,
    /// Limit on the length of `dropped`. 0: none is stored.
    pub(super) max_stored_drops: usize,
    /// Late drops removed from `dropped` because of `max_stored_drops`.
    pub(super) freed_drops: u64,
    /// Busy periods so far. `None`: not recorded.
    pub(super) busy: Option<BusyPeriods>,
}

/// Busy periods of a link, of which short ones are not kept.
#[derive(Debug, Default)]
pub(super) struct BusyPeriods {
    periods: Vec<BusyPeriod>,
    /// Shortest period that is kept, except the last one, which may become longer.
    min_period: Duration,
}

impl BusyPeriods {
    fn add(&mut self, period: BusyPeriod) {
        match self.periods.last_mut() {
            Some(last) if period.from <= last.to => last.to = last.to.max(period.to),
            Some(last) if last.to.saturating_duration_since(last.from) < self.min_period => *last = period,
            _ => self.periods.push(period),
        }
    }
}

/// A time in which packets were waiting or in service without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyPeriod {
    /// Arrival of the first packet at an idle link.
    pub from: Instant,
    /// End of the service of the last packet.
    pub to: Instant,
}

/// Packets that count towards the queue limit of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queued {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths, bytes on the wire. Zero without [`Link::count_queued_bytes`], unless
    /// the queue limit is in bytes.
    pub bytes: u64,
}

impl Watch {
    pub(super) fn on_served(&mut self, enters: Instant, service: Service) {
        if let Some(delays) = &mut self.delays {
            delays.record(service.start.saturating_duration_since(enters));
        }
        if let Some(busy) = &mut self.busy {
            busy.add(BusyPeriod { from: enters, to: saturating_add(service.start, service.busy) });
        }
    }

    pub(super) fn on_dropped(&mut self, drop: LateDrop) {
        if self.max_stored_drops == 0 {
            return;
        }
        if self.dropped.len() >= self.max_stored_drops {
            self.dropped.pop_front();
            self.freed_drops += 1;
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

    /// Starts to record busy periods of at least this length, for
    /// [`busy_periods`](Self::busy_periods). Several calls: the shortest of their lengths.
    pub fn record_busy_periods(&mut self, min_period: Duration) {
        let busy = &mut self.watch.get_or_insert_default().busy;
        let busy = busy.get_or_insert_with(|| BusyPeriods { min_period, ..BusyPeriods::default() });
        busy.min_period = busy.min_period.min(min_period);
    }

    /// Returns the busy periods so far, in order. The last one may be shorter than those that are
    /// recorded, and may end later: it covers the packets served so far. Empty without
    /// [`record_busy_periods`](Self::record_busy_periods).
    pub fn busy_periods(&self) -> &[BusyPeriod] {
        self.watch.as_ref().and_then(|watch| watch.busy.as_ref()).map_or(&[], |busy| &busy.periods)
    }

    /// Returns how long the packets admitted so far occupy the link after `now`.
    /// [`Ledger::busy`](crate::Ledger::busy) includes this time.
    pub fn backlog(&self, now: Instant) -> Duration {
        self.serialiser.next_start(now).saturating_duration_since(now)
    }

    /// Counts the bytes of queued packets from now on, for [`Path::queued`](crate::Path::queued).
    ///
    /// # Panics
    /// If packets are queued.
    pub fn count_queued_bytes(&mut self) {
        self.queue.count_bytes();
    }

    /// Returns the packets queued at `now`. The caller must not push with an earlier time later.
    pub(crate) fn queued(&mut self, now: Instant) -> Queued {
        if self.managed.is_some() {
            self.settle(now, Duration::ZERO);
        }
        self.queue.queued(now)
    }

    /// Starts to store packets that are dropped after their [`push`](Self::push) succeeded, for
    /// [`pop_dropped`](Self::pop_dropped). Stores at most `max` of them and frees the oldest first.
    /// They do not count towards the memory limit.
    ///
    /// By default, and if `max` is 0, none is stored; the [`Ledger`](crate::Ledger) counts them.
    pub fn keep_dropped(&mut self, max: usize) {
        let watch = self.watch.get_or_insert_default();
        watch.max_stored_drops = max;
        let beyond = watch.dropped.len().saturating_sub(max);
        watch.dropped.drain(..beyond);
        watch.freed_drops += beyond as u64;
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
    pub fn freed_drops(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.freed_drops)
    }

    pub(super) fn keep_drop(&mut self, drop: LateDrop) {
        if let Some(watch) = &mut self.watch {
            watch.on_dropped(drop);
        }
    }
}
