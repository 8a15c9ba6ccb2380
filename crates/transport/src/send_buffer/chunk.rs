//! A piece of the stream in one frame: where its bytes lie among the packets' headers. Knows no
//! other pieces.

use std::sync::Arc;

use crate::{Frame, MAX_DATAGRAM, Reuse};

/// Most packets that drivers send in one call: a frame ends with a batch.
const BATCH: usize = 64;

/// How the stream is cut into packets from `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// A packet begins here, in bytes of the stream.
    pub(crate) offset: u64,
    /// Bytes before each packet's payload.
    pub(crate) header: usize,
    /// Payload of each packet, bytes, at least 1.
    pub(crate) mss: usize,
}

/// `written` bytes of the stream from `base` on.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) frame: Arc<Frame>,
    /// Offset in the stream of its first byte.
    pub(super) base: u64,
    pub(super) written: usize,
    /// Most bytes of the stream that it takes.
    pub(super) capacity: usize,
    /// Bytes at its start that lie end to end: the rest of a packet that begins before it.
    lead: usize,
    header: usize,
    mss: usize,
    /// Retransmissions so far when the first zero-copy batch left from here.
    zero_copied: Option<u64>,
}

impl Chunk {
    /// An empty one from `base` on, for packets as `cut` has them.
    pub(super) fn new(frame: Arc<Frame>, base: u64, cut: Cut) -> Self {
        let Cut { offset, header, mss } = cut;
        let into = base.saturating_sub(offset) % mss as u64;
        // Less than a packet's payload.
        let lead = usize::try_from(into).map_or(0, |into| (mss - into) % mss);
        let room = Frame::SIZE.saturating_sub(lead).min(MAX_DATAGRAM);
        let (lead, capacity) = match room / (header + mss) {
            0 => (Frame::SIZE, Frame::SIZE),
            packets => (lead, lead + whole_batches(packets) * mss),
        };
        Self { frame, base, written: 0, capacity, lead, header, mss, zero_copied: None }
    }

    /// One past its last byte in the stream.
    pub(super) fn end(&self) -> u64 {
        self.base + self.written as u64
    }

    /// Where its byte `at` lies in the frame, and how many lie end to end from there on.
    pub(super) fn locate(&self, at: usize) -> (usize, usize) {
        if at < self.lead {
            return (at, self.lead - at);
        }
        let (packet, into) = ((at - self.lead) / self.mss, (at - self.lead) % self.mss);
        (self.lead + packet * (self.header + self.mss) + self.header + into, self.mss - into)
    }

    /// The bytes from `at` on, at most `len`, that lie end to end.
    pub(super) fn piece(&self, at: usize, len: usize) -> &[u8] {
        let (place, run) = self.locate(at);
        &self.frame.bytes()[place..place + run.min(len)]
    }

    /// The room that is left; `None` if there is none, or a batch still holds the frame.
    pub(super) fn spare(&mut self) -> Option<Spare<'_>> {
        let rest = self.capacity - self.written;
        if rest == 0 {
            return None;
        }
        let (place, first) = self.locate(self.written);
        let memory = &mut Arc::get_mut(&mut self.frame)?.bytes_mut()[place..];
        Some(Spare { memory, first, header: self.header, mss: self.mss, rest })
    }

    /// Takes no more than it has.
    pub(super) fn seal(&mut self) {
        self.capacity = self.written;
    }

    /// Full packets that lie ready as `cut` has them, from where its first one begins.
    pub(super) fn ready(&self, cut: Cut) -> usize {
        let Some(at) = cut.offset.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) else {
            return 0;
        };
        let fits = self.header == cut.header && self.mss == cut.mss && at >= self.lead;
        if !fits || at > self.written || !(at - self.lead).is_multiple_of(self.mss) {
            return 0;
        }
        (self.written - at) / self.mss
    }

    /// `count` packets end to end, which are [`Chunk::ready`], and where the first one lies in the
    /// frame. `None` if a batch holds the frame.
    pub(super) fn packets(&mut self, cut: Cut, count: usize) -> Option<(usize, &mut [u8])> {
        let at = usize::try_from(cut.offset - self.base).ok()?;
        let size = self.header + self.mss;
        let start = self.lead + (at - self.lead) / self.mss * size;
        Some((start, &mut Arc::get_mut(&mut self.frame)?.bytes_mut()[start..start + count * size]))
    }

    /// A batch of `len` bytes leaves from here, after `resent` retransmissions.
    pub(super) fn on_sent_in_place(&mut self, len: usize, resent: u64) {
        if len >= Frame::MIN_ZERO_COPY_BYTES {
            self.zero_copied.get_or_insert(resent);
        }
    }

    /// The wear of the frame when all in it was acknowledged and `resent` segments have been sent
    /// again.
    pub(super) fn reuse(&self, resent: u64) -> Reuse {
        match self.zero_copied {
            None => Reuse::NeverSent,
            Some(before) if before == resent => Reuse::Acknowledged,
            Some(_) => Reuse::MaybeReferenced,
        }
    }
}

/// As many packets of these as fill whole batches.
fn whole_batches(packets: usize) -> usize {
    if packets < BATCH { packets } else { packets - packets % BATCH }
}

/// Room for an application's next bytes, in pieces that are to be filled one after the other: each
/// ends where a packet's header will be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Spare<'a> {
    memory: &'a mut [u8],
    /// Bytes of the next piece.
    first: usize,
    header: usize,
    mss: usize,
    rest: usize,
}

impl Spare<'_> {
    /// Bytes of all pieces together.
    pub fn len(&self) -> usize {
        self.rest
    }

    /// There is no room.
    pub fn is_empty(&self) -> bool {
        self.rest == 0
    }

    /// Room limited to `bytes`.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        Self { rest: self.rest.min(bytes), ..self }
    }

    /// Copies as much of `bytes` as fits; gives how much that was.
    pub(crate) fn copy_from(self, bytes: &[u8]) -> usize {
        let mut copied = 0;
        for piece in self {
            let n = piece.len().min(bytes.len() - copied);
            piece[..n].copy_from_slice(&bytes[copied..copied + n]);
            copied += n;
        }
        copied
    }
}

impl<'a> Iterator for Spare<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        let len = self.first.min(self.rest);
        if len == 0 {
            return None;
        }
        let (piece, memory) = std::mem::take(&mut self.memory).split_at_mut(len);
        self.memory = memory.get_mut(self.header..).unwrap_or_default();
        self.first = self.mss;
        self.rest -= len;
        Some(piece)
    }
}
