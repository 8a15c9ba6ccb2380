//! What an observer of a link asked for beyond the ledger.
//!
//! Owns the measured queue delays and the packets kept for it. Nothing here bears on any packet's fate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::ledger::DropCause;
use crate::packet::Packet;
use crate::queue::QueueDelays;

/// A packet that was dropped after the link had taken it, or a second copy that found no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateDrop {
    /// The exact time at which it was dropped, which may be before the call that brought it about.
    pub at: Instant,
    /// Why.
    pub cause: DropCause,
    /// The packet as it was pushed, but for a mark that the queue may have set.
    pub packet: Packet,
}

/// The default is to watch nothing.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) delays: Option<QueueDelays>,
    /// The oldest first.
    pub(super) dropped: VecDeque<LateDrop>,
    /// How many of them are kept at most.
    pub(super) most_dropped: usize,
}

impl Watch {
    pub(super) fn on_served(&mut self, waited: Duration) {
        if let Some(delays) = &mut self.delays {
            delays.record(waited);
        }
    }

    pub(super) fn on_dropped(&mut self, drop: LateDrop) {
        if self.most_dropped == 0 {
            return;
        }
        if self.dropped.len() >= self.most_dropped {
            self.dropped.pop_front();
        }
        self.dropped.push_back(drop);
    }
}
