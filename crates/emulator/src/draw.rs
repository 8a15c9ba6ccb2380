//! The hash that stands in for randomness.
//!
//! Owns the draw for packet `n`: a pure function of (seed, direction, stage, `n`). There is no
//! generator to advance, so what happens to a packet depends neither on when it came, nor on what
//! the other stages did, nor on how many draws were made before. It must not know what a draw
//! decides.
//!
//! Each step is the output function of `SplitMix64`: G. Steele, D. Lea, C. Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014, with the multipliers found by D. Stafford (his
//! variant 13) and the golden-ratio increment, as S. Vigna published them.

/// Which way a link carries packets.
///
/// The two links of a path may share one seed, because the direction is part of every draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the side that opened the path.
    Forward,
    /// Back to the side that opened the path.
    Reverse,
}

/// What a draw decides. Each stage draws independently of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Whether the packet is lost on arrival.
    Loss,
    /// Whether the state of a loss model changes after the packet.
    LossState,
    /// Whether a second copy of the packet follows it.
    Duplicate,
    /// Whether a bit of the packet is flipped.
    Corrupt,
    /// Which bit of the packet is flipped.
    CorruptBit,
    /// How far the packet's delay is from the configured one.
    Jitter,
    /// Whether the packet is held back so that others overtake it.
    Reorder,
    /// Whether a queue that is not full turns the packet away, or marks it.
    EarlyDrop,
}

/// The draw for packet `index` (0-based) at one `stage` of one `direction`, uniform over all of
/// `u64`.
///
/// The values are part of what makes a recorded run repeatable, and do not change.
pub(crate) const fn draw(seed: u64, direction: Direction, stage: Stage, index: u64) -> u64 {
    let direction = match direction {
        Direction::Forward => 0,
        Direction::Reverse => 1,
    };
    let stage = match stage {
        Stage::Loss => 0,
        Stage::LossState => 1,
        Stage::Duplicate => 2,
        Stage::Corrupt => 3,
        Stage::CorruptBit => 4,
        Stage::Jitter => 5,
        Stage::Reorder => 6,
        Stage::EarlyDrop => 7,
    };
    hash(seed, PURPOSE_PACKET_DRAW | stage << 1 | direction, index)
}

/// The seed of the `n`-th child (0-based) of `seed`, such as one connection among many.
///
/// Children of one seed are unrelated to each other, to the seed itself, and to every packet's
/// draw under it.
pub const fn child_seed(seed: u64, n: u64) -> u64 {
    hash(seed, PURPOSE_CHILD_SEED, n)
}

/// All draws of one packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    pub(crate) seed: u64,
    pub(crate) direction: Direction,
    /// The packet's number, from 0.
    pub(crate) index: u64,
}

impl Draws {
    pub(crate) const fn at(self, stage: Stage) -> u64 {
        draw(self.seed, self.direction, stage, self.index)
    }

    /// The draws of the packet's duplicate, which has the same number and fates of its own.
    pub(crate) const fn of_duplicate(self) -> Self {
        Self { seed: child_seed(self.seed, DUPLICATE_SEED_CHILD), ..self }
    }

    /// The draws of the packet's fragment `n`. The first one, 0, has those of the packet, so that they do not
    /// depend on whether it is cut.
    pub(crate) const fn of_fragment(self, n: u32) -> Self {
        match n {
            0 => self,
            n => Self { seed: child_seed(child_seed(self.seed, FRAGMENT_SEED_CHILD), n as u64), ..self },
        }
    }
}

/// Which child of a link's seed draws for duplicates. Far above any count of connections, which are
/// children of seeds too.
const DUPLICATE_SEED_CHILD: u64 = u64::MAX;

/// Which child of a link's seed is the parent of those that draw for fragments.
const FRAGMENT_SEED_CHILD: u64 = u64::MAX - 1;

/// Purposes of draws. The lower half of the word numbers the stages and directions.
const PURPOSE_PACKET_DRAW: u64 = 1 << 32;
const PURPOSE_CHILD_SEED: u64 = 2 << 32;

/// The odd integer nearest to 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes each input on its own account before they meet.
///
/// Nothing simpler will do: adding `index` to a mixed seed would make all seeds walk one and the
/// same sequence from different places, so two of them could show the same run of fates shifted.
const fn hash(seed: u64, purpose: u64, index: u64) -> u64 {
    let stream = mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ purpose);
    mix(stream ^ mix(index.wrapping_add(GOLDEN_GAMMA)))
}

/// A bijection in which every input bit flips each output bit about half of the time.
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests;
