//! CRC-32 of a stream whose bytes arrive in any order. If the CRC of a piece is known, its bytes
//! are not read again.

use std::collections::VecDeque;

use crate::crc::{self, Combiner, Crc32, combine};

/// CRC-32 of the bytes in order.
#[derive(Debug)]
pub(super) struct OrderedCrc {
    /// CRC of everything before the tail.
    head: u32,
    /// CRC of the newest bytes, which came without a known CRC, and their number.
    tail: Crc32,
    tail_len: u64,
    combiner: Combiner,
}

impl OrderedCrc {
    pub(super) fn new() -> Self {
        Self { head: 0, tail: Crc32::new(), tail_len: 0, combiner: Combiner::default() }
    }

    /// Returns the CRC of everything so far.
    pub(super) fn sum(&self) -> u32 {
        if self.tail_len == 0 { self.head } else { combine(self.head, self.tail.sum(), self.tail_len) }
    }

    /// Appends bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.tail.update(bytes);
        self.tail_len += bytes.len() as u64;
    }

    /// Appends bytes whose CRC is known.
    pub(super) fn append_hashed(&mut self, bytes: &[u8], crc: u32) {
        self.fold_tail();
        self.head = self.combiner.extend(self.head, bytes, Some(crc));
    }

    /// Appends `len` bytes that have this CRC.
    pub(super) fn append_run(&mut self, crc: u32, len: u64) {
        self.fold_tail();
        self.head = combine(self.head, crc, len);
    }

    fn fold_tail(&mut self) {
        if self.tail_len > 0 {
            self.head = self.sum();
            (self.tail, self.tail_len) = (Crc32::new(), 0);
        }
    }
}

#[derive(Debug)]
struct Run {
    start: u64,
    end: u64,
    crc: u32,
}

/// CRC-32 of each contiguous run beyond the first hole.
#[derive(Debug, Default)]
pub(super) struct RunCrcs {
    /// Sorted, disjoint, not touching.
    runs: VecDeque<Run>,
    combiner: Combiner,
}

impl RunCrcs {
    /// Returns the memory of the runs, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.runs.len() * size_of::<Run>()) as u64
    }

    /// Removes the first run if it begins at offset `start`, and returns its length and CRC.
    pub(super) fn pop_at(&mut self, start: u64) -> Option<(u64, u32)> {
        let run = self.runs.front().filter(|run| run.start == start)?;
        let found = (run.end - run.start, run.crc);
        self.runs.pop_front();
        Some(found)
    }

    /// Adds bytes beyond a hole, none of which arrived before, with their CRC if it is known.
    pub(super) fn insert(&mut self, start: u64, bytes: &[u8], crc: Option<u32>) {
        let end = start + bytes.len() as u64;
        let next = match self.runs.back() {
            Some(last) if last.end > start => self.runs.partition_point(|run| run.end <= start),
            _ => self.runs.len(),
        };
        let extended = next.checked_sub(1).filter(|before| self.runs[*before].end == start);
        if let Some(run) = extended.map(|index| &mut self.runs[index]) {
            run.crc = self.combiner.extend(run.crc, bytes, crc);
            run.end = end;
        } else {
            let crc = crc.unwrap_or_else(|| crc::hash(bytes));
            self.runs.insert(next, Run { start, end, crc });
        }
        let this = extended.unwrap_or(next);
        if self.runs.get(this + 1).is_some_and(|after| after.start == end)
            && let Some(after) = self.runs.remove(this + 1)
        {
            let run = &mut self.runs[this];
            run.crc = combine(run.crc, after.crc, after.end - after.start);
            run.end = after.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_check_value_results_from_two_halves() {
        let (mut crc, mut runs) = (OrderedCrc::new(), RunCrcs::default());
        runs.insert(4, b"56789", Some(crc32fast::hash(b"56789")));
        assert_eq!((crc.sum(), runs.pop_at(3)), (0, None));
        crc.append_hashed(b"1234", crc32fast::hash(b"1234"));
        let (len, run) = runs.pop_at(4).unwrap();
        crc.append_run(run, len);
        assert_eq!((crc.sum(), runs.memory()), (0xCBF4_3926, 0));
    }

    #[test]
    fn touching_pieces_join_in_either_order() {
        let mut crc = RunCrcs::default();
        for start in [20, 24, 16, 12, 28] {
            crc.insert(start, b"abcd", None);
            assert_eq!(crc.runs.len(), 1);
        }
        crc.insert(4, b"abcd", None);
        assert_eq!(crc.runs.len(), 2);
        crc.insert(8, b"abcd", None);
        assert_eq!((crc.runs.len(), crc.runs[0].crc), (1, crc32fast::hash(&b"abcd".repeat(7))));
    }

    #[test]
    fn equal_lengths_are_combined_without_reading() {
        let bytes: Vec<u8> = (0..100_u8).cycle().take(10 * 1444 + 10 * 1200).collect();
        let (long, short) = bytes.split_at(10 * 1444);
        let mut crc = OrderedCrc::new();
        for pieces in [long.chunks(1444), short.chunks(1200)] {
            for (index, piece) in pieces.enumerate() {
                let known = crc32fast::hash(piece);
                // From the second piece on the length is known: zeros in place of the bytes change
                // nothing.
                let piece = if index == 0 { piece } else { &[0; 1444][..piece.len()] };
                crc.append_hashed(piece, known);
            }
        }
        assert_eq!(crc.sum(), crc32fast::hash(&bytes));
    }

    #[test]
    fn random_pieces_give_crc_of_whole() {
        for seed in 0..200 {
            let mut random = rdt_testing::random(seed);
            let bytes: Vec<u8> = (0..5000).map(|_| random(256).to_le_bytes()[0]).collect();
            let (mut crc, mut runs) = (OrderedCrc::new(), RunCrcs::default());
            let mut pieces = Vec::new();
            let mut start = 0;
            while start < bytes.len() {
                let length = [100, 100, 100, 65, 3][usize::try_from(random(5)).unwrap()];
                let end = (start + length).min(bytes.len());
                pieces.push(start..end);
                start = end;
            }
            let mut end = 0;
            while !pieces.is_empty() {
                let last = pieces.len() as u64;
                let piece = pieces.remove(usize::try_from(random(last).min(random(last))).unwrap());
                let part = &bytes[piece.clone()];
                let known = (random(3) > 0).then(|| crc32fast::hash(part));
                if piece.start == end {
                    match known {
                        Some(known) => crc.append_hashed(part, known),
                        None => crc.append(part),
                    }
                    end = piece.end;
                    while let Some((len, run)) = runs.pop_at(end as u64) {
                        crc.append_run(run, len);
                        end += usize::try_from(len).unwrap();
                    }
                } else {
                    runs.insert(piece.start as u64, part, known);
                }
                let missing = pieces.iter().map(|piece| piece.start).min().unwrap_or(bytes.len());
                assert_eq!(end, missing, "seed {seed}");
                assert_eq!(crc.sum(), crc32fast::hash(&bytes[..end]), "seed {seed}");
            }
            assert!(runs.runs.is_empty(), "seed {seed}");
        }
    }
}
