//! The batch of datagrams that goes to the kernel in one call: who may still be appended, and how.
//!
//! Owns memory for life, or holds a sender's frame in which the datagrams lie already; nothing is allocated or zeroed per
//! datagram.

use std::sync::Arc;

use crate::{Ecn, Frame, Place};

/// The largest UDP payload over IPv4, in bytes: 65,535 less 20 of IP header and 8 of UDP header.
pub const MAX_DATAGRAM: usize = 65_507;

/// The same over IPv6: 65,535 less 8, for that counts no IP header (RFC 8200, section 3).
const MAX_DATAGRAM_IPV6: usize = 65_527;

/// Datagrams to one peer, laid end to end as the kernel's segmentation offload wants them: all of one
/// size, but for a shorter last one.
#[derive(Debug)]
pub struct TransmitBuf {
    slab: Box<[u8]>,
    /// Where the datagrams lie in place of the slab, and from where on.
    frame: Option<(Arc<Frame>, usize)>,
    len: usize,
    segment_size: usize,
    segments: usize,
    max_segments: usize,
    closed: bool,
    ecn: Ecn,
}

impl TransmitBuf {
    /// Bytes of one that has memory of its own.
    pub const SIZE: usize = MAX_DATAGRAM_IPV6;

    /// An empty batch of at most `max_segments` datagrams (at least 1) and [`MAX_DATAGRAM`] bytes in all, or of one
    /// datagram of up to 65,527, which IPv6 carries.
    pub fn new(max_segments: usize) -> Self {
        let mut batch = Self::owning(vec![0; MAX_DATAGRAM_IPV6].into_boxed_slice());
        batch.set_max_segments(max_segments);
        batch
    }

    /// The same over memory of its own, [`TransmitBuf::SIZE`] bytes of it, for a caller who can do without.
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

    /// Changes the largest number of datagrams in a batch, from the next [`TransmitBuf::clear`] on if the
    /// batch holds more already.
    pub fn set_max_segments(&mut self, max_segments: usize) {
        self.max_segments = max_segments.max(1);
    }

    /// Room for one more datagram of exactly `len` bytes, holding whatever was there before; `None` when
    /// it does not fit this batch: flush, clear and ask again.
    ///
    /// A datagram shorter than the first closes the batch behind itself; a longer one is refused.
    pub fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.has_room(len) {
            return None;
        }
        if self.segments == 0 {
            self.segment_size = len;
        }
        // A zero-length datagram cannot be told apart inside a batch.
        self.closed = len < self.segment_size || len == 0;
        let start = self.len;
        self.len += len;
        self.segments += 1;
        Some(&mut self.slab[start..start + len])
    }

    /// True if [`TransmitBuf::slot`] would give room for `len` bytes.
    pub fn has_room(&self, len: usize) -> bool {
        !self.closed
            && self.segments < self.max_segments
            && self.len + len <= self.slab.len()
            && (self.segments == 0 || (len <= self.segment_size && self.len + len <= MAX_DATAGRAM))
    }

    /// Forgets the batch.
    pub fn clear(&mut self) {
        self.len = 0;
        self.segments = 0;
        self.closed = false;
        self.ecn = Ecn::NotEct;
        self.frame = None;
    }

    /// Takes no more datagrams.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The batch, which is empty, becomes `segments` datagrams of `size` bytes that lie in `frame` from `start` on, and takes
    /// no more. Nobody writes the frame while the batch holds it.
    ///
    /// # Panics
    /// If it is not empty.
    pub fn borrow(&mut self, frame: Arc<Frame>, start: usize, size: usize, segments: usize) {
        assert!(self.is_empty(), "a batch lies in one place");
        self.frame = Some((frame, start));
        (self.len, self.segment_size, self.segments) = (segments * size, size, segments);
        self.closed = true;
    }

    /// Where the batch lies in memory that can be lent; `None` if it does not, or is so small that whoever wrote it does
    /// not expect it to be lent ([`Frame::MIN_ZERO_COPY_BYTES`]).
    pub fn place(&self) -> Option<Place> {
        let (frame, start) = self.frame.as_ref().filter(|_| self.len >= Frame::MIN_ZERO_COPY_BYTES)?;
        let Place { file, offset } = frame.place()?;
        Some(Place { file, offset: offset + *start as u64 })
    }

    /// The codepoint that all datagrams of the batch leave with; [`Ecn::NotEct`] in an empty batch.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Changes it, for those that are in the batch already, too.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// All datagrams end to end, each [`TransmitBuf::segment_size`] bytes but perhaps the last.
    pub fn bytes(&self) -> &[u8] {
        match &self.frame {
            Some((frame, start)) => &frame.bytes()[*start..*start + self.len],
            None => &self.slab[..self.len],
        }
    }

    /// Most datagrams in a batch.
    pub fn max_segments(&self) -> usize {
        self.max_segments
    }

    /// Bytes of every datagram but perhaps the last.
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// How many datagrams are in the batch.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let (bytes, size) = (self.bytes(), self.segment_size);
        (0..self.segments).map(move |i| &bytes[i * size..((i + 1) * size).min(bytes.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_segments_fill_and_a_short_one_closes() {
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
    fn longer_segments_and_too_many_are_refused() {
        let mut batch = TransmitBuf::new(2);
        assert!(batch.slot(10).is_some());
        assert!(batch.slot(11).is_none(), "longer than the first");
        assert!(batch.slot(10).is_some());
        assert!(batch.slot(10).is_none(), "max_segments");
    }

    #[test]
    fn a_batch_that_lies_in_a_frame_is_complete_and_leaves_it_when_it_is_cleared() {
        let mut frame = Frame::new();
        frame.bytes_mut()[100..110].fill(1);
        frame.bytes_mut()[110..120].fill(2);
        let frame = Arc::new(frame);
        let mut batch = TransmitBuf::new(9);
        batch.borrow(Arc::clone(&frame), 100, 10, 2);
        assert!(!batch.has_room(1) && batch.place().is_none());
        assert_eq!(batch.datagrams().collect::<Vec<_>>(), [[1; 10], [2; 10]]);
        assert_eq!(Arc::strong_count(&frame), 2);
        batch.clear();
        assert_eq!((Arc::strong_count(&frame), batch.slot(10).map(|slot| slot.len())), (1, Some(10)));
        batch.close();
        assert!(!batch.has_room(1));
    }

    #[test]
    fn a_batch_says_where_it_lies_in_memory_that_can_be_lent() {
        let place = Place { file: 7, offset: 1 << 16 };
        let frame = Arc::new(Frame::mapped_at(place, vec![0; Frame::SIZE].leak()));
        let mut batch = TransmitBuf::new(9);
        assert_eq!(batch.place(), None);
        batch.borrow(Arc::clone(&frame), 100, 1000, 16);
        assert_eq!(batch.place(), None, "it is too small");
        batch.clear();
        batch.borrow(frame, 100, 1000, 17);
        assert_eq!(batch.place(), Some(Place { file: 7, offset: (1 << 16) + 100 }));
    }

    #[test]
    fn a_batch_never_exceeds_one_udp_payload() {
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
    fn the_largest_datagram_of_ipv6_is_a_batch_of_its_own() {
        let mut batch = TransmitBuf::new(1000);
        assert!(!batch.has_room(65_528));
        assert!(batch.slot(65_527).is_some());
        assert!(batch.slot(0).is_none());
    }
}
