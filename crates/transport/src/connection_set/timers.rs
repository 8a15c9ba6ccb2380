//! Deadlines of the connections, and of the probes of new addresses.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use super::ConnectionSet;

/// Deadlines in order, each with its connection. A deadline may be too early, because it is
/// computed again only when it expires, but never too late.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, u64)>);

impl Timers {
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn remove(&mut self, at: Instant, id: u64) {
        self.0.remove(&(at, id));
    }

    /// Takes the first deadline if it is due, and returns its connection.
    fn pop_due(&mut self, now: Instant) -> Option<u64> {
        self.first().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, id)| id)
    }
}

impl<P: Copy + Ord + Debug + Hash> ConnectionSet<P> {
    /// Schedules a connection, if its deadline is earlier than scheduled.
    pub(super) fn set_timer(&mut self, id: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        if let Some(deadline) = entry.deadline()
            && entry.timer.is_none_or(|timer| deadline < timer)
        {
            if let Some(timer) = entry.timer.replace(deadline) {
                self.timers.remove(timer, id);
            }
            self.timers.0.insert((deadline, id));
        }
    }

    /// Handles the timers that are due.
    pub(super) fn handle_timers(&mut self, now: Instant) {
        // A connection whose next deadline is not after `now` has its turn in the next call.
        let mut due = Vec::new();
        while let Some(id) = self.timers.pop_due(now) {
            due.push(id);
        }
        for id in due {
            let Some(entry) = self.connections.get_mut(&id) else { continue };
            entry.timer = None;
            if entry.deadline().is_some_and(|at| at <= now) {
                entry.connection.handle_timeout(now);
                entry.on_timer(now);
                entry.is_over = entry.connection.is_drained(now);
                if let Some(probe) = &mut entry.probe
                    && probe.handle_timeout(now)
                {
                    entry.probe = None;
                }
                self.process_output(id);
            } else {
                self.set_timer(id);
            }
        }
    }
}
