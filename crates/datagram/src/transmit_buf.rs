//! Batch of datagrams to one peer for one send call. Its memory is allocated once, so appending
//! neither allocates nor zeroes memory.

use std::sync::Arc;

use crate::{Ecn, FileOffset, Frame};

/// Largest UDP payload over IPv4, bytes: 65,535 less 20 (IP header) less 8 (UDP header).
pub const MAX_DATAGRAM: usize = 65_507;

/// Largest UDP payload over IPv6, bytes: 65,535 less 8 (UDP header), because the length field of
/// IPv6 excludes the IPv6 header (RFC 8200, section 3).
const MAX_DATAGRAM_IPV6: usize = 65_527;

/// Datagrams to one peer, concatenated as segmentation offload (GSO) requires: of equal size,
/// except that the last may be shorter.
#[derive(Debug)]
pub struct TransmitBuf {
    slab: Box<[u8]>,
    /// Frame with the datagrams, and their offset in the frame, bytes. `None`: they are in `slab`.
    frame: Option<(Arc<Frame>, usize)>,
    len: usize,
    segment_size: usize,
    segments: usize,
    max_segments: usize,
    closed: bool,
    ecn: Ecn,
}

impl TransmitBuf {
    /// Size of a batch's memory, bytes.
    pub const SIZE: usize = MAX_DATAGRAM_IPV6;

    /// Creates an empty batch for `max_segments` datagrams (at least 1) of [`MAX_DATAGRAM`] bytes
    /// in total. A single datagram may have 65,527 bytes, the limit of IPv6.
    pub fn new(max_segments: usize) -> Self {
        let mut batch = Self::owning(vec![0; MAX_DATAGRAM_IPV6].into_boxed_slice());
        batch.set_max_segments(max_segments);
        batch
    }

    /// Creates an empty batch for one datagram in `memory` of [`TransmitBuf::SIZE`] bytes.
    pub fn owning(memory: Box<[u8]>) -> Self {
        Self {
            slab: memory,
            frame: None,
            len: 0,
            segment_size: 0,
            segments: 0,
            max_segments: 1,
            closed: false,
            ecn: Ecn::NotEct,
        }
    }

    /// Sets the largest number of datagrams in a batch. Removes no datagram.
    pub fn set_max_segments(&mut self, max_segments: usize) {
        self.max_segments = max_segments.max(1);
    }

    /// Appends a datagram of `len` bytes and returns its memory, which contains stale bytes. `None`
    /// if it does not fit: send the batch, clear it and retry.
    ///
    /// A datagram shorter than the first is the last of the batch. A longer one never fits.
    #[inline]
    pub fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.has_room(len) {
            return None;
        }
        if self.segments == 0 {
            self.segment_size = len;
        }
        // Two zero-length datagrams in a batch could not be distinguished.
        self.closed = len < self.segment_size || len == 0;
        let start = self.len;
        self.len += len;
        self.segments += 1;
        Some(&mut self.slab[start..start + len])
    }

    /// Returns whether a datagram of `len` bytes fits ([`TransmitBuf::slot`]).
    pub fn has_room(&self, len: usize) -> bool {
        !self.closed
            && self.segments < self.max_segments
            && self.len + len <= self.slab.len()
            && (self.segments == 0 || (len <= self.segment_size && self.len + len <= MAX_DATAGRAM))
    }

    /// Removes all datagrams and releases the borrowed frame, if there is one.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
        self.segments = 0;
        self.closed = false;
        self.ecn = Ecn::NotEct;
        self.frame = None;
    }

    /// Ends the batch: no datagram fits until it is cleared.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Makes this empty batch consist of `segments` datagrams of `size` bytes at offset `start` of
    /// `frame`, and closes it. While the batch references the frame, the owner cannot write to it.
    ///
    /// # Panics
    /// If the batch is not empty.
    pub fn borrow(&mut self, frame: Arc<Frame>, start: usize, size: usize, segments: usize) {
        assert!(self.is_empty(), "a batch lies in one place");
        self.frame = Some((frame, start));
        (self.len, self.segment_size, self.segments) = (segments * size, size, segments);
        self.closed = true;
    }

    /// Returns the position of the batch in a file, for zero-copy sending. `None` if it is not in a
    /// file or smaller than [`Frame::MIN_ZERO_COPY_BYTES`], for which senders expect a copy.
    pub fn file_offset(&self) -> Option<FileOffset> {
        let (frame, start) = self.frame.as_ref().filter(|_| self.len >= Frame::MIN_ZERO_COPY_BYTES)?;
        let FileOffset { file, offset } = frame.file_offset()?;
        Some(FileOffset { file, offset: offset + *start as u64 })
    }

    /// Returns the ECN codepoint of all datagrams; [`Ecn::NotEct`] after [`TransmitBuf::clear`].
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Sets the ECN codepoint of all datagrams, until [`TransmitBuf::clear`].
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// Returns the concatenated datagrams, each of [`TransmitBuf::segment_size`] bytes but the
    /// last.
    pub fn bytes(&self) -> &[u8] {
        match &self.frame {
            Some((frame, start)) => &frame.bytes()[*start..*start + self.len],
            None => &self.slab[..self.len],
        }
    }

    /// Returns the largest number of datagrams in a batch.
    pub fn max_segments(&self) -> usize {
        self.max_segments
    }

    /// Returns the bytes of each datagram; the last may be shorter.
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Returns the number of datagrams in the batch.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Returns true if the batch has no datagram.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Iterates over the payloads of the datagrams.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, size) = (self.bytes(), self.segment_size);
        (0..self.segments).map(move |i| &bytes[i * size..((i + 1) * size).min(bytes.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_segment_closes_batch() {
        let mut batch = TransmitBuf::new(4);
        batch.set_ecn(Ecn::Ect0);
        batch.slot(10).unwrap().fill(1);
        batch.slot(10).unwrap().fill(2);
        batch.slot(4).unwrap().fill(3);
        assert!(batch.slot(4).is_none(), "closed by the short segment");
        let sizes: Vec<_> = batch.datagrams().map(|d| (d.len(), d[0])).collect();
        assert_eq!(sizes, [(10, 1), (10, 2), (4, 3)]);
        batch.clear();
        assert!(batch.is_empty() && batch.ecn() == Ecn::NotEct && batch.slot(12).is_some());
    }

    #[test]
    fn longer_and_excess_segments_are_refused() {
        let mut batch = TransmitBuf::new(2);
        assert!(batch.slot(10).is_some());
        assert!(batch.slot(11).is_none(), "longer than the first");
        assert!(batch.slot(10).is_some());
        assert!(batch.slot(10).is_none(), "max_segments");
    }

    #[test]
    fn clear_releases_borrowed_frame() {
        let mut frame = Frame::new();
        frame.bytes_mut()[100..110].fill(1);
        frame.bytes_mut()[110..120].fill(2);
        let frame = Arc::new(frame);
        let mut batch = TransmitBuf::new(9);
        batch.borrow(Arc::clone(&frame), 100, 10, 2);
        assert!(!batch.has_room(1) && batch.file_offset().is_none());
        assert_eq!(batch.datagrams().collect::<Vec<_>>(), [[1; 10], [2; 10]]);
        assert_eq!(Arc::strong_count(&frame), 2);
        batch.clear();
        assert_eq!((Arc::strong_count(&frame), batch.slot(10).map(|slot| slot.len())), (1, Some(10)));
        batch.close();
        assert!(!batch.has_room(1));
    }

    #[test]
    fn file_offset_is_given_from_minimum_size() {
        let place = FileOffset { file: 7, offset: 1 << 16 };
        let frame = Arc::new(Frame::mapped_at(place, vec![0; Frame::SIZE].leak()));
        let mut batch = TransmitBuf::new(9);
        assert_eq!(batch.file_offset(), None);
        batch.borrow(Arc::clone(&frame), 100, 1000, 16);
        assert_eq!(batch.file_offset(), None, "it is too small");
        batch.clear();
        batch.borrow(frame, 100, 1000, 17);
        assert_eq!(batch.file_offset(), Some(FileOffset { file: 7, offset: (1 << 16) + 100 }));
    }

    #[test]
    fn batch_never_exceeds_one_udp_payload() {
        let mut batch = TransmitBuf::new(1000);
        let mut count = 0;
        while batch.slot(1472).is_some() {
            count += 1;
        }
        assert_eq!(count, 44);
        batch.clear();
        assert!(batch.slot(MAX_DATAGRAM).is_some());
        assert!(batch.slot(1).is_none());
    }

    #[test]
    fn largest_ipv6_datagram_fills_batch_alone() {
        let mut batch = TransmitBuf::new(1000);
        assert!(!batch.has_room(65_528));
        assert!(batch.slot(65_527).is_some());
        assert!(batch.slot(0).is_none());
    }
}
