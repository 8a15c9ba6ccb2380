//! The bytes that were written and are not yet acknowledged, addressed by their offset in the stream, and
//! the CRC-32 of the stream. Knows no packets and no time.

use std::collections::VecDeque;

use crate::crc::Combiner;

/// Bytes of one chunk. Chunks are reused, so a transfer's working set is what is in flight.
const CHUNK: usize = 64 * 1024;
/// Free chunks kept for reuse; more are given back to the allocator. What one turn's ACKs free is taken again by the
/// next turn's data, so this is as much as a turn may acknowledge: 16 MiB.
const FREE_CHUNKS: usize = 256;

#[derive(Debug)]
pub(crate) struct SendBuffer {
    chunks: VecDeque<Box<[u8]>>,
    free: Vec<Box<[u8]>>,
    /// Offset of the first byte of the first chunk; a multiple of [`CHUNK`].
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
    pub(crate) fn new(of_packets: bool) -> Self {
        let crc = if of_packets {
            Crc::Sent { crc: 0, combiner: Box::default() }
        } else {
            Crc::Written(crc32fast::Hasher::new())
        };
        Self { chunks: VecDeque::new(), free: Vec::new(), base: 0, end: 0, crc }
    }

    /// Room for the next bytes: never empty, at most one chunk long.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        let used = self.index(self.end);
        if used == self.chunks.len() * CHUNK {
            let chunk = self.free.pop().unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
            self.chunks.push_back(chunk);
        }
        &mut self.chunks[used / CHUNK][used % CHUNK..]
    }

    /// Takes the first `n` bytes of [`SendBuffer::spare`] as written.
    pub(crate) fn advance(&mut self, n: usize) {
        let used = self.index(self.end);
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
        let mut crc = crc32fast::Hasher::new();
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

    /// Forgets everything before `offset`.
    pub(crate) fn release(&mut self, offset: u64) {
        while self.base + CHUNK as u64 <= offset {
            let Some(chunk) = self.chunks.pop_front() else { return };
            if self.free.len() < FREE_CHUNKS {
                self.free.push(chunk);
            }
            self.base += CHUNK as u64;
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
        let mut buffer = SendBuffer::new(false);
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
        let mut buffer = SendBuffer::new(true);
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
        let mut buffer = SendBuffer::new(false);
        for round in 0..1000_u64 {
            write(&mut buffer, &vec![7; CHUNK]);
            buffer.release(round * CHUNK as u64);
            assert!(buffer.chunks.len() <= 2 && buffer.free.len() <= FREE_CHUNKS);
        }
    }

    #[test]
    fn releasing_to_the_end_of_a_full_chunk_leaves_a_usable_buffer() {
        let mut buffer = SendBuffer::new(false);
        write(&mut buffer, &vec![1; CHUNK]);
        buffer.release(CHUNK as u64);
        write(&mut buffer, &[2; 10]);
        let mut out = [0; 10];
        buffer.copy_to(CHUNK as u64, &mut out);
        assert_eq!(out, [2; 10]);
    }
}
