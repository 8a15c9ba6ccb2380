//! The order in which replies leave: peers take turns, and strangers come after them, but for one in so many.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::Listener;
use crate::{TransmitBuf, wire};

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// True if [`Listener::poll_reply`] may have something.
    #[inline]
    pub fn may_reply(&self) -> bool {
        !self.ready.is_empty() || self.left_over.is_some() || !self.notices.is_empty()
    }

    /// The next reply; peers that have some take turns.
    pub fn poll_reply(&mut self, now: Instant) -> Option<(P, &[u8])> {
        let (peer, len) = self.next_reply(now)?;
        if self.peers.contains_key(&peer) {
            self.set_timer(peer);
        }
        Some((peer, &self.scratch[..len]))
    }

    /// Puts replies of one peer into a batch.
    pub(super) fn fill(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if !out.has_room(wire::REPLY_LEN) {
            return None;
        }
        let (peer, mut len) = self.next_reply(now)?;
        let found = self.peers.get_mut(&peer).is_some();
        loop {
            let Some(slot) = out.slot(len) else {
                // Of another size than those before it, or there is no more room.
                self.left_over = Some((peer, len));
                break;
            };
            slot.copy_from_slice(&self.scratch[..len]);
            // Replies are mostly of one size, so mostly what does not fit is not even made.
            let Some(entry) = found.then(|| self.peers.latest_mut()).flatten().filter(|_| out.has_room(len))
            else {
                break;
            };
            for _ in 0..entry.receiver.fill_acks(out) {
                self.notices.on_reply();
            }
            if !out.has_room(len) {
                break;
            }
            let Some(next) = entry.poll_reply(now, &mut self.budget, &mut self.scratch) else { break };
            self.notices.on_reply();
            len = next;
        }
        if found {
            // An ACK that opens a window is to be repeated.
            self.set_timer(peer);
        }
        (!out.is_empty()).then_some(peer)
    }

    /// Writes the next reply into the scratch. Strangers come after the peers, but for one in so many replies.
    fn next_reply(&mut self, now: Instant) -> Option<(P, usize)> {
        if let Some(left_over) = self.left_over.take() {
            return Some(left_over);
        }
        if let Some(last_words) = self.notices.pop_last_words(&mut self.scratch) {
            return Some(last_words);
        }
        if let Some(overdue) = self.notices.pop_overdue(&mut self.scratch) {
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
                self.notices.on_reply();
                return Some((peer, len));
            }
        }
        self.notices.pop_answer(&mut self.scratch)
    }
}
