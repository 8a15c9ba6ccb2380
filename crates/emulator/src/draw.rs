//! The hash that replaces a random generator.
//!
//! The draw for packet `n` is a pure function of (seed, direction, stage, `n`). There is no
//! generator to advance. A draw therefore depends neither on the time of the packet, nor on the
//! other stages, nor on earlier draws.
//!
//! Each step is the output function of `SplitMix64`: G. Steele, D. Lea, C. Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014, with the multipliers found by D. Stafford (his
//! variant 13) and the golden-ratio increment, as S. Vigna published them.

/// Direction in which a link carries packets.
///
/// The two links of a path may share one seed, because the direction is part of every draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the side that opened the path.
    Forward,
    /// Back to the side that opened the path.
    Reverse,
}

/// Purpose of a draw. Each stage draws independently of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Loss of the packet on arrival.
    Loss,
    /// Change of a loss model's state after the packet.
    LossState,
    /// A second copy of the packet.
    Duplicate,
    /// A flipped bit of the packet.
    Corrupt,
    /// The position of the flipped bit.
    CorruptBit,
    /// The packet's jitter.
    Jitter,
    /// Holding the packet back so that later ones overtake it.
    Reorder,
    /// A random drop or mark by the queue discipline.
    EarlyDrop,
}

/// The draw for packet `index` (0-based) at one `stage` of one `direction`, uniform over all of
/// `u64`.
///
/// Recorded runs repeat only while these values stay the same.
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
/// Children of one seed are independent of each other, of the seed itself, and of every packet's
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

    /// The draws of the packet's second copy, which has the same number.
    pub(crate) const fn of_duplicate(self) -> Self {
        Self { seed: child_seed(self.seed, DUPLICATE_SEED_CHILD), ..self }
    }

    /// The draws of the packet's fragment `n`. Fragment 0 has those of the packet, so that they do
    /// not depend on fragmentation.
    pub(crate) const fn of_fragment(self, n: u32) -> Self {
        match n {
            0 => self,
            n => Self { seed: child_seed(child_seed(self.seed, FRAGMENT_SEED_CHILD), n as u64), ..self },
        }
    }
}

/// The child of a link's seed that draws for second copies. Connections are children of seeds too,
/// with numbers far below.
const DUPLICATE_SEED_CHILD: u64 = u64::MAX;

/// The child of a link's seed whose children draw for fragments.
const FRAGMENT_SEED_CHILD: u64 = u64::MAX - 1;

/// Purposes of draws. The lower half of the word numbers the stages and directions.
const PURPOSE_PACKET_DRAW: u64 = 1 << 32;
const PURPOSE_CHILD_SEED: u64 = 2 << 32;

/// The odd integer nearest to 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes each input alone before it combines them.
///
/// Adding `index` to a mixed seed would not do: all seeds would walk the same sequence from
/// different places, and two of them could show the same draws shifted.
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
