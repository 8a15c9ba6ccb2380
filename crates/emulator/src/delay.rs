//! Propagation: how long a bit travels once it is on the wire.
//!
//! Owns the delay between the end of serialisation and the arrival, how it varies, and who may
//! overtake whom. It knows nothing of rates or queues, and holds no packets. Unless told otherwise it
//! keeps packets in order.

use std::time::{Duration, Instant};

use crate::draw::{Draws, Stage};
use crate::probability::Probability;
use crate::time::{nanos, saturating_add};

/// How the delay of a packet differs from the configured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter {
    /// How the differences are distributed.
    pub shape: JitterShape,
    /// Whether a packet waits for the one before it, rather than overtake it.
    pub keeps_order: bool,
}

/// A distribution of differences from the configured delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterShape {
    /// Uniform from zero up to and excluding this: the configured delay is the shortest.
    Uniform(Duration),
    /// Close to normal with mean zero and this standard deviation: the sum of four uniform numbers
    /// (the distribution of J. Irwin and P. Hall, Biometrika 19, 1927), which is never further from
    /// the mean than 3.47 standard deviations. A delay that would be negative is zero.
    Normal(Duration),
}

impl Jitter {
    /// Uniform from zero up to `spread`, in order.
    pub const fn uniform(spread: Duration) -> Self {
        Self { shape: JitterShape::Uniform(spread), keeps_order: true }
    }

    /// Close to normal around the configured delay, with this standard deviation, in order.
    pub const fn normal(deviation: Duration) -> Self {
        Self { shape: JitterShape::Normal(deviation), keeps_order: true }
    }

    /// The same, but packets with a shorter delay overtake those with a longer one.
    #[must_use]
    pub const fn unordered(self) -> Self {
        Self { keeps_order: false, ..self }
    }
}

/// Packets held back on purpose, so that others overtake them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Of a packet being held back.
    pub probability: Probability,
    /// How much longer than the others it travels.
    pub extra: Duration,
}

/// A wire of fixed length, or one that seems to change.
#[derive(Debug, Clone)]
pub(crate) struct Delay {
    propagation: Duration,
    variation: Option<Box<Variation>>,
}

/// When a packet arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) due: Instant,
    /// Whether it was held back for others to overtake.
    pub(crate) held_back: bool,
}

#[derive(Debug, Clone)]
struct Variation {
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    /// When the last packet that was not held back arrives.
    last: Option<Instant>,
}

impl Delay {
    pub(crate) const fn new(propagation: Duration) -> Self {
        Self { propagation, variation: None }
    }

    /// The same wire with what makes it vary, if anything does.
    pub(crate) fn varied(self, jitter: Option<Jitter>, reorder: Option<Reorder>) -> Self {
        let variation = (jitter.is_some() || reorder.is_some())
            .then(|| Box::new(Variation { jitter, reorder, last: None }));
        Self { variation, ..self }
    }

    /// No packet arrives sooner after its last bit left.
    pub(crate) fn least(&self) -> Duration {
        let jitter = self.variation.as_ref().and_then(|variation| variation.jitter);
        match jitter.map(|jitter| jitter.shape) {
            None | Some(JitterShape::Uniform(_)) => self.propagation,
            Some(JitterShape::Normal(_)) => Duration::ZERO,
        }
    }

    /// Whether packets arrive in the order in which they left.
    pub(crate) fn keeps_order(&self) -> bool {
        self.variation.as_ref().is_none_or(|variation| {
            variation.reorder.is_none() && variation.jitter.is_none_or(|jitter| jitter.keeps_order)
        })
    }

    /// When the last bit arrives, if it left at `sent_at` and nothing varies.
    pub(crate) fn arrival(&self, sent_at: Instant) -> Instant {
        saturating_add(sent_at, self.propagation)
    }

    /// When the last bit of the packet with these draws arrives, if it left at `sent_at`.
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
    /// The delay of the packet with these draws, if the configured one is `propagation`.
    fn applied(self, propagation: Duration, draws: Draws) -> Duration {
        let draw = draws.at(Stage::Jitter);
        match self {
            Self::Uniform(spread) => {
                propagation.saturating_add(Duration::from_nanos(share(draw, nanos(spread))))
            }
            Self::Normal(deviation) => {
                let (sign, distance) = normal(draw, nanos(deviation));
                let distance = Duration::from_nanos(distance);
                match sign {
                    Sign::Shorter => propagation.saturating_sub(distance),
                    Sign::Longer => propagation.saturating_add(distance),
                }
            }
        }
    }
}

enum Sign {
    Shorter,
    Longer,
}

/// `bound` times the draw as a fraction of 2^64, rounded down: below `bound`, or zero.
const fn share(draw: u64, bound: u64) -> u64 {
    ((draw as u128 * bound as u128) >> u64::BITS) as u64
}

/// A number from a nearly normal distribution with mean zero: its sign and its size, rounded down.
fn normal(draw: u64, deviation: u64) -> (Sign, u64) {
    /// The mean of the sum of four numbers from 0 to 65,535.
    const MEAN: u64 = 2 * 65_535;
    /// The standard deviation of the sum, times 1000: the variance of each is (2^32 - 1) / 12, so this is
    /// 1000 * sqrt((2^32 - 1) / 3).
    const DEVIATION_MILLI: u128 = 37_837_227;

    let sum: u64 = (0..4).map(|part| (draw >> (16 * part)) & 0xffff).sum();
    let distance = u128::from(sum.abs_diff(MEAN)) * 1_000 * u128::from(deviation) / DEVIATION_MILLI;
    let sign = if sum < MEAN { Sign::Shorter } else { Sign::Longer };
    (sign, u64::try_from(distance).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
