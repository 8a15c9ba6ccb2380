//! Hash of a file as a binary tree. Its state after a group is a short stack of chaining values, so
//! that a copy can go on there.
//!
//! Each leaf of 64 KiB is a BLAKE3 subtree that begins at input offset 0, and each parent merges
//! its children as BLAKE3 does. So a run of zeros costs the logarithm of its length. BLAKE3 itself
//! counts its chunks, which makes equal chunks different. A file of at most one leaf has its plain
//! BLAKE3. Both sides know the size, and with it the shape of the tree, before they compare hashes.

use std::sync::OnceLock;

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::protocol::HashBytes;

/// Bytes of a leaf: a power of two. At most so much is hashed for either end of a hole.
const LEAF_BYTES: u64 = ZEROS.len() as u64;
/// Bytes of a group: a power of two, at least one leaf. A copy that is killed sends less than this
/// of a file again.
pub(crate) const GROUP_BYTES: u64 = 512 << 10;
/// Level of the subtree that is a group, counted from the leaves.
const GROUP_LEVEL: u32 = (GROUP_BYTES / LEAF_BYTES).ilog2();
/// Levels of the largest subtree, and one.
const LEVELS: usize = (u64::MAX / LEAF_BYTES).ilog2() as usize + 1;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Hash of a file of known size, from its beginning or from the end of a group.
#[derive(Debug)]
pub(crate) struct TreeHash {
    size: u64,
    offset: u64,
    /// Bytes of the current leaf. The last leaf of the file stays here.
    leaf: Hasher,
    /// Number of leaves that ended before.
    leaves: u64,
    /// Subtrees of these leaves, largest first: one for each bit set in their number.
    stack: Vec<ChainingValue>,
}

impl TreeHash {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, offset: 0, leaf: Hasher::new(), leaves: 0, stack: Vec::new() }
    }

    /// Continues at `offset`. `None` if there is no such state of a file of that size.
    pub(crate) fn resume(size: u64, offset: u64, stack: &[HashBytes]) -> Option<Self> {
        let leaves = offset / LEAF_BYTES;
        let is_state = offset.is_multiple_of(GROUP_BYTES)
            && offset < size
            && stack.len() == leaves.count_ones() as usize;
        is_state.then(|| Self { size, offset, leaf: Hasher::new(), leaves, stack: stack.to_vec() })
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the state after the last complete group: its end, and the stack for
    /// [`Self::resume`].
    pub(crate) fn state(&self) -> (u64, &[HashBytes]) {
        let ended = self.leaves * LEAF_BYTES;
        let offset = ended - ended % GROUP_BYTES;
        (offset, &self.stack[..offset.count_ones() as usize])
    }

    /// Returns the bytes until the end of the group, or of the file.
    pub(crate) fn room(&self) -> u64 {
        (GROUP_BYTES - self.offset % GROUP_BYTES).min(self.size - self.offset)
    }

    /// Returns the length of the next run of zeros, if zeros reach to `end`: whole groups from the
    /// beginning of one, or at most [`Self::room`].
    pub(crate) fn zero_run(&self, end: u64) -> u64 {
        let len = end - self.offset;
        let groups = len - len % GROUP_BYTES;
        if !self.offset.is_multiple_of(GROUP_BYTES) {
            len.min(self.room())
        } else if end == self.size || groups == 0 {
            len
        } else {
            groups
        }
    }

    /// Adds bytes, at most [`Self::room`]. Returns the chaining value of a group that ends here and
    /// is not the last one.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) -> Option<HashBytes> {
        debug_assert!(bytes.len() as u64 <= self.room());
        let mut group = None;
        while !bytes.is_empty() {
            let left = LEAF_BYTES - self.offset % LEAF_BYTES;
            let (piece, rest) =
                bytes.split_at(usize::try_from(left).map_or(bytes.len(), |n| n.min(bytes.len())));
            self.leaf.update(piece);
            self.offset += piece.len() as u64;
            if self.offset.is_multiple_of(LEAF_BYTES) && self.offset < self.size {
                let value = self.leaf.finalize_non_root();
                self.leaf.reset();
                group = self.push(0, value);
            }
            bytes = rest;
        }
        group
    }

    /// Adds zeros, of a length that [`Self::zero_run`] allows. Returns the chaining value of a
    /// group that ends here, is not the last one, and was not added as a whole.
    pub(crate) fn update_zeros(&mut self, mut count: u64) -> Option<HashBytes> {
        let mut group = None;
        while count > 0 {
            let left = LEAF_BYTES - self.offset % LEAF_BYTES;
            // The last leaf of the file stays in its hasher.
            let leaves = count.min(self.size - self.offset - 1) / LEAF_BYTES;
            if left < LEAF_BYTES || leaves == 0 {
                let piece = left.min(count);
                #[expect(clippy::cast_possible_truncation, reason = "at most a leaf")]
                let zeros = &ZEROS[..piece as usize];
                group = self.update(zeros);
                count -= piece;
                continue;
            }
            let level = self.leaves.trailing_zeros().min(leaves.ilog2());
            let len = LEAF_BYTES << level;
            self.offset += len;
            count -= len;
            group = self.push(level, zeros(level));
        }
        group
    }

    /// Returns the hash of the file, all of which was added.
    pub(crate) fn finish(&self) -> HashBytes {
        debug_assert_eq!(self.offset, self.size);
        let Some((first, rest)) = self.stack.split_first() else {
            return self.leaf.finalize().into();
        };
        let tail = self.leaf.finalize_non_root();
        let right =
            rest.iter().rev().fold(tail, |right, left| merge_subtrees_non_root(left, &right, Mode::Hash));
        merge_subtrees_root(first, &right, Mode::Hash).into()
    }

    /// Adds a subtree of `1 << level` leaves. Returns the chaining value of the group that it
    /// completes, if it is a part of one.
    fn push(&mut self, level: u32, mut value: ChainingValue) -> Option<HashBytes> {
        let mut group = None;
        self.leaves += 1 << level;
        // As a carry of binary addition. No merge is the root, because more bytes follow.
        for level in level + 1..=self.leaves.trailing_zeros() {
            if let Some(left) = self.stack.pop() {
                value = merge_subtrees_non_root(&left, &value, Mode::Hash);
            }
            if level == GROUP_LEVEL {
                group = Some(value);
            }
        }
        self.stack.push(value);
        group
    }
}

/// Returns the chaining value of a subtree of zeros.
fn zeros(level: u32) -> ChainingValue {
    static LEVEL: OnceLock<[ChainingValue; LEVELS]> = OnceLock::new();
    let values = LEVEL.get_or_init(|| {
        let mut value = Hasher::new().update(&ZEROS).finalize_non_root();
        std::array::from_fn(|_| {
            let own = value;
            value = merge_subtrees_non_root(&own, &own, Mode::Hash);
            own
        })
    });
    values[level as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: usize = 512 << 10;
    const LEAF: usize = 64 << 10;

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

    fn hash(all: &[u8], piece: usize) -> HashBytes {
        let mut tree = TreeHash::new(all.len() as u64);
        add(&mut tree, all, piece);
        tree.finish()
    }

    fn subtree(bytes: &[u8]) -> ChainingValue {
        if bytes.len() <= LEAF {
            return Hasher::new().update(bytes).finalize_non_root();
        }
        let (left, right) = bytes.split_at(bytes.len().div_ceil(2).next_power_of_two());
        merge_subtrees_non_root(&subtree(left), &subtree(right), Mode::Hash)
    }

    /// Hash by the definition: the left child has the largest power of two that leaves something.
    fn defined(bytes: &[u8]) -> HashBytes {
        if bytes.len() <= LEAF {
            return blake3::hash(bytes).into();
        }
        let (left, right) = bytes.split_at(bytes.len().div_ceil(2).next_power_of_two());
        merge_subtrees_root(&subtree(left), &subtree(right), Mode::Hash).into()
    }

    #[test]
    fn hash_follows_definition_at_every_shape() {
        let all = bytes(5 * GROUP + 1);
        let leaves = [0, 1, 1024, LEAF - 1, LEAF, LEAF + 1, 3 * LEAF, 7 * LEAF - 5];
        let groups = [GROUP - 1, GROUP, GROUP + 1, 2 * GROUP, 3 * GROUP + 7, 4 * GROUP, all.len()];
        for len in leaves.into_iter().chain(groups) {
            assert_eq!(hash(&all[..len], 1 << 20), defined(&all[..len]), "{len}");
        }
        assert_eq!(hash(&all[..3 * LEAF], 1000), defined(&all[..3 * LEAF]));
    }

    #[test]
    fn resumed_hash_equals_whole_hash() {
        let all = bytes(4 * GROUP + 100);
        let size = all.len() as u64;
        for groups in 1..=4 {
            let mut first = TreeHash::new(size);
            let end = (groups * GROUP + 3 * LEAF + 5).min(all.len());
            add(&mut first, &all[..end], 3 << 20);
            let (offset, stack) = first.state();
            assert_eq!(offset, (groups * GROUP) as u64);
            let mut second = TreeHash::resume(size, offset, stack).unwrap();
            add(&mut second, &all[groups * GROUP..], 1 << 20);
            assert_eq!(second.finish(), defined(&all), "{groups}");
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
        let mut whole = TreeHash::new(2 * g);
        whole.update_zeros(2 * g);
        let (offset, stack) = whole.state();
        assert!(offset == g && TreeHash::resume(2 * g, offset, stack).is_some(), "the last leaf is left");
    }

    /// Adds a file with zeros from `begin` to `end`, by runs.
    fn with_hole(all: &[u8], begin: usize, end: usize) -> TreeHash {
        let mut tree = TreeHash::new(all.len() as u64);
        add(&mut tree, &all[..begin], 1 << 20);
        while tree.offset() < end as u64 {
            let run = tree.zero_run(end as u64);
            tree.update_zeros(run);
        }
        add(&mut tree, &all[end..], 1 << 20);
        tree
    }

    #[test]
    fn hole_equals_bytes_of_zero() {
        for (begin, end, size) in [
            (0, 5, 5),
            (0, GROUP, GROUP),
            (0, 3 * GROUP, 3 * GROUP + 1),
            (3, 3 * GROUP, 3 * GROUP),
            (LEAF, 2 * GROUP + LEAF + 1, 3 * GROUP),
            (GROUP, 2 * GROUP, 2 * GROUP + 7),
            (GROUP + 1, 2 * GROUP - 1, 2 * GROUP),
        ] {
            let mut all = bytes(size);
            all[begin..end].fill(0);
            assert_eq!(with_hole(&all, begin, end).finish(), defined(&all), "{begin} to {end} in {size}");
        }
    }

    #[test]
    fn group_with_data_and_hole_has_value() {
        let (mut hole, mut data) = (TreeHash::new(9 << 20), TreeHash::new(9 << 20));
        assert_eq!(hole.update(b"x"), None);
        let all = [&b"x"[..], &vec![0; GROUP - 1]].concat();
        let value = data.update(&all);
        assert!(value.is_some() && hole.update_zeros(hole.zero_run(9 << 20)) == value);
        assert_eq!(TreeHash::new(9 << 20).update_zeros(GROUP_BYTES), None, "a whole group");
    }

    #[test]
    fn longest_hole_takes_no_time() {
        for size in [u64::MAX, 1 << 63, (1 << 40) + 1] {
            let mut tree = TreeHash::new(size);
            tree.update_zeros(tree.zero_run(size));
            assert_eq!((tree.offset(), tree.finish().len()), (size, 32));
        }
    }
}
