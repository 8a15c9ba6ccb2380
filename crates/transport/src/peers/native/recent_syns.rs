//! Digests of SYNs that opened a connection lately. They are remembered for 30 s, as long as a
//! cookie in them is valid, so that copies on the path cost no handshake. A later replay gets no
//! further than a half-open connection, because the responder's part of the keys is new.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::cookie::CookieKey;

/// Time for which a digest is remembered: the longest validity of a cookie.
const REMEMBER_TIME: Duration = Duration::from_secs(2 * CookieKey::SLOT_S);
/// Largest number of digests, 3 MB. Only a peer that proved its address adds one.
const MAX_SYNS: usize = 65_536;

/// Digests of SYNs.
#[derive(Debug, Default)]
pub(super) struct RecentSyns {
    digests: BTreeSet<u64>,
    /// Times at which they are forgotten, ascending.
    order: VecDeque<(Instant, u64)>,
}

impl RecentSyns {
    /// Remembers a SYN that opens a connection. A full table forgets all others.
    pub(super) fn insert(&mut self, now: Instant, digest: u64) {
        self.forget_expired(now);
        if self.order.len() >= MAX_SYNS {
            *self = Self::default();
        }
        if self.digests.insert(digest) {
            self.order.push_back((now + REMEMBER_TIME, digest));
        }
    }

    /// True if this SYN opened a connection so lately that its cookie may be valid.
    pub(super) fn contains(&mut self, now: Instant, digest: u64) -> bool {
        self.forget_expired(now);
        self.digests.contains(&digest)
    }

    fn forget_expired(&mut self, now: Instant) {
        while let Some(&(until, digest)) = self.order.front()
            && until <= now
        {
            self.order.pop_front();
            self.digests.remove(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_are_remembered_for_30_s() {
        let (mut syns, epoch) = (RecentSyns::default(), rdt_testing::epoch());
        let at = |s| epoch + Duration::from_secs(s);
        syns.insert(at(0), 1);
        syns.insert(at(10), 2);
        assert!(syns.contains(at(29), 1) && !syns.contains(at(30), 1));
        assert!(syns.contains(at(39), 2) && !syns.contains(at(40), 2));
        assert!(syns.order.is_empty() && syns.digests.is_empty());
    }

    #[test]
    fn full_table_forgets_all_others() {
        let (mut syns, now) = (RecentSyns::default(), rdt_testing::epoch());
        let most = MAX_SYNS as u64;
        (0..most).for_each(|digest| syns.insert(now, digest));
        assert!(syns.contains(now, 0));
        syns.insert(now, most);
        assert!(syns.contains(now, most) && !syns.contains(now, 0));
    }
}
