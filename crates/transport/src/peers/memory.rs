//! Memory of all peers, and their shares of the socket's buffer.

use std::time::Instant;

use super::account::Account;
use super::budget::Budget;
use super::config::SocketBuffer;
use crate::receiver::BufferShare;

/// Memory and claims of all peers.
#[derive(Debug)]
pub(super) struct Memory {
    /// Limit on the memory of all peers, and of one, bytes.
    limit: u64,
    peer_limit: u64,
    /// Memory of all peers, bytes.
    pub(super) total: u64,
    /// Largest `total` so far.
    pub(super) max: u64,
    /// Number of peers that hold memory.
    holders: u64,
    pub(super) budget: Budget,
}

impl Memory {
    pub(super) fn new(limit: u64, peer_limit: u64, buffer: Option<SocketBuffer>) -> Self {
        Self { limit, peer_limit, total: 0, max: 0, holders: 0, budget: Budget::new(buffer) }
    }

    /// Returns the memory limit of a peer that holds `held` bytes. Peers that hold memory divide
    /// what is free, so the windows offered to all of them fit the limit.
    pub(super) fn allowance(&self, held: u64) -> u64 {
        let others = self.holders - u64::from(held > 0);
        let free = self.limit.saturating_sub(self.total);
        self.peer_limit.min(held + free / (others + 1))
    }

    /// Counts the memory of a peer, and what is offered to it: `None` if it may not send.
    #[inline]
    pub(super) fn count(&mut self, account: &mut Account, memory: u64, offered: Option<u64>) {
        self.total = self.total - account.memory + memory;
        self.holders = self.holders - u64::from(account.memory > 0) + u64::from(memory > 0);
        self.max = self.max.max(self.total);
        account.memory = memory;
        self.set_offer(account, offered);
    }

    /// Updates the claim of a peer to which `offered` bytes are offered, as charged to the buffer.
    pub(super) fn set_offer(&mut self, account: &mut Account, offered: Option<u64>) {
        if let Some(offered) = offered {
            let claim = account.claim.get_or_insert_with(|| self.budget.open());
            self.budget.on_offer(claim, offered);
        } else if let Some(claim) = account.claim.take() {
            self.budget.close(claim);
        }
    }

    /// Returns the share of a peer; `None` for no limit.
    #[inline]
    pub(super) fn share(&self, account: &Account) -> Option<BufferShare> {
        account.claim.map_or_else(|| self.budget.share_of_new(), |claim| self.budget.share_of(claim))
    }

    /// Marks a peer as active before its data is delivered, and returns its share.
    pub(super) fn share_on_data(&mut self, now: Instant, account: &mut Account) -> Option<BufferShare> {
        if let Some(claim) = &mut account.claim {
            self.budget.on_data(now, claim);
        }
        self.share(account)
    }
}
