//! Which packets are lost on arrival.
//!
//! Owns the loss models. A model sees a packet's number and nothing else: neither its contents nor
//! its time, nor what the queue does. It keeps no state, so a decision can be asked for again.

use crate::fate::{Direction, Stage, fate};
use crate::units::Probability;

/// A rule for which packets are lost before they reach the queue. They use no link time.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Every packet is lost with this probability, independently of the others.
    Bernoulli(Probability),
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

    /// Whether packet `index` (0-based) is lost.
    pub fn decide(&self, seed: u64, direction: Direction, index: u64) -> bool {
        match self {
            Self::None => false,
            Self::Bernoulli(probability) => probability.happens(fate(seed, direction, Stage::Loss, index)),
            Self::Script(indices) => indices.binary_search(&index).is_ok(),
        }
    }

    /// The same rule, with a script put in ascending order.
    pub(crate) fn in_order(self) -> Self {
        match self {
            Self::Script(indices) => Self::script(indices),
            Self::None | Self::Bernoulli(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARD: Direction = Direction::Forward;

    fn bernoulli(probability: f64) -> Loss {
        Loss::Bernoulli(Probability::new(probability).unwrap())
    }

    #[test]
    fn none_loses_nothing() {
        assert!((0..1_000).all(|n| !Loss::None.decide(5, FORWARD, n)));
    }

    #[test]
    fn a_script_loses_exactly_its_packets() {
        let script = Loss::script([30, 7, 8, 7]);
        let lost: Vec<_> = (0..100).filter(|&n| script.decide(5, FORWARD, n)).collect();
        assert_eq!(lost, [7, 8, 30]);
        assert_eq!(script, Loss::Script(vec![7, 8, 30]));
    }

    /// How far the losses among 100,000 packets are from 30 percent, in standard deviations.
    fn deviation(seed: u64, direction: Direction) -> f64 {
        let (count, probability) = (100_000_u32, 0.3);
        let model = bernoulli(probability);
        let lost: u32 = (0..count).map(|n| u32::from(model.decide(seed, direction, n.into()))).sum();
        let sigma = (f64::from(count) * probability * (1.0 - probability)).sqrt();
        (f64::from(lost) - f64::from(count) * probability) / sigma
    }

    #[test]
    fn bernoulli_loses_its_share_within_three_standard_deviations() {
        for direction in [Direction::Forward, Direction::Reverse] {
            let deviation = deviation(0, direction);
            assert!(deviation.abs() < 3.0, "{direction:?}: {deviation} sigma");
        }
    }

    #[test]
    fn bernoulli_scatters_over_seeds_as_independent_losses_do() {
        // The sum of k squared deviations has mean k and variance 2k: neither too far from 30 percent
        // too often, nor suspiciously close to it.
        let runs = 100_u32;
        let squares: f64 = (0..runs).map(|seed| deviation(seed.into(), FORWARD).powi(2)).sum();
        let excess = (squares - f64::from(runs)) / (2.0 * f64::from(runs)).sqrt();
        assert!(excess.abs() < 4.0, "{excess} sigma");
    }

    #[test]
    fn a_higher_probability_loses_the_same_packets_and_more() {
        let (low, high) = (bernoulli(0.1), bernoulli(0.2));
        assert!((0..10_000).all(|n| !low.decide(5, FORWARD, n) || high.decide(5, FORWARD, n)));
    }

    #[test]
    fn zero_and_one_are_never_and_always() {
        assert!((0..1_000).all(|n| !bernoulli(0.0).decide(5, FORWARD, n)));
        assert!((0..1_000).all(|n| bernoulli(1.0).decide(5, FORWARD, n)));
    }
}
