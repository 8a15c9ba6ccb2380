//! Order of transmission: round-robin over the peers, with answers to other addresses in between.

use std::time::Instant;

use super::account::Key;
use super::answers::Answer;
use super::{AddressKey, ConnectionId, ConnectionSet, PeerId};
use crate::TransmitBuf;
use crate::wire::classic::REPLY_LEN;

/// Capacity of a queue below which its memory is kept.
const KEPT_CAPACITY: usize = 256;

impl<P: AddressKey> ConnectionSet<P> {
    /// Like [`poll_transmit`](crate::Endpoint::poll_transmit); also returns the peer that sends the
    /// datagrams. `None` for answers that no peer sends.
    ///
    /// Answers of half-open connections leave first, then a batch of one peer after the other,
    /// round-robin. Answers to other addresses follow when no peer has anything, or after 16
    /// batches.
    pub fn poll_peer(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<(P, Option<PeerId<P>>)> {
        if !out.has_room(REPLY_LEN) {
            return None;
        }
        if let Some(peer) = self.answers.pop_proved(out) {
            return Some((peer, None));
        }
        if self.answers.are_overdue()
            && let Some(sent) = self.poll_answer(now, out)
        {
            return Some(sent);
        }
        while let Some(key) = self.ready.pop_front() {
            let sent = match key {
                Key::Classic(slot) => self.transmit_classic(slot, out),
                Key::Native(id) => self
                    .transmit_native(now, id, out)
                    .map(|peer| (peer, Some(PeerId::Connection(ConnectionId(id))))),
            };
            if sent.is_some() {
                self.answers.limit.on_peer_reply();
                return sent;
            }
        }
        if self.ready.capacity() > KEPT_CAPACITY {
            self.ready.shrink_to(KEPT_CAPACITY);
        }
        self.poll_answer(now, out)
    }

    /// Fills the empty batch `out` with an answer to an address without a connection.
    fn poll_answer(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<(P, Option<PeerId<P>>)> {
        loop {
            match self.answers.pop(now, out)? {
                Answer::Native(peer) => return Some((peer, None)),
                Answer::Classic(slot) => {
                    if let Some(sent) = self.transmit_classic(slot, out) {
                        return Some(sent);
                    }
                }
            }
        }
    }
}
