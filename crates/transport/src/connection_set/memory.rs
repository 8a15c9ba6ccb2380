//! Memory of the connections, and their shares of the socket's buffer.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::ConnectionSet;
use super::entry::Entry;
use crate::listener::budget::Budget;

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Returns the memory limit of a connection that holds `held` bytes. Connections that hold
    /// memory divide what is free, so the windows offered to all peers fit the limit.
    pub(super) fn allowance(&self, held: u64) -> u64 {
        let others = self.holders - u64::from(held > 0) + self.other_load.holders;
        let free = self.config.memory_limit.saturating_sub(self.memory + self.other_load.memory);
        self.config.connection_memory_limit.min(held + free / (others + 1))
    }

    /// Returns the number of drops at the socket's full buffer, for ACKs. `None` if the buffer does
    /// not limit windows: then a sender must treat such drops as congestion and slow down.
    pub(super) fn overflow(&self) -> Option<u32> {
        self.config.socket_buffer.map(|_| self.overflow)
    }

    /// Counts the memory and the offer of a connection.
    pub(super) fn account(&mut self, id: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let memory = entry.connection.memory();
        self.memory = self.memory - entry.memory + memory;
        self.holders = self.holders - u64::from(entry.memory > 0) + u64::from(memory > 0);
        entry.memory = memory;
        entry.update_claim(&mut self.budget);
        self.stats.max_memory = self.stats.max_memory.max(self.memory);
    }

    /// Ends the claims of a removed connection.
    pub(super) fn forget_memory(&mut self, entry: &Entry<P>) {
        self.memory -= entry.memory;
        self.holders -= u64::from(entry.memory > 0);
        if let Some(claim) = entry.claim {
            self.budget.close(claim);
        }
    }
}

impl<P> Entry<P> {
    /// Sets the share of the socket's buffer.
    pub(super) fn set_share(&mut self, budget: &Budget) {
        let share = self.claim.map_or_else(|| budget.share_of_new(), |claim| budget.share_of(claim));
        if let Some(share) = share {
            self.connection.set_share(share);
        }
    }

    /// Marks the peer as active before its data is delivered, and renews the share.
    pub(super) fn claim_on_data(&mut self, now: Instant, budget: &mut Budget) {
        if let Some(claim) = &mut self.claim {
            budget.on_data(now, claim);
        }
        self.set_share(budget);
    }

    /// Updates the claim after the connection changed: data arrived or was offered, or the stream
    /// ended.
    fn update_claim(&mut self, budget: &mut Budget) {
        let offered = self.connection.offered();
        if offered > 0 {
            let claim = self.claim.get_or_insert_with(|| budget.open());
            budget.on_offer(claim, offered);
        } else if let Some(claim) = self.claim.take() {
            budget.close(claim);
        }
    }
}
