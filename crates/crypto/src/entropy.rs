//! Seeded random bytes, and their use as the random numbers of `snow`.

use std::fmt;

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use zeroize::Zeroizing;

use crate::schedule::prf;

/// Random bytes from a seed of 256 bits: HMAC-SHA-256 of a block counter, keyed with the seed.
///
/// A program seeds it from the operating system once. Simulations seed it with a number, which
/// makes their keys reproducible. Erased from memory when dropped.
///
/// There is no public copy of an `Entropy`: two with equal state would give equal private keys.
pub struct Entropy {
    seed: Zeroizing<[u8; 32]>,
    /// Blocks of 32 bytes drawn. A rest of a block is not kept.
    blocks: u64,
    /// Key of a published vector, drawn in place of all bytes.
    #[cfg(test)]
    fixed: Option<[u8; 32]>,
}

impl Entropy {
    /// Creates a source. The seed must be unpredictable where the bytes must be.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self {
            seed: Zeroizing::new(seed),
            blocks: 0,
            #[cfg(test)]
            fixed: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn fixed(key: [u8; 32]) -> Self {
        Self { fixed: Some(key), ..Self::from_seed([0; 32]) }
    }

    /// Fills `out` with the next bytes. Never fails; 2^64 blocks are out of reach.
    pub fn fill(&mut self, out: &mut [u8]) {
        #[cfg(test)]
        if let Some(key) = self.fixed {
            return out.copy_from_slice(&key);
        }
        for part in out.chunks_mut(32) {
            let block = prf(&*self.seed, &[&self.blocks.to_le_bytes()]);
            part.copy_from_slice(&block[..part.len()]);
            self.blocks += 1;
        }
    }

    /// Returns the next bytes as an array.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Creates an independent source, for example for one handshake, seeded by the next bytes.
    #[must_use]
    pub fn child(&mut self) -> Self {
        Self::from_seed(self.array())
    }

    /// Copies the source with its state, to compute a handshake again.
    pub(crate) fn duplicate(&self) -> Self {
        Self { seed: self.seed.clone(), ..*self }
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entropy").finish_non_exhaustive()
    }
}

impl Random for Entropy {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        self.fill(out);
        Ok(())
    }
}

/// Algorithms of `snow`'s default resolver with the random numbers of an [`Entropy`].
pub(crate) struct SeededResolver(pub(crate) Entropy);

impl CryptoResolver for SeededResolver {
    /// `snow` asks once for each handshake; a second answer would draw the same bytes.
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(self.0.duplicate()))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    /// Computed with Python's `hmac`: blocks 0 and 1 of the seed 00, 01 ... 1f.
    #[test]
    fn entropy_meets_its_vector() {
        let mut entropy = Entropy::from_seed(std::array::from_fn(|i| u8::try_from(i).unwrap()));
        assert_eq!(
            entropy.array::<64>(),
            hex::array(
                "9f0cd9b94097fe4929918d2b8942b34439574261a35dc50163f06c67d4e488993b345d4e3f7a9922d8942f7c4f9c46a36307684beb1c02f98dba9327be8e1617"
            )
        );
    }

    #[test]
    fn equal_seeds_give_equal_bytes() {
        let [mut one, mut other] = [(); 2].map(|()| Entropy::from_seed([3; 32]));
        assert_eq!(one.array::<100>(), other.array());
        assert_eq!(one.child().array::<32>(), other.child().array());
        assert_ne!(one.array::<32>(), one.array());
        assert_ne!(Entropy::from_seed([4; 32]).array::<32>(), Entropy::from_seed([3; 32]).array());
    }

    #[test]
    fn child_and_parent_differ() {
        let mut parent = Entropy::from_seed([3; 32]);
        let mut child = parent.child();
        let mut second = parent.child();
        let drawn =
            [parent.array::<32>(), child.array(), second.array(), Entropy::from_seed([3; 32]).array()];
        for (i, bytes) in drawn.iter().enumerate() {
            assert!(!drawn[..i].contains(bytes));
        }
    }

    #[test]
    fn seed_is_not_printed() {
        assert_eq!(format!("{:?}", Entropy::from_seed([3; 32])), "Entropy { .. }");
    }
}
