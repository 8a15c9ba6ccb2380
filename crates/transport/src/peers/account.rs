//! What the set counts of one peer, in either format.

use std::time::Instant;

use super::ConnectionSet;
use super::budget::Claim;
use super::slots::Slot;

/// What the set counts of one peer.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Memory as counted in [`Memory`](super::memory::Memory), bytes.
    pub(super) memory: u64,
    /// Claim to the socket's buffer, while the peer may send.
    pub(super) claim: Option<Claim>,
    /// Slot, while the peer is connected and has not ended.
    pub(super) slot: Option<Slot>,
    /// Time under which the peer is in the timers of its table.
    pub(super) timer: Option<Instant>,
    /// True if the peer waits for its turn to transmit.
    pub(super) is_queued: bool,
}

/// Place of a peer in the tables: the key of the queue of transmissions and of the timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Slot of a classic peer in its table.
    Classic(usize),
    /// Local ID of a native connection.
    Native(u64),
}

impl<P> ConnectionSet<P> {
    /// Takes a removed peer out of the sums, timers and limits. Its turn to transmit stays.
    pub(super) fn forget(&mut self, account: &mut Account, key: Key) {
        self.memory.count(account, 0, None);
        self.timers.remove(account, key);
        if let Some(slot) = account.slot.take() {
            self.slots.free(slot);
        }
    }
}
