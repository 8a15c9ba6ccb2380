//! Entry of one peer: its receiver, its state of admission, and its claim to the socket's buffer.

use std::time::Instant;

use super::budget::{Budget, Claim};
use crate::receiver::Receiver;
use crate::wire::classic::REPLY_LEN;

/// Entry of one peer.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(super) struct Entry {
    pub(super) receiver: Receiver,
    /// True if the peer is in the table of half-open peers.
    pub(super) is_half_open: bool,
    /// True while events wait in the receiver, until more of the transfer arrives.
    pub(super) on_probation: bool,
    pub(super) last_active: Instant,
    /// Time under which the peer is in [`Listener::idle`] or [`HalfOpen::idle`].
    pub(super) idle_at: Instant,
    /// True if the peer is in [`Listener::ready`].
    pub(super) queued: bool,
    /// Memory of the receiver as counted in [`Listener::memory`], bytes.
    pub(super) memory: u64,
    /// True if the peer counts as open: connected, and not finished.
    pub(super) is_open: bool,
    /// Claim to the socket's buffer, while the transfer is unfinished.
    pub(super) claim: Option<Claim>,
}

impl Entry {
    /// True if a transfer was reported and its FIN was not answered.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.on_probation && self.receiver.is_unfinished()
    }

    /// Puts the transfer that a SYN may begin on probation: the SYN may be forged.
    pub(super) fn on_syn(&mut self, faithful: bool) {
        self.on_probation |= !faithful && !self.receiver.is_unfinished();
    }

    /// Sets the receiver's share of the socket's buffer.
    pub(super) fn set_share(&mut self, budget: &Budget) {
        let share = self.claim.map_or_else(|| budget.share_of_new(), |claim| budget.share_of(claim));
        if let Some(share) = share {
            self.receiver.set_share(share);
        }
    }

    /// Marks the transfer as active before data is delivered, and renews its share.
    pub(super) fn claim_on_data(&mut self, now: Instant, budget: &mut Budget) {
        if let Some(claim) = &mut self.claim {
            budget.on_data(now, claim);
        }
        self.set_share(budget);
    }

    /// Updates the claim after the receiver changed: a transfer began or ended, data arrived or was
    /// offered.
    pub(super) fn update_claim(&mut self, budget: &mut Budget) {
        if self.receiver.is_unfinished() {
            let claim = self.claim.get_or_insert_with(|| budget.open());
            budget.on_offer(claim, self.receiver.offered());
        } else if let Some(claim) = self.claim.take() {
            budget.close(claim);
        }
    }

    /// Returns the next reply, which may offer a larger window.
    pub(super) fn poll_reply(&mut self, budget: &mut Budget) -> Option<[u8; REPLY_LEN]> {
        if !self.receiver.may_offer() {
            return self.receiver.poll_reply();
        }
        self.set_share(budget);
        let reply = self.receiver.poll_reply();
        self.update_claim(budget);
        reply
    }
}
