//! Deadlines of the peers: timers of connections and of the probes of their new addresses, and idle
//! timeouts of connected classic peers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::ConnectionSet;
use super::account::{Account, Key};

/// Deadlines in order, each with its peer. A deadline may be too early, because it is computed
/// again only when it expires, but never too late.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Key)>);

impl Timers {
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Schedules a peer, if `deadline` is earlier than scheduled.
    pub(super) fn schedule(&mut self, account: &mut Account, key: Key, deadline: Option<Instant>) {
        if let Some(deadline) = deadline
            && account.timer.is_none_or(|timer| deadline < timer)
        {
            self.remove(account, key);
            self.0.insert((deadline, key));
            account.timer = Some(deadline);
        }
    }

    pub(super) fn remove(&mut self, account: &mut Account, key: Key) {
        if let Some(timer) = account.timer.take() {
            self.0.remove(&(timer, key));
        }
    }

    /// Takes the first deadline if it is due, and returns its peer.
    fn pop_due(&mut self, now: Instant) -> Option<Key> {
        self.first().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, key)| key)
    }
}

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Handles the timers that are due.
    pub(super) fn handle_timers(&mut self, now: Instant) {
        // A peer whose next deadline is not after `now` has its turn in the next call.
        let mut due = Vec::new();
        while let Some(key) = self.timers.pop_due(now) {
            due.push(key);
        }
        for key in due {
            match key {
                Key::Classic(slot) => self.on_classic_timer(now, slot),
                Key::Native(id) => self.on_native_timer(now, id),
            }
        }
    }
}
