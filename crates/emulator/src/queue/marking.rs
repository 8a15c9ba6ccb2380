//! Marking packets instead of dropping them (ECN), and the signal that a queue gives a sender.

use crate::packet::Ecn;
use crate::queue::QueueLimit;

/// When a queue marks packets, and what becomes of those that cannot be marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// A packet that would exceed this, if it were the [`QueueLimit`], is marked: its codepoint becomes
    /// [`Ecn::Ce`](crate::Ecn::Ce). This is the step of RFC 8257 (section 3.1) and, unlike an average, says what the
    /// packet itself found.
    pub threshold: QueueLimit,
    /// What is done with a packet that should be marked and is [`Ecn::NotEct`](crate::Ecn::NotEct).
    pub incapable: Incapable,
}

impl Marking {
    /// Marks above `threshold`; packets that cannot be marked pass until the queue is full.
    pub const fn above(threshold: QueueLimit) -> Self {
        Self { threshold, incapable: Incapable::Pass }
    }

    /// The signal of a packet with this codepoint that exceeds the threshold.
    pub(super) const fn signal(self, ecn: Ecn) -> Option<Signal> {
        match (ecn.is_capable(), self.incapable) {
            (true, _) => Some(Signal::Mark),
            (false, Incapable::Drop) => Some(Signal::Drop),
            (false, Incapable::Pass) => None,
        }
    }

    /// The same, but packets that cannot be marked are dropped in place of the mark (RFC 3168, section 5).
    #[must_use]
    pub const fn dropping_others(self) -> Self {
        Self { incapable: Incapable::Drop, ..self }
    }
}

/// What a marking queue does with packets that cannot be marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incapable {
    /// Nothing, until the queue is full.
    #[default]
    Pass,
    /// It drops them in place of the mark.
    Drop,
}

/// What is done with a packet to tell its sender of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Mark,
    Drop,
}
