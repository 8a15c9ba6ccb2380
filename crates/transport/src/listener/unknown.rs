//! What those hear whose packets belong to no connection: a receiver that began anew, or forgot a peer that was silent,
//! says so, and its sender need not find out by patience. Answers are few and short, and only for those whose address
//! and whose connection nobody has here: any other might reach one whose transfer goes on.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::Listener;

/// The time that one answer takes of the budget: 1000 a second, as systems limit their ICMP errors. With headers that is
/// 0.4 Mbit/s at most.
const EACH: Duration = Duration::from_millis(1);
/// How far answers may be ahead of that: 1000 at once. Timers that back off fire together, if what they wait for ended
/// together; so as many peers as a listener has by default all hear of it before their patience of 30 s is over.
const AHEAD: Duration = Duration::from_secs(1);

/// How many answers there may be, whoever asks.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Until when it is spent.
    spent_until: Option<Instant>,
}

impl Budget {
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
        if self.notices.renew_unknown(&peer, connection_id, tx) || !self.unknown.take(now) {
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
        let granted = |budget: &mut Budget, at: u64| {
            let now = epoch + Duration::from_millis(at);
            (0..10_000).filter(|_| budget.take(now)).count()
        };
        let mut budget = Budget::default();
        assert_eq!(granted(&mut budget, 0), 1000);
        assert_eq!(granted(&mut budget, 0), 0);
        assert_eq!(granted(&mut budget, 20), 20);
        let of_a_second: usize = (1..=100).map(|n| granted(&mut budget, 20 + 10 * n)).sum();
        assert_eq!(of_a_second, 1000);
        assert_eq!(granted(&mut budget, 100_000), 1000, "what was not used does not add up");
    }
}
