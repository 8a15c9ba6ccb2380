//! Answers to strangers, and last words to peers: packets that no receiver makes, because there is none for them. Of
//! each only what it says is kept until it is polled for, and only so many are kept. What strangers ask for beyond that
//! is left unanswered, and whoever asked asks again; nobody asks again for last words, so they have a place of their own.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::Listener;
use crate::cookie::Cookie;
use crate::wire::native::{CloseReason, Versions};
use crate::wire::{self, MAX_REPLY};

/// Answers to strangers that wait, at most.
const MAX_ANSWERS: usize = 256;
/// Replies to peers after which a stranger has its turn: strangers, however many, cost the peers little, and a peer that
/// always has something to say keeps none of them out.
const REPLIES_PER_ANSWER: u32 = 16;

/// What one who has no receiver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// To show this cookie.
    Retry(Cookie),
    /// To speak another version.
    Versions,
    /// That it is not let in.
    Close(CloseReason),
    /// That this transmission found no connection.
    NoConnection(u64),
}

/// Notices in turn, with their peer and the connection that they are about.
#[derive(Debug)]
pub(super) struct Notices<P> {
    answers: VecDeque<(P, u64, Notice)>,
    last_words: VecDeque<(P, u64, CloseReason)>,
    /// Last words that wait, at most.
    most_last_words: usize,
    /// Replies of peers since a stranger had an answer.
    replies: u32,
    unanswered: u64,
    unsaid: u64,
}

impl<P> Notices<P> {
    /// For a listener with at most `peers`, all of which may be told at once that it is over.
    pub(super) fn new(peers: usize) -> Self {
        Self {
            answers: VecDeque::new(),
            last_words: VecDeque::new(),
            most_last_words: peers,
            replies: 0,
            unanswered: 0,
            unsaid: 0,
        }
    }

    /// Strangers that there was no room for, so far.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Last words that there was no room for, so far.
    pub(super) fn unsaid(&self) -> u64 {
        self.unsaid
    }

    /// True if nobody waits to be told anything.
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.last_words.is_empty()
    }

    /// Tells a stranger; false if there is no room.
    pub(super) fn answer(&mut self, peer: P, connection_id: u64, notice: Notice) -> bool {
        let room = self.answers.len() < MAX_ANSWERS;
        if room {
            self.answers.push_back((peer, connection_id, notice));
        } else {
            self.unanswered += 1;
        }
        room
    }

    /// Tells whoever sent transmission `tx` that nobody knows its connection; false if there is no room. It did not ask
    /// for an answer, so none is missed.
    pub(super) fn answer_unknown(&mut self, peer: P, connection_id: u64, tx: u64) -> bool {
        let room = self.answers.len() < MAX_ANSWERS;
        if room {
            self.answers.push_back((peer, connection_id, Notice::NoConnection(tx)));
        }
        room
    }

    /// Tells it of this transmission in place of an earlier one; false unless the newest answer is just that.
    pub(super) fn renew_unknown(&mut self, peer: &P, connection_id: u64, tx: u64) -> bool
    where
        P: PartialEq,
    {
        let Some((to, about, Notice::NoConnection(answered))) = self.answers.back_mut() else { return false };
        let same = to == peer && *about == connection_id;
        if same {
            *answered = tx;
        }
        same
    }

    /// Tells one that was a peer until now why it is none any more.
    pub(super) fn say_last(&mut self, peer: P, connection_id: u64, reason: CloseReason) {
        if self.last_words.len() < self.most_last_words {
            self.last_words.push_back((peer, connection_id, reason));
        } else {
            self.unsaid += 1;
        }
    }

    /// Writes the next last words and gives their peer and length.
    pub(super) fn pop_last_words(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        let (peer, connection_id, reason) = self.last_words.pop_front()?;
        Some(write((peer, connection_id, Notice::Close(reason)), out))
    }

    /// Writes the next answer to a stranger and gives its peer and length.
    pub(super) fn pop_answer(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        let notice = self.answers.pop_front()?;
        self.replies = 0;
        Some(write(notice, out))
    }

    /// The same if it is a stranger's turn although peers have something to say.
    pub(super) fn pop_overdue(&mut self, out: &mut [u8; MAX_REPLY]) -> Option<(P, usize)> {
        if self.replies < REPLIES_PER_ANSWER {
            return None;
        }
        self.pop_answer(out)
    }

    /// A peer had a reply.
    pub(super) fn on_reply(&mut self) {
        self.replies = self.replies.saturating_add(1);
    }
}

fn write<P>((peer, connection_id, notice): (P, u64, Notice), out: &mut [u8; MAX_REPLY]) -> (P, usize) {
    let len = match notice {
        Notice::Retry(cookie) => wire::encode_retry(connection_id, &cookie, out),
        Notice::Versions => wire::encode_versions(connection_id, Versions::OURS, out),
        Notice::Close(reason) => wire::encode_close(connection_id, reason, out),
        Notice::NoConnection(tx) => wire::encode_no_connection(connection_id, tx, out),
    };
    (peer, len)
}

/// The time that one answer takes of the budget: 1000 a second, as systems limit their ICMP errors. With headers that is
/// 0.4 Mbit/s at most.
const EACH: Duration = Duration::from_millis(1);
/// How far answers may be ahead of that: 1000 at once. Timers that back off fire together, if what they wait for ended
/// together; so as many peers as a listener has by default all hear of it before their patience of 30 s is over.
const AHEAD: Duration = Duration::from_secs(1);

/// How many answers there may be, whoever asks.
#[derive(Debug, Default)]
pub(super) struct ResetLimiter {
    /// Until when it is spent.
    spent_until: Option<Instant>,
}

impl ResetLimiter {
    /// True if there may be one more now.
    fn take(&mut self, now: Instant) -> bool {
        let spent_until = self.spent_until.map_or(now, |until| until.max(now)) + EACH;
        let granted = spent_until <= now + AHEAD;
        if granted {
            self.spent_until = Some(spent_until);
        }
        granted
    }
}

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Transmission `tx` of `connection_id` came from `peer`, for which there is no receiver.
    pub(super) fn answer_unknown(&mut self, now: Instant, peer: P, connection_id: u64, tx: u64) {
        // What comes together gets one answer.
        if self.notices.renew_unknown(&peer, connection_id, tx) || !self.resets.take(now) {
            return;
        }
        // The budget bounds these searches, too.
        let elsewhere = self.peers.values().any(|entry| entry.wire.connection_id() == Some(connection_id));
        if !elsewhere && self.notices.answer_unknown(peer, connection_id, tx) {
            self.stats.no_connection_told += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_burst_and_then_a_rate() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let epoch = Instant::now();
        let granted = |budget: &mut ResetLimiter, at: u64| {
            let now = epoch + Duration::from_millis(at);
            (0..10_000).filter(|_| budget.take(now)).count()
        };
        let mut budget = ResetLimiter::default();
        assert_eq!(granted(&mut budget, 0), 1000);
        assert_eq!(granted(&mut budget, 0), 0);
        assert_eq!(granted(&mut budget, 20), 20);
        let of_a_second: usize = (1..=100).map(|n| granted(&mut budget, 20 + 10 * n)).sum();
        assert_eq!(of_a_second, 1000);
        assert_eq!(granted(&mut budget, 100_000), 1000, "what was not used does not add up");
    }
}
