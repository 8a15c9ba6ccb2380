//! Answers to strangers, and last words to peers: packets that no receiver makes, because there is none for them. Of
//! each only what it says is kept until it is polled for, and only so many are kept. What strangers ask for beyond that
//! is left unanswered, and whoever asked asks again; nobody asks again for last words, so they have a place of their own.

use std::collections::VecDeque;

use crate::cookie::Cookie;
use crate::wire::native::{CloseReason, Versions};
use crate::wire::{self, MAX_REPLY};

/// Answers to strangers that wait, at most.
const MAX_ANSWERS: usize = 256;

/// What one who has no receiver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// To show this cookie.
    Retry(Cookie),
    /// To speak another version.
    Versions,
    /// That its transfer is over, or is none.
    Close(CloseReason),
}

/// Notices in turn, with their peer and the connection that they are about.
#[derive(Debug)]
pub(super) struct Notices<P> {
    answers: VecDeque<(P, u64, Notice)>,
    last_words: VecDeque<(P, u64, Notice)>,
    /// Last words that wait, at most.
    most_last_words: usize,
}

impl<P> Notices<P> {
    /// For a listener with at most `peers`, all of which may be told at once that it is over.
    pub(super) fn new(peers: usize) -> Self {
        Self { answers: VecDeque::new(), last_words: VecDeque::new(), most_last_words: peers }
    }

    /// Tells a stranger; false if there is no room.
    pub(super) fn answer(&mut self, peer: P, connection_id: u64, notice: Notice) -> bool {
        let room = self.answers.len() < MAX_ANSWERS;
        if room {
            self.answers.push_back((peer, connection_id, notice));
        }
        room
    }

    /// Tells one that was a peer until now why it is none any more.
    pub(super) fn say_last(&mut self, peer: P, connection_id: u64, reason: CloseReason) {
        if self.last_words.len() < self.most_last_words {
            self.last_words.push_back((peer, connection_id, Notice::Close(reason)));
        }
    }

    /// Writes the next last words and gives their peer and length.
    pub(super) fn pop_last_words(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        self.last_words.pop_front().map(|notice| write(notice, out))
    }

    /// Writes the next answer to a stranger and gives its peer and length.
    pub(super) fn pop_answer(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        self.answers.pop_front().map(|notice| write(notice, out))
    }
}

fn write<P>((peer, connection_id, notice): (P, u64, Notice), out: &mut [u8; MAX_REPLY]) -> (P, usize) {
    let len = match notice {
        Notice::Retry(cookie) => wire::encode_retry(connection_id, &cookie, out),
        Notice::Versions => wire::encode_versions(connection_id, Versions::OURS, out),
        Notice::Close(reason) => wire::encode_close(connection_id, reason, out),
    };
    (peer, len)
}
