//! Stateless resets. A packet of an unknown connection is answered by a RESET, so that its sender
//! fails at once after this side restarted. A RESET proves itself by a token that its receiver
//! learned in the handshake.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::ConnectionSet;
use crate::wire::sealed::{RESET_LEN, encode_reset};

/// Largest number of connections whose peers chose the same ID and that are searched for the token.
const MAX_SEARCHED: usize = 8;

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Answers a sealed packet with the unknown ID `id`.
    pub(super) fn reset(&mut self, now: Instant, peer: P, id: u64) {
        self.stats.unknown += 1;
        let mut reset = [0; RESET_LEN];
        encode_reset(id, &self.reset_key.token(id), &mut reset);
        // Packets that arrive together get one reset.
        if self.answers.ends_with(peer, &reset) || !self.resets.take(now) {
            return;
        }
        let is_queued = self.answers.push(peer, RESET_LEN, |out| out.copy_from_slice(&reset));
        self.stats.resets_sent += u64::from(is_queued);
    }

    /// Handles a RESET: `remote_id` is an ID that the peer does not know.
    pub(super) fn on_reset(&mut self, now: Instant, remote_id: u64, datagram: &[u8]) {
        let with_id = self.by_remote.range((remote_id, 0)..=(remote_id, u64::MAX));
        let candidates: Vec<u64> = with_id.map(|(_, id)| *id).take(MAX_SEARCHED).collect();
        for id in candidates {
            let Some(entry) = self.connections.get_mut(&id) else { continue };
            let was_open = entry.connection.closed().is_none();
            entry.connection.handle_clear(now, datagram);
            if was_open && entry.connection.closed().is_some() {
                self.stats.resets_received += 1;
                return self.process_output(id);
            }
        }
        self.stats.unauthentic += 1;
    }
}
