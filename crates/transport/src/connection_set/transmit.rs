//! Order of transmission: answers of half-open connections, then a batch of one connection after
//! the other, round-robin. Answers to other addresses follow when no connection has anything, or
//! after 16 batches.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::ConnectionSet;
use crate::TransmitBuf;

/// Capacity of a queue below which its memory is kept.
const KEPT_CAPACITY: usize = 256;

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Fills the empty batch `out` for one address, and returns the address.
    pub(super) fn next_batch(&mut self, now: Instant, out: &mut TransmitBuf) -> Option<P> {
        if let Some(peer) = self.answers.pop_proved(out).or_else(|| self.answers.pop_overdue(now, out)) {
            return Some(peer);
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
            if peer.is_some() {
                self.answers.limit.on_peer_reply();
                self.process_output(id);
                return peer;
            }
            self.update(id);
            self.remove_if_over(now, id);
        }
        if self.ready.capacity() > KEPT_CAPACITY {
            self.ready.shrink_to(KEPT_CAPACITY);
        }
        self.answers.pop(now, out)
    }
}
