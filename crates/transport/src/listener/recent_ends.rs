//! Native connections that ended lately. The SYN of a recorded transfer carries a cookie that is
//! valid for up to 30 s; the listener remembers the connection ID for as long, so a replay of the
//! recording opens no second transfer.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::cookie::CookieKey;

/// Time for which the ID of an ended connection is remembered, counted from its last packet: the
/// longest validity of a cookie.
const REMEMBER_TIME: Duration = Duration::from_secs(2 * CookieKey::SLOT_S);
/// Largest number of connection IDs, 3 MB. A peer that proved its address may cause an end.
const MAX_ENDS: usize = 65_536;

/// Connection IDs of ended connections.
#[derive(Debug, Default)]
pub(crate) struct RecentEnds {
    /// Time at which each ID is forgotten.
    ids: BTreeMap<u64, Instant>,
    /// IDs in the order of insertion. May have an ID twice.
    order: VecDeque<(Instant, u64)>,
}

impl RecentEnds {
    /// Remembers a connection whose last packet arrived at `last_active`. Returns false if IDs that
    /// may still be replayed had to be forgotten for it.
    pub(crate) fn insert(&mut self, last_active: Instant, connection_id: u64) -> bool {
        self.forget_expired(last_active);
        let has_room = self.order.len() < MAX_ENDS;
        if !has_room {
            self.ids.clear();
            self.order.clear();
        }
        let until = last_active + REMEMBER_TIME;
        self.ids.insert(connection_id, until);
        self.order.push_back((until, connection_id));
        has_room
    }

    /// True if this connection ended so lately that its cookie may be valid.
    pub(crate) fn contains(&mut self, now: Instant, connection_id: u64) -> bool {
        self.forget_expired(now);
        self.ids.contains_key(&connection_id)
    }

    fn forget_expired(&mut self, now: Instant) {
        while let Some(&(until, connection_id)) = self.order.front()
            && until <= now
        {
            self.order.pop_front();
            if self.ids.get(&connection_id).is_some_and(|latest| *latest <= now) {
                self.ids.remove(&connection_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_remembered_for_30_s() {
        let (mut ends, epoch) = (RecentEnds::default(), rdt_testing::epoch());
        let at = |s| epoch + Duration::from_secs(s);
        assert!(ends.insert(at(0), 1) && ends.insert(at(10), 2) && ends.insert(at(20), 1));
        assert!(ends.contains(at(29), 1) && ends.contains(at(39), 2) && !ends.contains(at(40), 2));
        assert!(ends.contains(at(49), 1) && !ends.contains(at(50), 1), "the newer end counts");
        assert!(ends.order.is_empty() && ends.ids.is_empty());
    }

    #[test]
    fn full_table_reports_what_it_forgets() {
        let (mut ends, now) = (RecentEnds::default(), rdt_testing::epoch());
        let most = MAX_ENDS as u64;
        assert!((0..most).all(|id| ends.insert(now, id)));
        assert!(!ends.insert(now, most) && ends.contains(now, most) && !ends.contains(now, 0));
        assert!(ends.insert(now, 0));
    }
}
