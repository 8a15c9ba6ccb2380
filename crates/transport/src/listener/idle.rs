//! Idle timeouts of peers, and the deadline of the listener.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::Listener;

/// Idle deadlines of peers, earliest first.
type Deadlines<P> = BTreeSet<(Instant, P)>;

/// Longest idle timeout, 100 years: a deadline after `Duration::MAX` cannot be represented.
const MAX_IDLE: Duration = Duration::from_secs(100 * 365 * 86_400);

impl<P: Copy + Ord + Debug + Hash> Listener<P> {
    /// Restarts the idle timeout of `peer`, for a datagram that is still on an emulated link.
    pub fn touch(&mut self, now: Instant, peer: P) {
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.last_active = now;
        }
    }

    /// Returns the time at which the idle timeout of `peer` last restarted.
    pub fn last_active(&self, peer: P) -> Option<Instant> {
        self.peers.get(&peer).map(|entry| entry.last_active)
    }

    /// Updates `deadline` after a change of a set of deadlines.
    pub(super) fn set_deadline(&mut self) {
        let sets = [&self.idle, &self.half_open.idle];
        self.deadline = sets.into_iter().filter_map(|set| set.first()).map(|(deadline, _)| *deadline).min();
    }

    /// Closes the peers whose idle timeouts have expired.
    pub(super) fn close_idle_peers(&mut self, now: Instant) {
        let sets: [fn(&mut Self) -> &mut Deadlines<P>; 2] =
            [|listener| &mut listener.idle, |listener| &mut listener.half_open.idle];
        for idle in sets {
            while let Some(&(deadline, peer)) = idle(self).first()
                && deadline <= now
            {
                idle(self).pop_first();
                if let Some(renewed) = self.close_if_idle(now, peer) {
                    idle(self).insert((renewed, peer));
                }
            }
        }
    }

    /// Closes `peer` if its idle timeout has expired; otherwise returns its present deadline.
    fn close_if_idle(&mut self, now: Instant, peer: P) -> Option<Instant> {
        let entry = self.peers.get(&peer)?;
        let deadline = entry.last_active + self.idle_limit();
        if deadline <= now {
            self.close(peer);
            return None;
        }
        self.peers.get_mut(&peer)?.idle_at = deadline;
        Some(deadline)
    }

    pub(super) fn idle_limit(&self) -> Duration {
        self.config.idle.min(MAX_IDLE)
    }
}
