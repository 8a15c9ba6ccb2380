//! Propagation delay, jitter and reordering.
//!
//! Packets arrive in the order in which they were sent unless the configuration enables reordering.

use std::time::{Duration, Instant};

use crate::draw::{Draws, Stage};
use crate::probability::Probability;
use crate::time::{nanos, saturating_add};

/// Variation of the propagation delay from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// Distribution of the difference from the configured delay.
    pub shape: JitterShape,
    /// True if no packet arrives before a packet that was sent earlier. Otherwise it may overtake.
    pub keeps_order: bool,
}

/// Distribution of the difference from the configured delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterShape {
    /// Uniform from zero to below this duration, so that the configured delay is the shortest.
    Uniform(Duration),
    /// Nearly normal with mean zero and this standard deviation. A negative delay becomes zero.
    ///
    /// The difference is a sum of four uniform numbers (J. Irwin and P. Hall, Biometrika 19, 1927),
    /// so it never exceeds 3.47 standard deviations.
    Normal(Duration),
}

impl Jitter {
    /// Returns jitter that is uniform from zero to below `spread` and preserves the packets' order.
    pub const fn uniform(spread: Duration) -> Self {
        Self { shape: JitterShape::Uniform(spread), keeps_order: true }
    }

    /// Returns jitter that is approximately normal around the configured delay, with this standard
    /// deviation, and preserves the order of packets.
    pub const fn normal(deviation: Duration) -> Self {
        Self { shape: JitterShape::Normal(deviation), keeps_order: true }
    }

    /// Lets packets with a shorter delay overtake packets with a longer one.
    #[must_use]
    pub const fn unordered(self) -> Self {
        Self { keeps_order: false, ..self }
    }
}

/// Extra delay of randomly chosen packets, so that later packets overtake them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Probability that a packet gets the extra delay.
    pub probability: Probability,
    /// Extra delay of a chosen packet, added to its propagation delay.
    pub extra: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Delay {
    propagation: Duration,
    variation: Option<Box<Variation>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) due: Instant,
    /// True if [`Reorder`] delayed the packet.
    pub(crate) held_back: bool,
}

#[derive(Debug, Clone)]
struct Variation {
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    /// Arrival time of the last packet that [`Reorder`] did not delay. `None` before the first.
    last: Option<Instant>,
}

impl Delay {
    pub(crate) const fn new(propagation: Duration) -> Self {
        Self { propagation, variation: None }
    }

    pub(crate) fn varied(self, jitter: Option<Jitter>, reorder: Option<Reorder>) -> Self {
        let variation = (jitter.is_some() || reorder.is_some())
            .then(|| Box::new(Variation { jitter, reorder, last: None }));
        Self { variation, ..self }
    }

    /// Changes the delay of packets that are sent from now on. Ordered jitter delivers them after
    /// those that were sent before.
    pub(crate) fn change(&mut self, propagation: Duration, jitter: Option<Jitter>, reorder: Option<Reorder>) {
        let last = self.variation.as_ref().and_then(|variation| variation.last);
        *self = Self::new(propagation).varied(jitter, reorder);
        if let Some(variation) = &mut self.variation {
            variation.last = last;
        }
    }

    /// Returns the shortest delay that a packet can have.
    pub(crate) fn least(&self) -> Duration {
        let jitter = self.variation.as_ref().and_then(|variation| variation.jitter);
        match jitter.map(|jitter| jitter.shape) {
            None | Some(JitterShape::Uniform(_)) => self.propagation,
            Some(JitterShape::Normal(_)) => Duration::ZERO,
        }
    }

    /// Returns whether packets always arrive in the order in which they were sent.
    pub(crate) fn keeps_order(&self) -> bool {
        self.variation.as_ref().is_none_or(|variation| {
            variation.reorder.is_none() && variation.jitter.is_none_or(|jitter| jitter.keeps_order)
        })
    }

    /// Returns when a bit that is sent at `sent_at` arrives, without jitter and reordering.
    pub(crate) fn arrival(&self, sent_at: Instant) -> Instant {
        saturating_add(sent_at, self.propagation)
    }

    /// Returns the arrival of a packet whose last bit is sent at `sent_at`.
    pub(crate) fn travel(&mut self, sent_at: Instant, draws: Draws) -> Arrival {
        match &mut self.variation {
            None => Arrival { due: self.arrival(sent_at), held_back: false },
            Some(variation) => variation.travel(sent_at, self.propagation, draws),
        }
    }
}

impl Variation {
    #[cold]
    fn travel(&mut self, sent_at: Instant, propagation: Duration, draws: Draws) -> Arrival {
        let delay = self.jitter.map_or(propagation, |jitter| jitter.shape.applied(propagation, draws));
        let due = saturating_add(sent_at, delay);
        if let Some(Reorder { probability, extra }) = self.reorder
            && probability.happens(draws.at(Stage::Reorder))
        {
            return Arrival { due: saturating_add(due, extra), held_back: true };
        }
        let keeps_order = self.jitter.is_none_or(|jitter| jitter.keeps_order);
        let due = self.last.filter(|_| keeps_order).map_or(due, |last| last.max(due));
        self.last = Some(due);
        Arrival { due, held_back: false }
    }
}

impl JitterShape {
    /// Returns the delay with jitter of a packet; `propagation` is the configured delay.
    fn applied(self, propagation: Duration, draws: Draws) -> Duration {
        let draw = draws.at(Stage::Jitter);
        match self {
            Self::Uniform(spread) => {
                propagation.saturating_add(Duration::from_nanos(share(draw, nanos(spread))))
            }
            Self::Normal(deviation) => {
                let (is_shorter, distance) = normal(draw, nanos(deviation));
                let distance = Duration::from_nanos(distance);
                if is_shorter {
                    propagation.saturating_sub(distance)
                } else {
                    propagation.saturating_add(distance)
                }
            }
        }
    }
}

/// Maps a uniform draw to a whole number from 0 to below `bound`, or to 0 if `bound` is 0.
const fn share(draw: u64, bound: u64) -> u64 {
    ((draw as u128 * bound as u128) >> u64::BITS) as u64
}

/// Returns whether an approximately normal number with mean zero is negative, and its magnitude,
/// rounded down.
fn normal(draw: u64, deviation: u64) -> (bool, u64) {
    /// Mean of the sum of four numbers that are uniform from 0 to 65,535.
    const MEAN: u64 = 2 * 65_535;
    /// 1000 times the standard deviation of that sum. The variance of each number is (2^32 - 1) /
    /// 12, so the sum's standard deviation is sqrt((2^32 - 1) / 3).
    const DEVIATION_MILLI: u128 = 37_837_227;

    let sum: u64 = (0..4).map(|part| (draw >> (16 * part)) & 0xffff).sum();
    let distance = u128::from(sum.abs_diff(MEAN)) * 1_000 * u128::from(deviation) / DEVIATION_MILLI;
    (sum < MEAN, u64::try_from(distance).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
