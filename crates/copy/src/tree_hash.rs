//! BLAKE3 of a file by groups of 8 MiB. The state after a group is a short stack of chaining
//! values, so that a copy can go on there, and the result is the plain BLAKE3 of the file.

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::protocol::HashBytes;

/// Bytes of a group: a power of two, at least one chunk of BLAKE3.
pub(crate) const GROUP_BYTES: u64 = 8 << 20;

/// Hash of a file of known size, from its beginning or from the end of a group.
#[derive(Debug)]
pub(crate) struct TreeHash {
    size: u64,
    offset: u64,
    hasher: Hasher,
    /// Subtrees of the complete groups, largest first: one for each bit set in their number.
    stack: Vec<ChainingValue>,
}

impl TreeHash {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, offset: 0, hasher: Hasher::new(), stack: Vec::new() }
    }

    /// Continues at `offset`. `None` if there is no such state of a file of that size.
    pub(crate) fn resume(size: u64, offset: u64, stack: &[HashBytes]) -> Option<Self> {
        let groups = offset / GROUP_BYTES;
        let is_state = offset.is_multiple_of(GROUP_BYTES)
            && offset < size
            && stack.len() == groups.count_ones() as usize;
        is_state.then(|| {
            let mut hasher = Hasher::new();
            hasher.set_input_offset(offset);
            Self { size, offset, hasher, stack: stack.to_vec() }
        })
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the state after the last complete group: its end, and the stack for
    /// [`Self::resume`].
    pub(crate) fn state(&self) -> (u64, &[HashBytes]) {
        (self.offset - self.offset % GROUP_BYTES, &self.stack)
    }

    /// Returns the bytes until the end of the group, or of the file.
    pub(crate) fn room(&self) -> u64 {
        (GROUP_BYTES - self.offset % GROUP_BYTES).min(self.size - self.offset)
    }

    /// Adds bytes, at most [`Self::room`]. Returns the chaining value of a group that ends here and
    /// is not the last one.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Option<HashBytes> {
        debug_assert!(bytes.len() as u64 <= self.room());
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        let ends = self.offset.is_multiple_of(GROUP_BYTES) && self.offset < self.size && !bytes.is_empty();
        ends.then(|| self.end_group())
    }

    /// Adds zero bytes, at most [`Self::room`].
    pub(crate) fn update_zeros(&mut self, mut count: u64) -> Option<HashBytes> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut value = None;
        while count > 0 {
            let piece = &ZEROS[..usize::try_from(count).map_or(ZEROS.len(), |n| n.min(ZEROS.len()))];
            value = self.update(piece);
            count -= piece.len() as u64;
        }
        value
    }

    /// Returns the hash of the file, all of which was added.
    pub(crate) fn finish(&self) -> HashBytes {
        debug_assert_eq!(self.offset, self.size);
        let Some((first, rest)) = self.stack.split_first() else {
            return self.hasher.finalize().into();
        };
        let tail = self.hasher.finalize_non_root();
        let right =
            rest.iter().rev().fold(tail, |right, left| merge_subtrees_non_root(left, &right, Mode::Hash));
        merge_subtrees_root(first, &right, Mode::Hash).into()
    }

    fn end_group(&mut self) -> HashBytes {
        let value = self.hasher.finalize_non_root();
        let mut merged = value;
        // As a carry of binary addition. No merge is the root, because more bytes follow.
        for _ in 0..(self.offset / GROUP_BYTES).trailing_zeros() {
            if let Some(left) = self.stack.pop() {
                merged = merge_subtrees_non_root(&left, &merged, Mode::Hash);
            }
        }
        self.stack.push(merged);
        // `reset` keeps the input offset, with which `set_input_offset` fails (blake3 1.8.7).
        self.hasher = Hasher::new();
        self.hasher.set_input_offset(self.offset);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: usize = 8 << 20;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + (i >> 9)).to_le_bytes()[0]).collect()
    }

    fn add(tree: &mut TreeHash, mut rest: &[u8], piece: usize) {
        while !rest.is_empty() {
            let n = piece.min(rest.len()).min(usize::try_from(tree.room()).unwrap());
            tree.update(&rest[..n]);
            rest = &rest[n..];
        }
    }

    #[test]
    fn equals_plain_blake3_at_every_shape() {
        let all = bytes(5 * GROUP + 1);
        for len in [0, 1, 1024, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP, 3 * GROUP + 7, 4 * GROUP, all.len()] {
            let mut tree = TreeHash::new(len as u64);
            add(&mut tree, &all[..len], 1 << 20);
            assert_eq!(tree.finish(), *blake3::hash(&all[..len]).as_bytes(), "{len}");
        }
    }

    #[test]
    fn resumed_hash_equals_whole_hash() {
        let all = bytes(4 * GROUP + 100);
        let size = all.len() as u64;
        for groups in 1..=4 {
            let mut first = TreeHash::new(size);
            add(&mut first, &all[..groups * GROUP], 3 << 20);
            let mut second = TreeHash::resume(size, first.state().0, first.state().1).unwrap();
            add(&mut second, &all[groups * GROUP..], 1 << 20);
            assert_eq!(second.finish(), *blake3::hash(&all).as_bytes(), "{groups}");
        }
    }

    #[test]
    fn impossible_states_are_refused() {
        let g = GROUP_BYTES;
        assert!(TreeHash::resume(10 * g, 3 * g, &[[0; 32]; 2]).is_some());
        assert!(TreeHash::resume(10 * g, 3 * g, &[[0; 32]; 3]).is_none());
        assert!(TreeHash::resume(10 * g, 3 * g + 1, &[[0; 32]; 2]).is_none());
        assert!(TreeHash::resume(3 * g, 3 * g, &[[0; 32]; 2]).is_none(), "nothing would be left");
        assert!(TreeHash::resume(u64::MAX, u64::MAX - g + 1, &[]).is_none());
    }

    #[test]
    fn zeros_equal_bytes_of_zero() {
        let size = GROUP_BYTES + 5;
        let mut tree = TreeHash::new(size);
        assert!(tree.update_zeros(GROUP_BYTES).is_some());
        tree.update_zeros(5);
        assert_eq!(tree.finish(), *blake3::hash(&vec![0; GROUP + 5]).as_bytes());
    }
}
