//! Answers that no connection sends: RETRY, SYN-ACK, REFUSE, RESET, and the CLOSE of a refused
//! handshake. Each answers one datagram, is not longer than that, and goes to its source. A lost
//! one is not repeated: the peer repeats its packet.

use std::collections::VecDeque;
use std::time::Instant;

use crate::TransmitBuf;
use crate::stateless_limit::StatelessLimit;

/// Largest number of queued answers. Each has at most 320 bytes.
const MAX_QUEUED: usize = 256;

/// Queue of answers with their addresses.
#[derive(Debug)]
pub(super) struct Answers<P> {
    queue: VecDeque<(P, Box<[u8]>)>,
    pub(super) limit: StatelessLimit,
    /// Answers dropped because the queue was full.
    pub(super) dropped: u64,
}

impl<P: Copy + PartialEq> Answers<P> {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new(), limit: StatelessLimit::default(), dropped: 0 }
    }

    /// True if an answer finds a place. Otherwise counts it as dropped.
    pub(super) fn reserve(&mut self) -> bool {
        let has_room = self.queue.len() < MAX_QUEUED;
        self.dropped += u64::from(!has_room);
        has_room
    }

    /// Queues an answer of `len` bytes, which `encode` writes. Returns false if the queue is full.
    pub(super) fn push(&mut self, peer: P, len: usize, encode: impl FnOnce(&mut [u8])) -> bool {
        let has_room = self.reserve();
        if has_room {
            let mut datagram = vec![0; len].into_boxed_slice();
            encode(&mut datagram);
            self.queue.push_back((peer, datagram));
        }
        has_room
    }

    /// True if the newest answer goes to this peer and equals `datagram`.
    pub(super) fn ends_with(&self, peer: P, datagram: &[u8]) -> bool {
        self.queue.back().is_some_and(|(to, queued)| *to == peer && **queued == *datagram)
    }

    /// Writes the next answer, if it may leave now, and returns its address.
    pub(super) fn pop(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        let len = self.queue.front().map(|(_, datagram)| datagram.len());
        let fits = len.is_some_and(|len| out.has_room(len));
        if !self.limit.take(now, fits) {
            return None;
        }
        let (peer, datagram) = self.queue.pop_front()?;
        out.slot(datagram.len())?.copy_from_slice(&datagram);
        Some(peer)
    }

    /// Like [`pop`](Self::pop), but only if enough datagrams of connections left since the last
    /// answer.
    pub(super) fn pop_overdue(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if self.limit.is_overdue() { self.pop(now, out) } else { None }
    }
}
