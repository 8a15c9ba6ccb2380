//! Entry of one classic peer: its receiver, its state of admission, and its account.

use std::time::Instant;

use crate::peers::account::Account;
use crate::peers::memory::Memory;
use crate::receiver::{BufferShare, Receiver};
use crate::wire::classic::REPLY_LEN;

/// Entry of one peer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) receiver: Receiver,
    /// Has a slot while connected with an unfinished transfer. The timer is the idle deadline.
    pub(super) account: Account,
    /// True if the peer is in the table of half-open peers.
    pub(super) is_half_open: bool,
    /// True while events wait in the receiver, until more of the transfer arrives.
    pub(super) on_probation: bool,
    pub(super) last_active: Instant,
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

    pub(super) fn set_share(&mut self, share: Option<BufferShare>) {
        if let Some(share) = share {
            self.receiver.set_share(share);
        }
    }

    /// Returns what is offered to the peer; `None` if its transfer has ended.
    pub(super) fn offered(&self) -> Option<u64> {
        self.receiver.is_unfinished().then(|| self.receiver.offered())
    }

    /// Returns the next reply, which may offer a larger window.
    pub(super) fn poll_reply(&mut self, memory: &mut Memory) -> Option<[u8; REPLY_LEN]> {
        if !self.receiver.may_offer() {
            return self.receiver.poll_reply();
        }
        self.set_share(memory.share(&self.account));
        let reply = self.receiver.poll_reply();
        let offered = self.offered();
        memory.set_offer(&mut self.account, offered);
        reply
    }
}
