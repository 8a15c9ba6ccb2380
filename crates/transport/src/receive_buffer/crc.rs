//! The CRC-32 of a stream whose pieces arrive in any order, from the CRC-32 of the pieces where it is known.
//! Owns the CRC of everything in order and one of each contiguous run beyond; no byte is read twice.

use std::collections::VecDeque;

use crate::crc::{self, Combiner, combine};

#[derive(Debug)]
struct Run {
    start: u64,
    end: u64,
    crc: u32,
}

#[derive(Debug)]
pub(crate) struct StreamCrc {
    /// End of what is in order.
    end: u64,
    crc: u32,
    /// Sorted, disjoint, not touching: the ranges held beyond `end`.
    runs: VecDeque<Run>,
    combiner: Combiner,
}

impl StreamCrc {
    /// A stream that begins at `start`.
    pub(crate) fn new(start: u64) -> Self {
        Self { end: start, crc: 0, runs: VecDeque::new(), combiner: Combiner::default() }
    }

    /// The CRC of everything in order.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }

    /// Memory of the runs, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (self.runs.len() * size_of::<Run>()) as u64
    }

    /// Takes the next bytes in order and every run that they reach. `crc` is theirs, if it is known.
    pub(crate) fn append(&mut self, bytes: &[u8], crc: Option<u32>) {
        self.crc = self.combiner.extend(self.crc, bytes, crc);
        self.end += bytes.len() as u64;
        while self.runs.front().is_some_and(|run| run.start == self.end)
            && let Some(run) = self.runs.pop_front()
        {
            self.crc = combine(self.crc, run.crc, run.end - run.start);
            self.end = run.end;
        }
    }

    /// Takes bytes beyond a hole, none of which came before. `crc` is theirs, if it is known.
    pub(crate) fn hold(&mut self, start: u64, bytes: &[u8], crc: Option<u32>) {
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
    fn the_check_value_of_the_catalogue_comes_out_of_its_halves() {
        let mut crc = StreamCrc::new(0);
        crc.hold(4, b"56789", Some(crc32fast::hash(b"56789")));
        assert_eq!(crc.crc(), 0);
        crc.append(b"1234", Some(crc32fast::hash(b"1234")));
        assert_eq!(crc.crc(), 0xCBF4_3926);
        assert_eq!(crc.memory(), 0);
    }

    #[test]
    fn pieces_that_touch_are_one_run_in_either_order() {
        let mut crc = StreamCrc::new(0);
        for start in [20, 24, 16, 12, 28] {
            crc.hold(start, b"abcd", None);
            assert_eq!(crc.runs.len(), 1);
        }
        crc.hold(4, b"abcd", None);
        assert_eq!(crc.runs.len(), 2);
        crc.hold(8, b"abcd", None);
        assert_eq!((crc.runs.len(), crc.runs[0].crc), (1, crc32fast::hash(&b"abcd".repeat(7))));
    }

    #[test]
    fn equal_lengths_are_combined_and_not_read() {
        let bytes: Vec<u8> = (0..100_u8).cycle().take(10 * 1444 + 10 * 1200).collect();
        let (long, short) = bytes.split_at(10 * 1444);
        let mut crc = StreamCrc::new(0);
        for pieces in [long.chunks(1444), short.chunks(1200)] {
            for (index, piece) in pieces.enumerate() {
                let known = crc32fast::hash(piece);
                // From the second on the length is known: zeros in place of the bytes change nothing.
                let piece = if index == 0 { piece } else { &[0; 1444][..piece.len()] };
                crc.append(piece, Some(known));
            }
        }
        assert_eq!(crc.crc(), crc32fast::hash(&bytes));
    }

    #[test]
    fn pieces_of_any_length_in_any_order_give_the_crc_of_the_whole() {
        for seed in 0..200 {
            let mut random = crate::range_set::random(seed);
            let bytes: Vec<u8> = (0..5000).map(|_| random(256).to_le_bytes()[0]).collect();
            let mut crc = StreamCrc::new(7);
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
                    crc.append(part, known);
                    end = pieces.iter().map(|piece| piece.start).min().unwrap_or(bytes.len());
                } else {
                    crc.hold(7 + piece.start as u64, part, known);
                }
                assert_eq!(crc.end, 7 + end as u64, "seed {seed}");
                assert_eq!(crc.crc(), crc32fast::hash(&bytes[..end]), "seed {seed}");
            }
            assert!(crc.runs.is_empty(), "seed {seed}");
        }
    }
}
