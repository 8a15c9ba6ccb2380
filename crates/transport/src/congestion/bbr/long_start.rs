//! `Startup` on long paths: a deviation, switched by [`BbrConfig::long_start`](super::BbrConfig).
//! At RTTs of 100 ms and more, growth per RTT takes seconds, longer than a short transfer.
//!
//! - Initial window: that of RFC 6928 for each 50 ms of RTT, up to twelve. Its rate equals that of
//!   one such window at an RTT of 50 ms.
//! - Packet trains: segments leave in trains of 16, large enough for four ACKs even on a slow
//!   return path. The dispersion of the ACKs gives the bottleneck rate after one RTT (`trains.rs`).
//! - Rate: half the estimate, as in picoquic; all of it if trains agree in rate and RTT. They do
//!   not agree if the queue of other flows changes or if hosts coalesce packets.
//! - Step: at most 80 times the rate delivered before, 8 times if trains do not agree. Reason: a
//!   token bucket passes each train at the rate of the link before it.
//! - Ceiling: 1.25 times the estimate. A round at the estimate without a queue shows that the
//!   estimate was too low (ACKs that share a slow return path), and triples the ceiling.
//!
//! The first sign of a queue ends this phase.

use super::math::{gain, mul_div, volume};
use super::{AckEvent, Bbr, State};
use crate::congestion::TrainRate;
use std::time::Duration;

/// Shortest RTT of a long path.
const LONG_RTT: Duration = Duration::from_millis(100);
/// RTT per initial window of RFC 6928: a path of twice this RTT starts with two.
const WINDOW_RTT: Duration = Duration::from_millis(50);
/// Largest number of initial windows in the first flight.
const MAX_WINDOWS: u128 = 12;
const TRAIN_SEGMENTS: u64 = 16;
/// Largest rate increase, as a factor, if trains agree.
const MAX_STEADY_STEP: u64 = 80;
/// Largest rate increase, as a factor, if trains do not agree.
const MAX_UNSTEADY_STEP: u64 = 8;
/// Share of the estimate used if trains do not agree, thousandths.
const UNSTEADY_SHARE_PERMILLE: u64 = 500;
/// Ceiling relative to the estimate, thousandths.
const CEILING_GAIN_PERMILLE: u64 = 1250;
/// Share of the ceiling that must be delivered without a queue to raise it, thousandths.
const RAISE_SHARE_PERMILLE: u64 = 850;
/// Share of the ceiling that indicates a full pipe if delivered with a queue, thousandths.
const FULL_SHARE_PERMILLE: u64 = 750;

/// Bounds of the pacing rate set by packet trains.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LongStart {
    pub(super) on: bool,
    /// Lowest pacing rate, bytes per second; 0 before the first estimate.
    floor: u64,
    /// Highest pacing rate, bytes per second; 0 before the first estimate.
    ceiling: u64,
}

/// Returns the number of initial windows in the first flight at this RTT.
pub(super) fn initial_windows(rtt: Option<Duration>) -> u64 {
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
        self.start.trains.on && self.state == State::Startup && self.start.triples
    }

    /// Returns the size of a train, bytes; 0 if no trains are sent.
    pub(super) fn train_bytes(&self) -> u64 {
        if self.starts_long() { TRAIN_SEGMENTS * self.config.mss } else { 0 }
    }

    /// Returns the estimated transmission time of a train at the bottleneck, which must not count
    /// as a queue.
    pub(super) fn train_time(&self) -> Duration {
        let rate = self.max_bw.max().max(self.start.trains.floor);
        let nanos = mul_div(self.train_bytes(), 1_000_000_000, rate.max(1));
        if rate == 0 { Duration::ZERO } else { Duration::from_nanos(nanos) }
    }

    pub(super) fn take_train(&mut self, train: TrainRate) {
        if !self.starts_long() {
            return;
        }
        let (share, step) =
            if train.steady { (1000, MAX_STEADY_STEP) } else { (UNSTEADY_SHARE_PERMILLE, MAX_UNSTEADY_STEP) };
        // The first flight, in bytes per second: the rate before the first sample.
        let first = self.config.initial_rtt.map_or(0, |rtt| {
            mul_div(
                self.config.initial_cwnd,
                1_000_000_000,
                u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX),
            )
        });
        let before = self.max_bw.max().max(first);
        let floor = gain(train.rate, share).min(before.saturating_mul(step));
        self.start.trains.floor = self.start.trains.floor.max(floor);
        self.start.trains.ceiling = self.start.trains.ceiling.max(gain(train.rate, CEILING_GAIN_PERMILLE));
    }

    /// Limits the pacing rate of `Startup` to the ceiling and, while the rate triples, to the floor
    /// that trains set. `None` if trains do not apply.
    pub(super) fn clamp_to_trains(&self, rate: u64) -> Option<u64> {
        let LongStart { on, floor, ceiling } = self.start.trains;
        let floor = if self.start.triples { floor } else { 0 };
        (on && self.state == State::Startup && ceiling > 0).then(|| rate.min(ceiling).max(floor))
    }

    /// Returns the lower limit of the window that trains set, bytes; 0 for none.
    pub(super) fn train_window(&self) -> u64 {
        match self.min_rtt.get() {
            Some(min_rtt) if self.starts_long() => {
                volume(self.start.trains.floor, min_rtt) + 2 * self.train_bytes()
            }
            _ => 0,
        }
    }

    /// Triples the ceiling after a round near it without a queue.
    pub(super) fn raise_ceiling(&mut self) {
        let ceiling = self.start.trains.ceiling;
        if self.starts_long() && self.max_bw.max() >= gain(ceiling, RAISE_SHARE_PERMILLE) {
            self.start.trains.ceiling = ceiling.saturating_mul(3);
        }
    }

    /// True if the pipe delivers nearly the ceiling and has a queue.
    pub(super) fn fills_train_estimate(&self, event: &AckEvent) -> bool {
        let LongStart { on, ceiling, .. } = self.start.trains;
        on && self.state == State::Startup
            && ceiling > 0
            && self.max_bw.max() >= gain(ceiling, FULL_SHARE_PERMILLE)
            && self.shows_queue(event)
    }
}
