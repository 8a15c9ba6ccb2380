//! Duplication, corruption, outages and MTU.
//!
//! Most links have none of these effects, so a link makes one test for all of them.

use std::time::Duration;

use crate::config::LinkConfig;
use crate::draw::{Draws, Stage};
use crate::ledger::DropCause;
use crate::mtu::{Frames, Mtu};
use crate::outage::Outage;
use crate::probability::Probability;
use crate::rate::VaryingRate;
use crate::wifi::WifiConfig;

#[derive(Debug, Clone)]
pub(crate) struct Impairments {
    outage: Outage,
    mtu: Mtu,
    duplicate: Probability,
    corrupt: Probability,
}

impl Impairments {
    /// Returns `None` if `config` enables none of these effects.
    pub(crate) fn new(config: &LinkConfig) -> Option<Self> {
        let LinkConfig { outage, duplicate, corrupt, .. } = config;
        let mtu = match config.varying {
            Some(VaryingRate::Wifi(_)) => config.mtu.at_most(WifiConfig::MTU),
            _ => config.mtu.clone(),
        };
        let off = *outage == Outage::None
            && mtu == Mtu::unlimited()
            && *duplicate == Probability::ZERO
            && *corrupt == Probability::ZERO;
        (!off).then(|| Self { outage: outage.clone(), mtu, duplicate: *duplicate, corrupt: *corrupt })
    }

    /// Returns the frames of a packet that arrives `elapsed` after the start of the link, or the
    /// cause if it is dropped. `size` is in bytes with headers.
    pub(crate) fn frames(&self, elapsed: Duration, size: usize) -> Result<Frames, DropCause> {
        if self.outage.is_down(elapsed) {
            return Err(DropCause::Outage);
        }
        self.mtu.frames(elapsed, size).ok_or(DropCause::TooLong)
    }

    pub(crate) fn duplicates(&self, draws: Draws) -> bool {
        self.duplicate.happens(draws.at(Stage::Duplicate))
    }

    /// Flips one bit of `bytes` if the packet's draw selects it, and returns whether it did.
    pub(crate) fn corrupts(&self, draws: Draws, bytes: &mut [u8]) -> bool {
        if bytes.is_empty() || !self.corrupt.happens(draws.at(Stage::Corrupt)) {
            return false;
        }
        flip(bytes, draws.at(Stage::CorruptBit));
        true
    }
}

/// Flips the bit selected by `draw`, a uniform `u64`. `bytes` must not be empty.
fn flip(bytes: &mut [u8], draw: u64) {
    // The bit's position is `bits * draw / 2^64`. A packet has far fewer than 2^64 bits, so the
    // bias is negligible and the product does not overflow 128 bits.
    let bits = bytes.len() as u128 * 8;
    #[expect(clippy::cast_possible_truncation, reason = "it is below the number of bits in memory")]
    let bit = ((u128::from(draw) * bits) >> u64::BITS) as usize;
    bytes[bit / 8] ^= 1 << (bit % 8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Direction;

    fn impairments(duplicate: f64, corrupt: f64) -> Impairments {
        let config = LinkConfig {
            duplicate: Probability::new(duplicate).unwrap(),
            corrupt: Probability::new(corrupt).unwrap(),
            mtu: Mtu::new(u32::MAX),
            ..LinkConfig::default()
        };
        Impairments::new(&config).unwrap()
    }

    fn draws(index: u64) -> Draws {
        Draws { seed: 11, direction: Direction::Forward, index }
    }

    /// Asserts that `hits` is within four standard deviations of `count * probability`.
    fn assert_share(hits: u32, count: u32, probability: f64) {
        let (hits, count) = (f64::from(hits), f64::from(count));
        let sigma = (count * probability * (1.0 - probability)).sqrt();
        let deviation = (hits - count * probability) / sigma;
        assert!(deviation.abs() < 4.0, "{hits} of {count}: {deviation} sigma");
    }

    #[test]
    fn no_effect_configured_gives_none() {
        assert!(Impairments::new(&LinkConfig::default()).is_none());
    }

    #[test]
    fn cell_limits_mtu_to_one_frame() {
        let cell = LinkConfig::default().wifi(WifiConfig::b());
        let fits = |config: &LinkConfig, size| {
            Impairments::new(config).unwrap().frames(Duration::ZERO, size).map(Frames::count)
        };
        assert_eq!([2_296, 2_297].map(|size| fits(&cell, size)), [Ok(1), Err(DropCause::TooLong)]);
        let shorter = cell.clone().mtu(Mtu::new(1_500));
        assert_eq!([1_500, 1_501].map(|size| fits(&shorter, size)), [Ok(1), Err(DropCause::TooLong)]);
        let cut = cell.mtu(Mtu::unlimited().oversize(crate::mtu::Oversize::Fragment));
        assert_eq!([2_296, 2_297].map(|size| fits(&cut, size)), [Ok(1), Ok(2)]);
    }

    #[test]
    fn duplicates_are_independent_of_corruption() {
        let with = |corrupt| -> Vec<bool> {
            let both = impairments(0.2, corrupt);
            (0..100_000).map(|n| both.duplicates(draws(n))).collect()
        };
        let alone = with(0.0);
        assert_share(alone.iter().map(|&twice| u32::from(twice)).sum(), 100_000, 0.2);
        assert_eq!(with(0.5), alone);
    }

    #[test]
    fn joint_probability_of_effects_is_product() {
        let both = impairments(0.4, 0.3);
        let together = |n| both.duplicates(draws(n)) && both.corrupts(draws(n), &mut [0; 4]);
        let hits = (0..100_000).map(|n| u32::from(together(n))).sum();
        assert_share(hits, 100_000, 0.12);
    }

    #[test]
    fn duplicate_has_its_own_draws() {
        let half = impairments(0.0, 0.5);
        let same =
            |n| half.corrupts(draws(n), &mut [0; 4]) == half.corrupts(draws(n).of_duplicate(), &mut [0; 4]);
        let hits = (0..100_000).map(|n| u32::from(same(n))).sum();
        assert_share(hits, 100_000, 0.5);
    }

    #[test]
    fn corruption_flips_one_bit_uniformly() {
        let always = impairments(0.0, 1.0);
        let mut flips = [0_u32; 96];
        for n in 0..96_000 {
            let mut bytes = [0xa5; 12];
            assert!(always.corrupts(draws(n), &mut bytes));
            let changed: Vec<_> = (0..96).filter(|b| (bytes[b / 8] ^ 0xa5) & (1 << (b % 8)) != 0).collect();
            assert_eq!(changed.len(), 1, "packet {n}");
            flips[changed[0]] += 1;
        }
        // Pearson's statistic of 96 equal cells has mean 95 and variance 190.
        let statistic: f64 = flips.iter().map(|&count| (f64::from(count) - 1_000.0).powi(2) / 1_000.0).sum();
        let deviation = (statistic - 95.0) / 190.0_f64.sqrt();
        assert!(deviation.abs() < 4.0, "{deviation} sigma: {flips:?}");
    }

    #[test]
    fn flip_covers_first_and_last_bit() {
        let mut bytes = [0; 3];
        flip(&mut bytes, 0);
        flip(&mut bytes, u64::MAX);
        assert_eq!(bytes, [1, 0, 0x80]);
    }

    #[test]
    fn an_empty_packet_cannot_be_corrupted() {
        assert!(!impairments(0.0, 1.0).corrupts(draws(0), &mut []));
    }
}
