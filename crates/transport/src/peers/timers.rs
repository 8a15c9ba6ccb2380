//! Deadlines of the peers: connections, probes of addresses, idle timeouts of classic peers.

use std::collections::BTreeSet;
use std::time::Instant;

use super::account::{Account, Key};
use super::{AddressKey, ConnectionSet};
use crate::sender::earlier;

/// Capacity below which memory is kept.
const KEPT_CAPACITY: usize = 256;

/// Deadlines in order, each with its peer. A deadline may be too early, because it is computed
/// again only when it expires. It may be too late, or missing, while its connection is queued for
/// transmission: an [`Endpoint`](crate::Endpoint) is asked for its datagrams before its timeout.
#[derive(Debug, Default)]
pub(super) struct Timers {
    order: BTreeSet<(Instant, Key)>,
    /// The first deadline, because it is asked several times for each packet.
    first: Option<Instant>,
    /// Peers whose deadlines have expired; kept to allocate once.
    due: Vec<Key>,
}

impl Timers {
    pub(super) fn first(&self) -> Option<Instant> {
        self.first
    }

    fn find_first(&mut self) {
        self.first = self.order.first().map(|(at, _)| *at);
    }

    /// Schedules a peer, if `deadline` is earlier than scheduled.
    pub(super) fn schedule(&mut self, account: &mut Account, key: Key, deadline: Option<Instant>) {
        if let Some(deadline) = deadline
            && account.timer.is_none_or(|timer| deadline < timer)
        {
            self.remove(account, key);
            self.order.insert((deadline, key));
            self.first = earlier(self.first, Some(deadline));
            account.timer = Some(deadline);
        }
    }

    pub(super) fn remove(&mut self, account: &mut Account, key: Key) {
        if let Some(timer) = account.timer.take() {
            self.order.remove(&(timer, key));
            self.find_first();
        }
    }

    /// Takes the first deadline if it is due, and returns its peer.
    fn pop_due(&mut self, now: Instant) -> Option<Key> {
        self.first.filter(|at| *at <= now)?;
        let first = self.order.pop_first();
        self.find_first();
        first.map(|(_, key)| key)
    }
}

impl<P: AddressKey> ConnectionSet<P> {
    pub(super) fn handle_timers(&mut self, now: Instant) {
        // A peer whose next deadline is not after `now` has its turn in the next call.
        let mut due = std::mem::take(&mut self.timers.due);
        while let Some(key) = self.timers.pop_due(now) {
            due.push(key);
        }
        for key in due.drain(..) {
            match key {
                Key::Classic(slot) => self.on_classic_timer(now, slot),
                Key::Native(id) => self.on_native_timer(now, id),
            }
        }
        due.shrink_to(KEPT_CAPACITY);
        self.timers.due = due;
    }
}
