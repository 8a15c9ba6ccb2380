//! Bytes in order: their memory until the application has read them, and the CRC-32 of all of them.
//! Bytes beyond a hole lie in the same memory, at their offsets; [`super::ranges`] or
//! [`super::slots`] records where.

use std::ops::Range;

use super::chunks::Chunks;
use crate::crc::Crc32;

/// Bytes in order that may wait for their CRC. The library is twice as fast at pieces of some
/// thousand bytes as at packets; with more bytes waiting, the first ones would leave the cache.
const MAX_UNHASHED: u64 = 64 * 1024;

/// Use of the received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keep {
    /// True to keep the bytes for the application.
    pub payload: bool,
    /// True to compute the CRC-32 of the bytes.
    pub checksum: bool,
}

#[derive(Debug)]
pub(super) struct Ordered {
    keep: Keep,
    start: u64,
    /// Offset of the first unread byte; `end` if no bytes are kept for the application.
    read: u64,
    /// Offset after the last byte in order.
    end: u64,
    /// Offset after the last byte that `crc` covers.
    hashed: u64,
    pub(super) chunks: Chunks,
    crc: Crc32,
}

impl Ordered {
    pub(super) fn new(start: u64, keep: Keep) -> Self {
        Self {
            keep,
            start,
            read: start,
            end: start,
            hashed: start,
            chunks: Chunks::new(start),
            crc: Crc32::new(),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "runs once for each packet; the call costs as much as the work")]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len() as u64;
        if self.keep.payload {
            self.chunks.write(self.end, bytes);
        } else if self.keep.checksum {
            self.hash();
            self.crc.update(bytes);
            self.hashed = end;
        }
        self.set_end(end);
    }

    /// Appends pieces in order that end at offset `end`. Reads them only to keep or sum them.
    pub(super) fn append_all<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>, end: u64) {
        if self.keep.payload || self.keep.checksum {
            pieces.for_each(|piece| self.append(piece));
        } else {
            self.set_end(end);
        }
    }

    /// Appends the next `len` bytes in memory, whose CRC is not known.
    pub(super) fn append_in_place(&mut self, len: u64) {
        self.set_end(self.end + len);
    }

    /// Computes the CRC of the bytes in memory that have none yet.
    #[inline]
    pub(super) fn hash(&mut self) {
        if self.hashed < self.end {
            self.hash_rest();
        }
    }

    #[inline(never)]
    fn hash_rest(&mut self) {
        if self.keep.checksum {
            for piece in self.chunks.slices(self.hashed..self.end) {
                self.crc.update(piece);
            }
        }
        self.hashed = self.end;
    }

    /// Releases the memory of bytes that were read. `is_contiguous` if no bytes lie beyond a hole.
    pub(super) fn release(&mut self, is_contiguous: bool) {
        if self.read == self.end && is_contiguous {
            self.chunks.clear(self.read);
        } else {
            self.chunks.release_below(self.read);
        }
    }

    /// Returns the next unread bytes, up to the end of their chunk. Empty only if there are none.
    pub(super) fn data(&self) -> &[u8] {
        self.chunks.slice(self.read..self.end)
    }

    pub(super) fn consume(&mut self, n: u64) {
        self.read += n.min(self.unread());
        if self.read > self.hashed {
            self.hash();
        }
    }

    pub(super) fn keep(&self) -> Keep {
        self.keep
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn unread(&self) -> u64 {
        self.end - self.read
    }

    pub(super) fn read_offset(&self) -> u64 {
        self.read
    }

    pub(super) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    pub(super) fn crc(&mut self) -> u32 {
        if !self.keep.checksum {
            return 0;
        }
        self.hash();
        self.crc.sum()
    }

    /// Copies bytes out of memory.
    pub(super) fn copy(&self, range: Range<u64>) -> Box<[u8]> {
        self.chunks.slices(range).flatten().copied().collect()
    }

    #[inline]
    fn set_end(&mut self, end: u64) {
        self.end = end;
        if end - self.hashed >= MAX_UNHASHED {
            self.hash_rest();
        }
        if !self.keep.payload {
            self.read = end;
        }
    }
}
