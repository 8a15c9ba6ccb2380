//! The hash that replaces a random generator.
//!
//! The draw for packet `n` is a pure function of (seed, direction, stage, `n`). It therefore does
//! not depend on the packet's time, on the draws of other stages, or on earlier draws.
//!
//! Each step is the output function of `SplitMix64`: G. Steele, D. Lea, C. Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014, with the multipliers found by D. Stafford (his
//! variant 13) and the golden-ratio increment, as S. Vigna published them.

/// Direction in which a link carries packets.
///
/// Both links of a path may use one seed, because the direction is an input of every draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the side that opened the path.
    Forward = 0,
    /// Back to the side that opened the path.
    Reverse = 1,
}

/// Purpose of a draw. The draws of different stages are independent. The numbers must not change:
/// seeds of recorded runs would no longer repeat them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Loss of the packet on arrival.
    Loss = 0,
    /// Change of a loss model's state after the packet.
    LossState = 1,
    /// Duplication of the packet.
    Duplicate = 2,
    /// Flip of one bit of the packet.
    Corrupt = 3,
    /// Position of the flipped bit.
    CorruptBit = 4,
    /// Jitter of the packet.
    Jitter = 5,
    /// Extra delay of the packet, so that later packets overtake it.
    Reorder = 6,
    /// Drop or mark of the packet by the queue discipline.
    EarlyDrop = 7,
}

/// Returns the draw for packet `index` (0-based) at a stage, uniform over all `u64` values.
pub(crate) const fn draw(seed: u64, direction: Direction, stage: Stage, index: u64) -> u64 {
    let (stage, direction) = (stage as u64, direction as u64);
    hash(seed, PURPOSE_PACKET_DRAW | stage << 1 | direction, index)
}

/// Derives the seed of child `n` (0-based) of `seed`, for example of one connection among many.
///
/// The draws of the children are independent of each other and of those of `seed` itself.
pub const fn child_seed(seed: u64, n: u64) -> u64 {
    hash(seed, PURPOSE_CHILD_SEED, n)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    pub(crate) seed: u64,
    pub(crate) direction: Direction,
    /// Number of the packet on its link, from 0.
    pub(crate) index: u64,
}

impl Draws {
    pub(crate) const fn at(self, stage: Stage) -> u64 {
        draw(self.seed, self.direction, stage, self.index)
    }

    /// Returns the inputs for the packet's second copy: the same number and another seed.
    pub(crate) const fn of_duplicate(self) -> Self {
        Self { seed: child_seed(self.seed, DUPLICATE_SEED_CHILD), ..self }
    }

    /// Returns the inputs for the packet's fragment `n`. Fragment 0 uses the packet's own draws, so
    /// that these do not depend on fragmentation.
    pub(crate) const fn of_fragment(self, n: u32) -> Self {
        match n {
            0 => self,
            n => Self { seed: child_seed(child_seed(self.seed, FRAGMENT_SEED_CHILD), n as u64), ..self },
        }
    }
}

/// Child number of a link's seed for the draws of second copies. Connections are children of seeds
/// too, numbered from 0, so the numbers do not collide.
const DUPLICATE_SEED_CHILD: u64 = u64::MAX;

/// Child number of a link's seed; the children of that child are the seeds of fragments.
const FRAGMENT_SEED_CHILD: u64 = u64::MAX - 1;

/// Purposes of a hash, in the upper 32 bits. The lower 32 bits have the stage and the direction.
const PURPOSE_PACKET_DRAW: u64 = 1 << 32;
const PURPOSE_CHILD_SEED: u64 = 2 << 32;

/// Odd integer nearest to 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes the inputs to a uniform `u64`. Each input is mixed before it is combined with the next.
///
/// If `index` were added to a mixed seed instead, all seeds would read the same sequence from
/// different positions, so the draws of two seeds could be equal but shifted.
const fn hash(seed: u64, purpose: u64, index: u64) -> u64 {
    let stream = mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ purpose);
    mix(stream ^ mix(index.wrapping_add(GOLDEN_GAMMA)))
}

/// Maps 64 bits to 64 bits, one to one. An input bit changes about half of the output bits.
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests;
