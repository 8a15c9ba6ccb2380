//! Loss models: which packets are lost on arrival.
//!
//! A model uses the numbers of packets, not their contents or times. Whether packet `n` is lost is
//! a pure function of the seed and `n`. This includes models with memory, whose state after each
//! packet follows from the seed. [`Loss::Steps`] also uses the time of the packet's arrival.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use crate::draw::{Direction, Draws, Stage};
use crate::probability::Probability;
use crate::schedule::Schedule;

/// Loss model: which packets are lost before they reach the queue. Lost packets use no link time.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with this probability, independently of other packets.
    Bernoulli(Probability),
    /// As [`Loss::Bernoulli`], with the probability at the time when the packet arrives. Packet `n`
    /// has the same draw in both, so a probability that never changes loses the same packets.
    Steps(Schedule<Probability>),
    /// Each packet is lost with this probability, unless all `max_run` packets before it were lost.
    ///
    /// The overall loss rate is therefore below the probability `p`. With a bound of `m` it is
    /// `(p - p^(m+1)) / (1 - p^(m+1))`.
    Bounded {
        /// Loss probability of a packet that the bound allows to be lost.
        probability: Probability,
        /// Largest number of consecutive packets that can be lost.
        max_run: NonZeroU32,
    },
    /// Loss in bursts; see [`GilbertElliott`].
    GilbertElliott(GilbertElliott),
    /// The last packet of every `n` is lost: with 3, the packets 2, 5 and 8, counted from 0.
    EveryNth(NonZeroU64),
    /// The packets with these numbers are lost; the first packet is 0. The list must be ascending:
    /// [`Loss::script`] and [`Link::new`](crate::Link::new) sort it.
    Script(Vec<u64>),
}

impl Loss {
    /// Returns a model that loses exactly the packets with these numbers (0-based, in any order).
    pub fn script(indices: impl IntoIterator<Item = u64>) -> Self {
        let mut indices: Vec<_> = indices.into_iter().collect();
        indices.sort_unstable();
        indices.dedup();
        Self::Script(indices)
    }

    /// Returns a model that loses the last packet of every `n`, or no packet if `n` is 0.
    pub fn every_nth(n: u64) -> Self {
        NonZeroU64::new(n).map_or(Self::None, Self::EveryNth)
    }

    /// Returns a model that loses each packet with `probability`, but at most `max_run` in a row.
    /// If `max_run` is 0, no packet is lost.
    pub fn bounded(probability: Probability, max_run: u32) -> Self {
        NonZeroU32::new(max_run).map_or(Self::None, |max_run| Self::Bounded { probability, max_run })
    }

    /// Changes the probability of independent loss at each of these times since the start of the
    /// link ([`Link::start`](crate::Link::start)).
    pub fn steps(first: Probability, changes: impl IntoIterator<Item = (Duration, Probability)>) -> Self {
        Self::Steps(Schedule::new(first, changes))
    }

    /// Returns whether packet `index` (0-based) is lost if it arrives at the start of the link. The
    /// time of arrival matters to [`Loss::Steps`] alone.
    ///
    /// Models with memory ([`Loss::Bounded`], [`Loss::GilbertElliott`]) replay all earlier packets,
    /// which takes time in proportion to `index`. A link keeps the state of the model instead.
    #[inline]
    pub fn decide(&self, seed: u64, direction: Direction, index: u64) -> bool {
        self.decide_at(Duration::ZERO, seed, direction, index)
    }

    /// As [`decide`](Self::decide), if the packet arrives `elapsed` after the start of the link.
    pub fn decide_at(&self, elapsed: Duration, seed: u64, direction: Direction, index: u64) -> bool {
        let mut memory = LossState::default();
        let first = if self.has_memory() { 0 } else { index };
        (first..=index)
            .fold(false, |_, index| memory.decide(self, Draws { seed, direction, index }, || elapsed))
    }

    pub(crate) fn in_order(self) -> Self {
        match self {
            Self::Script(indices) => Self::script(indices),
            other => other,
        }
    }

    const fn has_memory(&self) -> bool {
        matches!(self, Self::Bounded { .. } | Self::GilbertElliott(_))
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LossState {
    /// True if the channel of a Gilbert-Elliott model will be in the bad state for the next packet.
    is_bad: bool,
    /// True if the channel was in the bad state for the last packet.
    was_bad: bool,
    /// Number of consecutive packets lost, up to the last packet.
    run: u32,
}

impl LossState {
    /// Returns whether the model `loss` loses the packet with these `draws`. The caller must call
    /// it once for each packet, in order. `elapsed` returns the time from the start of the link to
    /// the packet's arrival, which most models do not need.
    pub(crate) fn decide(&mut self, loss: &Loss, draws: Draws, elapsed: impl FnOnce() -> Duration) -> bool {
        match loss {
            Loss::None => false,
            Loss::Bernoulli(probability) => probability.happens(draws.at(Stage::Loss)),
            Loss::Steps(schedule) => schedule.at(elapsed()).happens(draws.at(Stage::Loss)),
            Loss::Bounded { probability, max_run } => {
                let lost = self.run < max_run.get() && probability.happens(draws.at(Stage::Loss));
                self.run = if lost { self.run + 1 } else { 0 };
                lost
            }
            Loss::GilbertElliott(model) => {
                self.was_bad = self.is_bad;
                let lost = model.loses(self.is_bad, draws.at(Stage::Loss));
                self.is_bad = model.next(self.is_bad, draws.at(Stage::LossState));
                lost
            }
            // Not `(index + 1) % n == 0`, which would overflow at `u64::MAX`.
            Loss::EveryNth(n) => draws.index % n.get() == n.get() - 1,
            Loss::Script(indices) => indices.binary_search(&draws.index).is_ok(),
        }
    }

    /// Returns whether a fragment of the last packet, other than its first, is lost.
    ///
    /// Random models lose each fragment independently. A Gilbert-Elliott channel stays in the same
    /// state for all fragments of a packet, so that its states do not depend on fragmentation.
    /// Models that count packets decide on whole packets.
    pub(crate) fn decide_fragment(
        &self,
        loss: &Loss,
        draws: Draws,
        elapsed: impl FnOnce() -> Duration,
    ) -> bool {
        match loss {
            Loss::Bernoulli(probability) => probability.happens(draws.at(Stage::Loss)),
            Loss::Steps(schedule) => schedule.at(elapsed()).happens(draws.at(Stage::Loss)),
            Loss::GilbertElliott(model) => model.loses(self.was_bad, draws.at(Stage::Loss)),
            Loss::None | Loss::Bounded { .. } | Loss::EveryNth(_) | Loss::Script(_) => false,
        }
    }
}

/// Channel with a good and a bad state, so that losses are bursty. It starts good and may change
/// after each packet.
///
/// The chain is that of E. N. Gilbert, "Capacity of a Burst-Noise Channel", Bell System Technical
/// Journal 39 (1960), with losses in the good state added by E. O. Elliott: "Estimates of Error
/// Rates for Codes on Burst-Noise Channels", Bell System Technical Journal 42 (1963). The names `p`
/// and `r` are Gilbert's. Here a step is a packet, not a bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability of a change from good to bad after a packet.
    pub p: Probability,
    /// Probability of a change from bad to good after a packet. Mean length of a bad period:
    /// `1 / r`.
    pub r: Probability,
    /// Loss probability of a packet in the good state.
    pub loss_good: Probability,
    /// Loss probability of a packet in the bad state.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// Returns a channel that loses no packet in the good state and every packet in the bad state.
    pub const fn all_or_nothing(p: Probability, r: Probability) -> Self {
        Self { p, r, loss_good: Probability::ZERO, loss_bad: Probability::ONE }
    }

    /// Returns the long-term loss rate, from 0 to 1. The channel is bad for a share `p / (p + r)`
    /// of the packets.
    pub fn mean_loss(&self) -> f64 {
        let (p, r) = (self.p.as_f64(), self.r.as_f64());
        // With `p` and `r` both 0, the channel never leaves its initial good state.
        let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
        self.loss_good.as_f64() * (1.0 - bad) + self.loss_bad.as_f64() * bad
    }

    fn loses(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { self.loss_bad.happens(draw) } else { self.loss_good.happens(draw) }
    }

    fn next(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { !self.r.happens(draw) } else { self.p.happens(draw) }
    }
}

#[cfg(test)]
mod tests;
