//! The start on long paths, a deviation switched by [`BbrConfig::long_start`](super::BbrConfig): where a round trip takes
//! 100 ms and more, growth by the round trip takes seconds in which short transfers end.
//!
//! The first window is that of RFC 6928 for each 50 ms of round trip, up to twelve times, so its rate is that of such a
//! window where round trips are 50 ms. Segments leave in trains of sixteen, of which four ACKs tell even where the way back is thin, and the
//! dispersion of their ACKs tells the bottleneck's rate after one round trip (`trains.rs`). As picoquic does, half of that
//! is sent at from there on; all of it where trains agree in rate and round trip, which a queue of others in motion or
//! hosts that join packets do not let them. No step is more than 80 times what was delivered before (8 times where trains
//! do not agree): a token bucket passes each train at the rate of the link before it.
//!
//! Until a round that is sent at the estimate shows no queue, no more than 1.25 times the estimate is sent: then the
//! estimate was too low (ACKs that share a slow way back), and the bound is tripled. At the first sign of a queue the start
//! is over.

use super::math::{gain, mul_div, volume};
use super::{AckEvent, Bbr, State};
use crate::congestion::TrainRate;
use std::time::Duration;

/// The shortest round trip that counts as long.
const LONG_RTT: Duration = Duration::from_millis(100);
/// Round trip that one first window is meant for.
const WINDOW_RTT: Duration = Duration::from_millis(50);
/// Largest number of first windows in the first flight.
const MAX_WINDOWS: u128 = 12;
/// Segments of a train.
const TRAIN_SEGMENTS: u64 = 16;
/// Steps at most, with trains that agree and without.
const STEADY_STEP: u64 = 80;
const STEP: u64 = 8;
/// What of an estimate is used at once where trains do not agree, thousandths.
const UNSTEADY_SHARE: u64 = 500;
/// How far beyond the estimate the start goes before it is confirmed, thousandths.
const CEILING: u64 = 1250;
/// A round that delivered this share of the bound without a queue shows that it was too low, thousandths.
const CONFIRMED: u64 = 850;
/// A pipe that delivers this share of the bound with a queue is full, thousandths.
const FULL: u64 = 750;

/// Bounds that packet trains set on the pace of the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LongStart {
    on: bool,
    /// Bytes per second to send at least; 0 before the first estimate.
    floor: u64,
    /// Bytes per second to send at most; 0 before the first estimate.
    ceiling: u64,
}

/// How many first windows there are in the first flight of a path with this round trip.
pub(super) fn windows(rtt: Option<Duration>) -> u64 {
    let long = rtt.filter(|rtt| *rtt >= LONG_RTT);
    let windows = long.map_or(1, |rtt| (rtt.as_nanos() / WINDOW_RTT.as_nanos()).min(MAX_WINDOWS));
    u64::try_from(windows).unwrap_or(1)
}

impl LongStart {
    pub(super) fn new(on: bool, rtt: Option<Duration>) -> Self {
        Self { on: on && rtt.is_some_and(|rtt| rtt >= LONG_RTT), ..Self::default() }
    }
}

impl Bbr {
    fn starts_long(&self) -> bool {
        self.long_start.on && self.state == State::Startup && self.fast_startup
    }

    /// Bytes that leave together; 0 where nothing is to be learnt from it.
    pub(super) fn train_bytes(&self) -> u64 {
        if self.starts_long() { TRAIN_SEGMENTS * self.config.mss } else { 0 }
    }

    /// How long the bottleneck takes for a train, as far as it is known: that is no queue.
    pub(super) fn train_time(&self) -> Duration {
        let rate = self.max_bw.max().max(self.long_start.floor);
        let nanos = mul_div(self.train_bytes(), 1_000_000_000, rate.max(1));
        if rate == 0 { Duration::ZERO } else { Duration::from_nanos(nanos) }
    }

    pub(super) fn take_train(&mut self, train: TrainRate) {
        if !self.starts_long() {
            return;
        }
        let (share, step) = if train.steady { (1000, STEADY_STEP) } else { (UNSTEADY_SHARE, STEP) };
        // The first flight is on its way: what of it arrived is the least that it will deliver.
        let first = self.config.initial_rtt.map_or(0, |rtt| {
            mul_div(
                self.config.initial_cwnd,
                1_000_000_000,
                u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX),
            )
        });
        let before = self.max_bw.max().max(first);
        let floor = gain(train.rate, share).min(before.saturating_mul(step));
        self.long_start.floor = self.long_start.floor.max(floor);
        self.long_start.ceiling = self.long_start.ceiling.max(gain(train.rate, CEILING));
    }

    /// Keeps the pace of the start between what trains allow; after its tripling part, below that.
    pub(super) fn within_trains(&self, rate: u64) -> Option<u64> {
        let LongStart { on, floor, ceiling } = self.long_start;
        let floor = if self.fast_startup { floor } else { 0 };
        (on && self.state == State::Startup && ceiling > 0).then(|| rate.min(ceiling).max(floor))
    }

    /// Bytes to have in flight at least.
    pub(super) fn train_window(&self) -> u64 {
        match self.min_rtt.get() {
            Some(min_rtt) if self.starts_long() => {
                volume(self.long_start.floor, min_rtt) + 2 * self.train_bytes()
            }
            _ => 0,
        }
    }

    /// A round is over, without a queue.
    pub(super) fn raise_ceiling(&mut self) {
        let ceiling = self.long_start.ceiling;
        if self.starts_long() && self.max_bw.max() >= gain(ceiling, CONFIRMED) {
            self.long_start.ceiling = ceiling.saturating_mul(3);
        }
    }

    /// There is a queue, and the pipe delivers what trains told of it.
    pub(super) fn fills_what_trains_told(&self, event: &AckEvent) -> bool {
        let LongStart { on, ceiling, .. } = self.long_start;
        on && self.state == State::Startup
            && ceiling > 0
            && self.max_bw.max() >= gain(ceiling, FULL)
            && self.shows_queue(event)
    }
}
