//! Loss models: which packets are lost on arrival.
//!
//! A model sees the numbers of packets, neither contents nor times. The fate of packet `n` is a
//! pure function of the seed and `n`. Models with memory are too: their memory is the same function
//! of the packets before.

mod gilbert_elliott;

use std::num::{NonZeroU32, NonZeroU64};

use crate::draw::{Direction, Draws, Stage};
use crate::probability::Probability;

pub use gilbert_elliott::GilbertElliott;

/// Loss model: the packets lost before they reach the queue. Lost packets use no link time.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Every packet is lost with this probability, independently of the others.
    Bernoulli(Probability),
    /// Every packet is lost with this probability, unless the `max_run` packets before it were
    /// lost.
    ///
    /// The total share of losses is therefore below `probability`: with `p` and a bound of `m` it
    /// is `(p - p^(m+1)) / (1 - p^(m+1))`.
    Bounded {
        /// Probability of loss where the bound allows one.
        probability: Probability,
        /// The longest run of lost packets.
        max_run: NonZeroU32,
    },
    /// Loss in bursts; see [`GilbertElliott`].
    GilbertElliott(GilbertElliott),
    /// The last packet of every `n` is lost: with 3, the packets with indices 2, 5, 8.
    EveryNth(NonZeroU64),
    /// The packets with these indices are lost. The first packet is 0. The list is in ascending
    /// order: [`Loss::script`] and [`Link::new`](crate::Link::new) sort it.
    Script(Vec<u64>),
}

impl Loss {
    /// Loses exactly the packets with these indices (0-based), given in any order.
    pub fn script(indices: impl IntoIterator<Item = u64>) -> Self {
        let mut indices: Vec<_> = indices.into_iter().collect();
        indices.sort_unstable();
        indices.dedup();
        Self::Script(indices)
    }

    /// Loses the last packet of every `n`; nothing if `n` is 0.
    pub fn every_nth(n: u64) -> Self {
        NonZeroU64::new(n).map_or(Self::None, Self::EveryNth)
    }

    /// Loses every packet with `probability`, but at most `max_run` in a row; none if that is 0.
    pub fn bounded(probability: Probability, max_run: u32) -> Self {
        NonZeroU32::new(max_run).map_or(Self::None, |max_run| Self::Bounded { probability, max_run })
    }

    /// Returns whether packet `index` (0-based) is lost.
    ///
    /// Models with memory ([`Loss::Bounded`], [`Loss::GilbertElliott`]) replay all packets before
    /// it, so this takes time in proportion to `index`. A link decides packet by packet instead.
    pub fn decide(&self, seed: u64, direction: Direction, index: u64) -> bool {
        let mut memory = LossState::default();
        let first = if self.has_memory() { 0 } else { index };
        (first..=index).fold(false, |_, index| memory.decide(self, Draws { seed, direction, index }))
    }

    /// Sorts a script.
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

/// Memory of a loss model.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossState {
    /// State of a Gilbert-Elliott model.
    is_bad: bool,
    /// State in which the last packet found the channel.
    was_bad: bool,
    /// Number of losses in a row up to now.
    run: u32,
}

impl LossState {
    /// Returns whether the packet with these `draws` is lost by `loss`. Must be called for every
    /// packet once, in order.
    pub(crate) fn decide(&mut self, loss: &Loss, draws: Draws) -> bool {
        match loss {
            Loss::None => false,
            Loss::Bernoulli(probability) => probability.happens(draws.at(Stage::Loss)),
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
            // `index + 1` would overflow for the last index.
            Loss::EveryNth(n) => draws.index % n.get() == n.get() - 1,
            Loss::Script(indices) => indices.binary_search(&draws.index).is_ok(),
        }
    }

    /// Returns whether a fragment of the last packet, other than its first, is lost.
    ///
    /// A channel loses each fragment independently, in the state in which the packet found it. The
    /// state advances packet by packet, so that it does not depend on fragmentation. Models that
    /// count packets lose whole packets only.
    pub(crate) fn decide_fragment(&self, loss: &Loss, draws: Draws) -> bool {
        match loss {
            Loss::Bernoulli(probability) => probability.happens(draws.at(Stage::Loss)),
            Loss::GilbertElliott(model) => model.loses(self.was_bad, draws.at(Stage::Loss)),
            Loss::None | Loss::Bounded { .. } | Loss::EveryNth(_) | Loss::Script(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
