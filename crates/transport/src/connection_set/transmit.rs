//! Order of transmission: answers of half-open connections, then a batch of one connection after
//! the other, round-robin. Answers to other addresses follow when no connection has anything, or
//! after 16 batches.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::{ConnectionId, ConnectionSet};
use crate::TransmitBuf;

/// Capacity of a queue below which its memory is kept.
const KEPT_CAPACITY: usize = 256;

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Fills the empty batch `out` for one address. Returns the address, and the connection unless
    /// the batch is an answer that no connection sends.
    pub(super) fn next_batch(
        &mut self,
        now: Instant,
        out: &mut TransmitBuf,
    ) -> Option<(P, Option<ConnectionId>)> {
        if let Some(peer) = self.answers.pop_proved(out).or_else(|| self.answers.pop_overdue(now, out)) {
            return Some((peer, None));
        }
        let overflow = self.overflow();
        while let Some(id) = self.ready.pop_front() {
            let Some(entry) = self.connections.get_mut(&id) else { continue };
            entry.is_queued = false;
            let probed =
                entry.probe.as_mut().and_then(|probe| probe.transmit(now, &mut entry.connection, out));
            let peer = if probed.is_some() {
                self.stats.path_probes += 1;
                probed
            } else {
                entry.connection.set_overflow(overflow);
                // An ACK may offer a larger window.
                entry.set_share(&self.budget);
                entry.connection.poll_transmit(now, out).then_some(entry.peer)
            };
            if let Some(peer) = peer {
                self.answers.limit.on_peer_reply();
                self.process_output(id);
                return Some((peer, Some(ConnectionId(id))));
            }
            self.update(id);
            self.remove_if_over(now, id);
        }
        if self.ready.capacity() > KEPT_CAPACITY {
            self.ready.shrink_to(KEPT_CAPACITY);
        }
        self.answers.pop(now, out).map(|peer| (peer, None))
    }
}
