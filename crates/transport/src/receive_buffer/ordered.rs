//! What is in order: the bytes that the application has not read, and the CRC-32 and the number of all that there were.
//! Knows no packet numbers. What was held beyond a hole is read where it lies in the log of such packets, which its
//! caller lends.

use std::collections::VecDeque;

use super::packet_log::{PacketLog, Run};
use crate::crc::{Crc32, combine};

/// A read buffer larger than this is given back once it is empty.
const KEEP_CAPACITY: usize = 1 << 20;
/// Bytes in order of which the CRC-32 is computed at the latest. The library is twice as fast at pieces of some thousand
/// bytes as at packets, and what is read later than this has left the cache.
const PIECE: usize = 64 * 1024;
/// Bytes in one piece that are worth a read of their own; fewer are copied behind those before.
const WORTH_A_READ: usize = 16 * 1024;
/// What a piece in the log costs, in bytes.
pub(super) const PLACE: u64 = size_of::<Run>() as u64;

/// What to keep and what to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep {
    /// The bytes, for [`InOrder::data`].
    pub(crate) payload: bool,
    /// Their CRC-32.
    pub(crate) checksum: bool,
}

#[derive(Debug)]
pub(super) struct InOrder {
    keep: Keep,
    /// What is read first.
    buffer: VecDeque<u8>,
    /// What is read after that, in the log, and how many bytes it is. As long as there is any, what follows goes to the
    /// log as well.
    runs: VecDeque<Run>,
    run_bytes: usize,
    bytes: u64,
    largest: usize,
    /// Of everything but the end of `buffer` from `hashed` on; of all if there are runs.
    crc: Crc32,
    hashed: usize,
    /// Nothing more will come.
    ended: bool,
}

impl InOrder {
    pub(super) fn new(keep: Keep) -> Self {
        Self {
            keep,
            buffer: VecDeque::new(),
            runs: VecDeque::new(),
            run_bytes: 0,
            bytes: 0,
            largest: 0,
            crc: Crc32::new(),
            hashed: 0,
            ended: false,
        }
    }

    /// A packet follows.
    pub(super) fn append(&mut self, payload: &[u8], log: &mut PacketLog) {
        self.bytes += payload.len() as u64;
        self.note_size(payload.len());
        if self.keep.payload && self.runs.is_empty() {
            self.buffer(payload);
            return;
        }
        self.update(payload);
        if self.keep.payload {
            self.push_run(log.append(payload));
        }
    }

    /// What is in the log there follows, packets of sizes that were noted.
    pub(super) fn append_run(&mut self, run: Run, log: &mut PacketLog) {
        self.bytes += run.len() as u64;
        if self.keep.payload && (run.len() >= WORTH_A_READ || !self.runs.is_empty()) {
            self.hash();
            self.update(log.bytes(run));
            self.push_run(run);
            return;
        }
        if self.keep.payload {
            self.buffer(log.bytes(run));
        } else {
            self.update(log.bytes(run));
        }
        log.release(run);
    }

    /// A packet that is or will be appended has this payload, in bytes.
    pub(super) fn note_size(&mut self, len: usize) {
        self.largest = self.largest.max(len);
    }

    /// The next bytes that were not consumed, up to where they lie in one piece.
    pub(super) fn data<'a>(&'a self, log: &'a PacketLog) -> &'a [u8] {
        match self.runs.front() {
            Some(run) if self.buffer.is_empty() => log.bytes(*run),
            _ => self.buffer.as_slices().0,
        }
    }

    /// Takes the next `n` bytes as read, or as many as there are.
    pub(super) fn consume(&mut self, n: usize, log: &mut PacketLog) {
        self.hash();
        let first = n.min(self.buffer.len());
        self.consume_runs(n - first, log);
        if first < self.buffer.len() {
            self.buffer.drain(..first);
        } else if self.ended || self.buffer.capacity() > KEEP_CAPACITY {
            self.buffer = VecDeque::new();
        } else {
            self.buffer.clear();
        }
        self.hashed = self.buffer.len();
    }

    /// Reads nothing in the log any more.
    pub(super) fn leave(&mut self, log: &PacketLog) {
        self.hash();
        for run in self.runs.drain(..) {
            self.buffer.extend(log.bytes(run));
        }
        self.run_bytes = 0;
        self.hashed = self.buffer.len();
    }

    /// Nothing more will come: when all is read, no memory is kept.
    pub(super) fn end(&mut self) {
        self.ended = true;
        if self.unread() == 0 {
            self.buffer = VecDeque::new();
            self.runs = VecDeque::new();
            self.hashed = 0;
        }
    }

    pub(super) fn keep(&self) -> Keep {
        self.keep
    }

    /// Bytes that were not consumed.
    pub(super) fn unread(&self) -> u64 {
        (self.buffer.len() + self.run_bytes) as u64
    }

    /// Bytes so far, read or not.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Payload of the largest packet so far, in bytes.
    pub(super) fn largest(&self) -> u64 {
        self.largest as u64
    }

    /// CRC-32 of the bytes so far; 0 if it is not computed.
    pub(super) fn crc(&self) -> u32 {
        if !self.keep.checksum {
            return 0;
        }
        let mut crc = Crc32::new();
        for piece in rest(&self.buffer, self.hashed) {
            crc.update(piece);
        }
        combine(self.crc.sum(), crc.sum(), (self.buffer.len() - self.hashed) as u64)
    }

    /// Memory of what is here, in bytes, and in the log; without what says where.
    pub(super) fn memory(&self) -> u64 {
        (self.buffer.len() + self.run_bytes) as u64
    }

    /// Pieces that are read in the log.
    pub(super) fn places(&self) -> u64 {
        self.runs.len() as u64
    }

    /// What is read in the log, in bytes.
    #[cfg(test)]
    pub(super) fn in_log(&self) -> usize {
        assert_eq!(self.run_bytes, self.runs.iter().map(|run| run.len()).sum());
        self.run_bytes
    }

    /// Bytes of memory for what is read first, used or not.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn buffer(&mut self, payload: &[u8]) {
        self.buffer.extend(payload);
        if self.buffer.len() - self.hashed >= PIECE {
            self.hash();
        }
    }

    fn push_run(&mut self, run: Run) {
        self.run_bytes += run.len();
        if run.len() > 0 && !self.runs.back_mut().is_some_and(|last| last.join(run)) {
            self.runs.push_back(run);
        }
    }

    fn consume_runs(&mut self, mut n: usize, log: &mut PacketLog) {
        while n > 0
            && let Some(run) = self.runs.front_mut()
        {
            let first = run.split_off(n);
            if run.len() == 0 {
                self.runs.pop_front();
            }
            n -= first.len();
            self.run_bytes -= first.len();
            log.release(first);
        }
    }

    fn update(&mut self, payload: &[u8]) {
        if self.keep.checksum {
            self.crc.update(payload);
        }
    }

    /// Computes the CRC of all that is in order.
    fn hash(&mut self) {
        if self.keep.checksum {
            for piece in rest(&self.buffer, self.hashed) {
                self.crc.update(piece);
            }
        }
        self.hashed = self.buffer.len();
    }
}

/// What comes from the byte `at` on.
fn rest(buffer: &VecDeque<u8>, at: usize) -> [&[u8]; 2] {
    let (first, second) = buffer.as_slices();
    [first.get(at..).unwrap_or_default(), &second[at.saturating_sub(first.len())..]]
}
