//! The batch of datagrams that goes to the kernel in one call: who may still be appended, and how.
//!
//! Owns its bytes for life; nothing is allocated or zeroed per datagram.

use std::ops::{Deref, DerefMut};

use crate::Ecn;

/// The largest UDP payload over IPv4, in bytes: 65,535 less 20 of IP header and 8 of UDP header.
pub const MAX_DATAGRAM: usize = 65_507;

/// The same over IPv6: 65,535 less 8, for that counts no IP header (RFC 8200, section 3).
const MAX_DATAGRAM_IPV6: usize = 65_527;

/// Datagrams to one peer, laid end to end as the kernel's segmentation offload wants them: all of one
/// size, but for a shorter last one.
#[derive(Debug)]
pub struct TransmitBuf {
    slab: Slab,
    len: usize,
    segment_size: usize,
    segments: usize,
    max_segments: usize,
    closed: bool,
    ecn: Ecn,
    lent_until: Option<u64>,
}

/// Where the datagrams lie.
#[derive(Debug)]
enum Slab {
    Own(Box<[u8]>),
    Given(&'static mut [u8]),
}

impl Deref for Slab {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Given(bytes) => bytes,
        }
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Given(bytes) => bytes,
        }
    }
}

impl TransmitBuf {
    /// Bytes of one that has memory of its own.
    pub const SIZE: usize = MAX_DATAGRAM_IPV6;

    /// An empty batch of at most `max_segments` datagrams (at least 1) and [`MAX_DATAGRAM`] bytes in all, or of one
    /// datagram of up to 65,527, which IPv6 carries.
    pub fn new(max_segments: usize) -> Self {
        Self::over(Slab::Own(vec![0; MAX_DATAGRAM_IPV6].into_boxed_slice()), max_segments)
    }

    /// The same over memory of its own, [`TransmitBuf::SIZE`] bytes of it, for a caller who can do without.
    pub fn owning(memory: Box<[u8]>) -> Self {
        Self::over(Slab::Own(memory), 1)
    }

    /// The same over memory of the driver's, of which it takes no more than [`MAX_DATAGRAM`] bytes.
    pub fn given(memory: &'static mut [u8]) -> Self {
        let len = memory.len().min(MAX_DATAGRAM);
        Self::over(Slab::Given(&mut memory[..len]), 1)
    }

    fn over(slab: Slab, max_segments: usize) -> Self {
        let max_segments = max_segments.max(1);
        Self {
            slab,
            len: 0,
            segment_size: 0,
            segments: 0,
            max_segments,
            closed: false,
            ecn: Ecn::NotEct,
            lent_until: None,
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
        self.lent_until = None;
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
        self.lent_until = None;
        self.ecn = Ecn::NotEct;
    }

    /// All datagrams here are of the stream and left for the first time; what they hold of it ends at `until`, in
    /// bytes. A datagram that is added later takes that back. Once the stream is acknowledged as far, and nothing was sent again meanwhile
    /// ([`Progress`](crate::Progress)), nobody reads them any more: till then a driver may lend them to the kernel
    /// in place of having them copied.
    pub fn lend(&mut self, until: u64) {
        self.lent_until = Some(until);
    }

    /// What [`TransmitBuf::lend`] said since the batch was empty.
    pub fn lent_until(&self) -> Option<u64> {
        self.lent_until
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
        &self.slab[..self.len]
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
    fn what_is_added_to_a_lent_batch_takes_it_back() {
        let mut batch = TransmitBuf::given(Box::leak(Box::new([0; 30])));
        batch.set_max_segments(3);
        assert!(batch.slot(10).is_some());
        batch.lend(7);
        assert_eq!(batch.lent_until(), Some(7));
        assert!(batch.slot(10).is_some());
        assert_eq!(batch.lent_until(), None);
        batch.lend(8);
        batch.clear();
        assert_eq!(batch.lent_until(), None);
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
