//! Which packets are lost on arrival.
//!
//! Owns the loss models. A model sees packets' numbers and nothing else: neither their contents nor
//! their times, nor what the queue does. What happens to packet `n` is a pure function of the seed
//! and `n`, for models with a memory too: they remember what the same function said of the packets
//! before.

mod gilbert_elliott;

use std::num::{NonZeroU32, NonZeroU64};

use crate::draw::{Direction, Draws, Stage};
use crate::probability::Probability;

pub use gilbert_elliott::GilbertElliott;

/// A rule for which packets are lost before they reach the queue. They use no link time.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Every packet is lost with this probability, independently of the others.
    Bernoulli(Probability),
    /// Every packet is lost with this probability, unless as many as `max_run` just before it were.
    ///
    /// So less than `probability` is lost in all: with `p` and a bound of `m`, a share of
    /// `(p - p^(m+1)) / (1 - p^(m+1))`.
    Bounded {
        /// Of loss, where the bound does not forbid it.
        probability: Probability,
        /// The most packets that are lost in a row.
        max_run: NonZeroU32,
    },
    /// In bursts; see [`GilbertElliott`].
    GilbertElliott(GilbertElliott),
    /// The last packet of every `n` is lost: with 3, those with the indices 2, 5, 8.
    EveryNth(NonZeroU64),
    /// Exactly the packets with these indices are lost. The first packet is 0; the list is in
    /// ascending order, which [`Loss::script`] and [`Link::new`](crate::Link::new) see to.
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

    /// Loses every packet with `probability`, but never more than `max_run` in a row; nothing if that
    /// is 0.
    pub fn bounded(probability: Probability, max_run: u32) -> Self {
        NonZeroU32::new(max_run).map_or(Self::None, |max_run| Self::Bounded { probability, max_run })
    }

    /// Whether packet `index` (0-based) is lost.
    ///
    /// The models with a memory ([`Loss::Bounded`], [`Loss::GilbertElliott`]) go through all packets
    /// before it, so the answer takes time in proportion to `index`. A link asks them packet by packet.
    pub fn decide(&self, seed: u64, direction: Direction, index: u64) -> bool {
        let mut memory = LossState::default();
        let first = if self.has_memory() { 0 } else { index };
        (first..=index).fold(false, |_, index| memory.decide(self, Draws { seed, direction, index }))
    }

    /// The same rule, with a script put in ascending order.
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

/// What a loss model knows of the packets so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossState {
    /// The state of a Gilbert-Elliott model.
    is_bad: bool,
    /// The state in which the last packet found it.
    was_bad: bool,
    /// Losses in a row up to now.
    run: u32,
}

impl LossState {
    /// Whether the packet that `draws` belongs to is lost by `loss`. To be asked of every packet once,
    /// in order.
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
            // Not `index + 1`, which the last index does not have.
            Loss::EveryNth(n) => draws.index % n.get() == n.get() - 1,
            Loss::Script(indices) => indices.binary_search(&draws.index).is_ok(),
        }
    }

    /// Whether a fragment with these draws, of the packet last decided on and not its first, is lost.
    ///
    /// A channel loses each fragment for itself, in the state in which the packet found it: its memory goes
    /// on packet by packet, so that nothing depends on how earlier ones were cut. The rules that count
    /// packets speak of whole ones.
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
