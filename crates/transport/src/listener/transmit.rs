//! Reply scheduling: round-robin over peers with replies. Stateless replies to unconnected
//! addresses follow when no peer has any, or after 16 replies to peers.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::Listener;
use crate::{TransmitBuf, wire};

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// True if [`Listener::poll_reply`] may have something.
    #[inline]
    pub fn may_reply(&self) -> bool {
        !self.ready.is_empty() || self.left_over.is_some() || !self.stateless.is_empty()
    }

    /// Returns the next reply and its peer.
    pub fn poll_reply(&mut self, now: Instant) -> Option<(P, &[u8])> {
        let (peer, len) = self.next_reply(now)?;
        if self.peers.contains_key(&peer) {
            self.set_timer(peer);
        }
        Some((peer, &self.scratch[..len]))
    }

    /// Fills a batch with replies to one peer, and returns the peer.
    pub(super) fn fill_batch(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !out.has_room(wire::classic::REPLY_LEN) {
            return None;
        }
        let (peer, mut len) = self.next_reply(now)?;
        let found = self.peers.get_mut(&peer).is_some();
        loop {
            let Some(slot) = out.slot(len) else {
                // This reply has another size than the batch, or the batch is full: it begins the
                // next batch.
                self.left_over = Some((peer, len));
                break;
            };
            slot.copy_from_slice(&self.scratch[..len]);
            // Most replies have the same size: if one more of them does not fit, do not encode
            // another.
            let Some(entry) = found.then(|| self.peers.latest_mut()).flatten().filter(|_| out.has_room(len))
            else {
                break;
            };
            for _ in 0..entry.receiver.fill_acks(out) {
                self.stateless.limit().on_peer_reply();
            }
            if !out.has_room(len) {
                break;
            }
            let Some(next) = entry.poll_reply(now, &mut self.budget, &mut self.scratch) else { break };
            self.stateless.limit().on_peer_reply();
            len = next;
        }
        if found {
            // An ACK that reopens a window is repeated by timer.
            self.set_timer(peer);
        }
        (!out.is_empty()).then_some(peer)
    }

    /// Writes the next reply into `scratch`; returns its peer and length.
    fn next_reply(&mut self, now: Instant) -> Option<(P, usize)> {
        if let Some(left_over) = self.left_over.take() {
            return Some(left_over);
        }
        if let Some(close) = self.stateless.pop_close(&mut self.scratch) {
            return Some(close);
        }
        if let Some(overdue) = self.stateless.pop_overdue(now, &mut self.scratch) {
            return Some(overdue);
        }
        let overflow = self.overflow();
        while let Some(peer) = self.ready.pop_front() {
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            entry.receiver.set_overflow(overflow);
            let reply = entry.poll_reply(now, &mut self.budget, &mut self.scratch);
            entry.queued = entry.receiver.may_reply(now);
            if entry.queued {
                self.ready.push_back(peer);
            }
            if let Some(len) = reply {
                self.stateless.limit().on_peer_reply();
                return Some((peer, len));
            }
        }
        self.stateless.pop(now, &mut self.scratch)
    }
}
