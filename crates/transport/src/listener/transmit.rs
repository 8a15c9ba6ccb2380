//! Reply scheduling: round-robin over peers with replies.

use std::fmt::Debug;
use std::hash::Hash;

use super::Listener;
use crate::TransmitBuf;
use crate::wire::classic::REPLY_LEN;

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// True if [`Listener::poll_reply`] may have something.
    #[inline]
    pub fn may_reply(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the next reply and its peer.
    pub fn poll_reply(&mut self) -> Option<(P, [u8; REPLY_LEN])> {
        while let Some(peer) = self.ready.pop_front() {
            let Some(entry) = self.peers.get_mut(&peer) else { continue };
            let reply = entry.poll_reply(&mut self.budget);
            entry.queued = entry.receiver.may_reply();
            if entry.queued {
                self.ready.push_back(peer);
            }
            if let Some(reply) = reply {
                return Some((peer, reply));
            }
        }
        None
    }

    /// Fills a batch with replies to one peer, and returns the peer.
    pub(super) fn fill_batch(&mut self, out: &mut TransmitBuf) -> Option<P> {
        if !out.has_room(REPLY_LEN) {
            return None;
        }
        let (peer, mut reply) = self.poll_reply()?;
        loop {
            out.slot(REPLY_LEN)?.copy_from_slice(&reply);
            // `poll_reply` looked this peer up last.
            let entry = self.peers.latest_mut()?;
            entry.receiver.fill_acks(out);
            if !out.has_room(REPLY_LEN) {
                break;
            }
            let Some(next) = entry.poll_reply(&mut self.budget) else { break };
            reply = next;
        }
        Some(peer)
    }
}
