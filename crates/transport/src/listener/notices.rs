//! Answers to strangers, and last words: packets that no receiver makes, because there is none for their peer. Of
//! each only what it says is kept until it is polled for, and only so many are kept: more are left unanswered, and
//! whoever asked asks again.

use std::collections::VecDeque;

use crate::cookie::Cookie;
use crate::wire::native::{CloseReason, Versions};
use crate::wire::{self, MAX_REPLY};

/// Notices that wait, at most.
const MAX_NOTICES: usize = 256;

/// What a peer without a receiver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// To show this cookie.
    Retry(Cookie),
    /// To speak another version.
    Versions,
    /// That its transfer is over.
    Close(CloseReason),
}

/// Notices in turn, with their peer and the connection that they are about.
#[derive(Debug)]
pub(super) struct Notices<P> {
    queue: VecDeque<(P, u64, Notice)>,
}

impl<P> Notices<P> {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    /// False if there is no room.
    pub(super) fn push(&mut self, peer: P, connection_id: u64, notice: Notice) -> bool {
        let room = self.queue.len() < MAX_NOTICES;
        if room {
            self.queue.push_back((peer, connection_id, notice));
        }
        room
    }

    /// Writes the next one and gives its peer and length.
    pub(super) fn pop(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        let (peer, connection_id, notice) = self.queue.pop_front()?;
        let len = match notice {
            Notice::Retry(cookie) => wire::encode_retry(connection_id, &cookie, out),
            Notice::Versions => wire::encode_versions(connection_id, Versions::OURS, out),
            Notice::Close(reason) => wire::encode_close(connection_id, reason, out),
        };
        Some((peer, len))
    }
}
