//! The bytes that were written and are not yet acknowledged, addressed by their offset in the stream, and
//! the CRC-32 of the stream. Knows no packets and no time.

use std::collections::VecDeque;

use super::memory::{CHUNK, SendMemory};
use crate::crc::{self, Combiner};

#[derive(Debug)]
pub(crate) struct SendBuffer {
    chunks: VecDeque<Box<[u8]>>,
    /// Where chunks come from and go to: they are reused, so the working set is what is in flight.
    memory: SendMemory,
    /// Offset of the first byte of the first chunk.
    base: u64,
    /// One past the last byte written.
    end: u64,
    crc: Crc,
}

/// The CRC-32 of the stream, in one of two ways that read each byte once.
#[derive(Debug)]
enum Crc {
    /// Of what was written, read when it is.
    Written(crc32fast::Hasher),
    /// Of what was sent, put together from those of the packets, which are computed anyway.
    Sent { crc: u32, combiner: Box<Combiner> },
}

impl SendBuffer {
    /// `of_packets` if the caller will give the CRC-32 of each packet ([`SendBuffer::sent`]).
    pub(crate) fn new(of_packets: bool, memory: SendMemory) -> Self {
        let crc = if of_packets {
            Crc::Sent { crc: 0, combiner: Box::default() }
        } else {
            Crc::Written(crc32fast::Hasher::new())
        };
        Self { chunks: VecDeque::new(), memory, base: 0, end: 0, crc }
    }

    /// Room for the next bytes: never empty, at most one chunk long.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        let used = self.index(self.end);
        if used == self.chunks.len() * CHUNK {
            self.chunks.push_back(self.memory.take());
        }
        &mut self.chunks[used / CHUNK][used % CHUNK..]
    }

    /// Takes the first `n` bytes of [`SendBuffer::spare`] as written.
    pub(crate) fn advance(&mut self, n: usize) {
        let used = self.index(self.end);
        assert!(n <= self.chunks.len() * CHUNK - used, "more than there was room for");
        if n > 0 {
            if let Crc::Written(crc) = &mut self.crc {
                crc.update(&self.chunks[used / CHUNK][used % CHUNK..][..n]);
            }
            self.end += n as u64;
        }
    }

    /// The next `len` bytes of the stream left for the first time; `crc` is their CRC-32, where packets have one.
    pub(crate) fn sent(&mut self, len: usize, crc: Option<u32>) {
        if let (Crc::Sent { crc: whole, combiner }, Some(piece)) = (&mut self.crc, crc) {
            *whole = combiner.append(*whole, piece, len);
        }
    }

    /// Copies the bytes from `offset` on into `out`; all of them must have been written and not released.
    pub(crate) fn copy_to(&self, offset: u64, out: &mut [u8]) {
        debug_assert!(offset >= self.base && offset + out.len() as u64 <= self.end);
        let mut at = self.index(offset);
        let mut rest = out;
        while !rest.is_empty() {
            let chunk = &self.chunks[at / CHUNK][at % CHUNK..];
            let n = chunk.len().min(rest.len());
            let (head, tail) = rest.split_at_mut(n);
            head.copy_from_slice(&chunk[..n]);
            rest = tail;
            at += n;
        }
    }

    /// CRC-32 of the `len` bytes from `offset` on, which [`SendBuffer::copy_to`] would copy.
    pub(crate) fn checksum(&self, offset: u64, len: usize) -> u32 {
        let mut crc = crc::hasher();
        let mut at = self.index(offset);
        let mut rest = len;
        while rest > 0 {
            let chunk = &self.chunks[at / CHUNK][at % CHUNK..];
            let n = chunk.len().min(rest);
            crc.update(&chunk[..n]);
            rest -= n;
            at += n;
        }
        crc.finalize()
    }

    /// Forgets everything before `offset`. Who holds nothing has no memory either: the next byte is the first of a
    /// chunk.
    pub(crate) fn release(&mut self, offset: u64) {
        while self.base + CHUNK as u64 <= offset || offset == self.end {
            let Some(chunk) = self.chunks.pop_front() else { break };
            self.memory.give_back(chunk);
            self.base = (self.base + CHUNK as u64).min(self.end);
        }
    }

    /// One past the last byte written: the length of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// CRC-32 (IEEE) of the stream so far: of what was written, or where packets have checks of what was sent.
    pub(crate) fn crc(&self) -> u32 {
        match &self.crc {
            Crc::Written(crc) => crc.clone().finalize(),
            Crc::Sent { crc, .. } => *crc,
        }
    }

    /// Where `offset` lies in the chunks laid end to end. They hold the bytes in flight and one look-ahead,
    /// which the caller keeps within memory, so the difference fits `usize`.
    #[allow(clippy::cast_possible_truncation, reason = "the buffer is in memory")]
    fn index(&self, offset: u64) -> usize {
        (offset - self.base) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(buffer: &mut SendBuffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = buffer.spare();
            let n = spare.len().min(bytes.len());
            spare[..n].copy_from_slice(&bytes[..n]);
            buffer.advance(n);
            bytes = &bytes[n..];
        }
    }

    #[test]
    fn bytes_come_back_across_chunk_borders() {
        let data: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        let mut buffer = SendBuffer::new(false, SendMemory::new());
        write(&mut buffer, &data);
        let mut out = vec![0; 100_000];
        buffer.copy_to(60_001, &mut out);
        assert_eq!(out, &data[60_001..160_001]);
        for (from, len) in [(60_001, 100_000), (7, 1444), (65_000, 1444), (65_536, 1)] {
            assert_eq!(buffer.checksum(from as u64, len), crc32fast::hash(&data[from..from + len]));
        }
        assert_eq!(buffer.crc(), crc32fast::hash(&data));
        assert_eq!(buffer.end(), 300_000);
    }

    #[test]
    fn the_crc_of_packets_is_that_of_what_was_sent() {
        let data: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8).collect();
        let mut buffer = SendBuffer::new(true, SendMemory::new());
        write(&mut buffer, &data);
        assert_eq!(buffer.crc(), 0);
        let mut sent = 0;
        for len in [1444, 1444, 1444, 1444, 17, 1444] {
            buffer.sent(len, Some(crc32fast::hash(&data[sent..sent + len])));
            sent += len;
            assert_eq!(buffer.crc(), crc32fast::hash(&data[..sent]));
        }
    }

    #[test]
    fn memory_follows_what_is_not_released() {
        let mut buffer = SendBuffer::new(false, SendMemory::new());
        for round in 0..1000_u64 {
            write(&mut buffer, &vec![7; CHUNK]);
            buffer.release(round * CHUNK as u64);
            assert!(buffer.chunks.len() <= 2);
        }
    }

    #[test]
    fn who_holds_nothing_leaves_its_memory_to_others_and_begins_a_chunk_anew() {
        let memory = SendMemory::new();
        let (mut a, mut b) = (SendBuffer::new(false, memory.clone()), SendBuffer::new(false, memory));
        write(&mut a, &vec![1; CHUNK + 10]);
        a.release(CHUNK as u64 + 9);
        assert_eq!(a.chunks.len(), 1, "one byte is left");
        let last = a.chunks[0].as_ptr();
        a.release(CHUNK as u64 + 10);
        assert!(a.chunks.is_empty());
        assert_eq!(b.spare().as_ptr(), last);
        assert_eq!(a.spare().len(), CHUNK);
        write(&mut a, &vec![2; CHUNK]);
        let mut out = [0; 20];
        a.copy_to(CHUNK as u64 + 10, &mut out);
        assert_eq!(out, [2; 20]);
    }

    #[test]
    #[should_panic(expected = "more than there was room for")]
    fn room_does_not_outlast_the_memory() {
        let mut buffer = SendBuffer::new(true, SendMemory::new());
        buffer.spare();
        buffer.release(0);
        buffer.advance(1);
    }

    #[test]
    fn releasing_to_the_end_of_a_full_chunk_leaves_a_usable_buffer() {
        let mut buffer = SendBuffer::new(false, SendMemory::new());
        write(&mut buffer, &vec![1; CHUNK]);
        buffer.release(CHUNK as u64);
        write(&mut buffer, &[2; 10]);
        let mut out = [0; 10];
        buffer.copy_to(CHUNK as u64, &mut out);
        assert_eq!(out, [2; 10]);
    }
}
