//! Answers to addresses without a connection. Native ones answer one datagram each and go to its
//! source. Such an answer is not longer than that datagram (a FIN-ACK: one byte longer than a FIN).
//! A lost one is not repeated: the peer repeats its packet.
//!
//! Answers of half-open connections (SYN-ACK, and the REFUSE or CLOSE of a refused handshake) whose
//! addresses are proved have a queue of their own, which is served first: their keys are computed,
//! so a flood cannot displace them. Those of other half-open connections, RETRY, RESET, other
//! REFUSEs and the replies to half-open classic peers, whose addresses may be forged, share a
//! limit.

use std::collections::VecDeque;
use std::time::Instant;

use super::stateless_limit::StatelessLimit;
use crate::TransmitBuf;

/// Largest number of answers in each queue. Each has at most 320 bytes.
const MAX_QUEUED: usize = 256;

/// Answers with their addresses.
type Queue<P> = VecDeque<(P, Box<[u8]>)>;

/// Answer that may leave now.
pub(super) enum Answer<P> {
    /// Written to the batch, for this address.
    Native(P),
    /// The replies of the half-open classic peer in this slot of its table.
    Classic(usize),
}

/// All queues of answers.
#[derive(Debug)]
pub(super) struct Answers<P> {
    /// Answers of half-open connections.
    proved: Queue<P>,
    queue: Queue<P>,
    /// Half-open classic peers with replies: slots of their table.
    pub(super) half_open: VecDeque<usize>,
    /// True if a native answer had the last turn.
    is_classic_next: bool,
    pub(super) limit: StatelessLimit,
    /// Answers dropped because the queue was full.
    pub(super) dropped: u64,
}

impl<P: Copy + PartialEq> Answers<P> {
    pub(super) fn new() -> Self {
        Self {
            proved: VecDeque::new(),
            queue: VecDeque::new(),
            half_open: VecDeque::new(),
            is_classic_next: false,
            limit: StatelessLimit::default(),
            dropped: 0,
        }
    }

    /// True if the queue has room for an answer. Otherwise counts it as dropped.
    pub(super) fn reserve(&mut self) -> bool {
        let has_room = self.queue.len() < MAX_QUEUED;
        self.dropped += u64::from(!has_room);
        has_room
    }

    /// Queues an answer of `len` bytes, which `encode` writes. `is_proved`: a half-open connection
    /// with a proved address. Returns false if the queue is full.
    pub(super) fn push(
        &mut self,
        peer: P,
        is_proved: bool,
        len: usize,
        encode: impl FnOnce(&mut [u8]),
    ) -> bool {
        let queue = if is_proved { &mut self.proved } else { &mut self.queue };
        let has_room = queue.len() < MAX_QUEUED;
        if has_room {
            let mut datagram = vec![0; len].into_boxed_slice();
            encode(&mut datagram);
            queue.push_back((peer, datagram));
        }
        self.dropped += u64::from(!has_room);
        has_room
    }

    /// Writes the next answer of a half-open connection, and returns its address.
    pub(super) fn pop_proved(&mut self, out: &mut TransmitBuf) -> Option<P> {
        let (peer, datagram) = self.proved.pop_front()?;
        out.slot(datagram.len())?.copy_from_slice(&datagram);
        Some(peer)
    }

    /// True if the newest answer goes to this peer and equals `datagram`.
    pub(super) fn ends_with(&self, peer: P, datagram: &[u8]) -> bool {
        self.queue.back().is_some_and(|(to, queued)| *to == peer && **queued == *datagram)
    }

    /// True if an answer waits, and enough was sent to peers since the last one.
    pub(super) fn are_overdue(&self) -> bool {
        self.limit.is_overdue() && !self.are_none()
    }

    fn are_none(&self) -> bool {
        self.queue.is_empty() && self.half_open.is_empty()
    }

    /// Returns the next answer, if one may leave now. Both formats take turns.
    pub(super) fn pop(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<Answer<P>> {
        let len = self.queue.front().map(|(_, datagram)| datagram.len());
        let fits = len.is_some_and(|len| out.has_room(len));
        if !self.limit.take(now, fits || !self.half_open.is_empty()) {
            return None;
        }
        let is_classic = std::mem::take(&mut self.is_classic_next) || !fits;
        if is_classic && let Some(slot) = self.half_open.pop_front() {
            return Some(Answer::Classic(slot));
        }
        self.is_classic_next = true;
        let (peer, datagram) = self.queue.pop_front()?;
        out.slot(datagram.len())?.copy_from_slice(&datagram);
        Some(Answer::Native(peer))
    }
}
