//! FIN-ACKs of connections that were removed. If the path fails at the end of a connection, the
//! peer repeats its FIN for longer than the connection lives. A RESET would then tell the peer that
//! its stream failed, although it was confirmed.
//!
//! A FIN-ACK is sealed once, when its connection is removed. It may leave several times, as the
//! same packet: the peer takes the first.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::wire::native::FIN_ACK_LEN;

/// Time for which a FIN-ACK is kept after its connection has stopped to repeat it: the idle timeout
/// by default, after which a peer has given up.
const KEPT: Duration = Duration::from_secs(30);
/// Largest number of FIN-ACKs, 2 MB. The oldest makes room for a new one.
const MAX_KEPT: usize = 16_384;

/// Sealed FIN-ACKs by the connection ID of this side.
#[derive(Debug, Default)]
pub(super) struct FinAcks {
    by_id: BTreeMap<u64, [u8; FIN_ACK_LEN]>,
    /// Times of removal, ascending.
    order: VecDeque<(Instant, u64)>,
}

impl FinAcks {
    /// Keeps the FIN-ACK of a connection that repeated it until `repeated_until`.
    pub(super) fn insert(&mut self, id: u64, fin_ack: [u8; FIN_ACK_LEN], repeated_until: Instant) {
        if self.order.len() >= MAX_KEPT
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
        let newest = self.order.back().map_or(repeated_until, |(at, _)| *at);
        self.order.push_back((newest.max(repeated_until + KEPT), id));
        self.by_id.insert(id, fin_ack);
    }

    pub(super) fn get(&self, id: u64) -> Option<&[u8; FIN_ACK_LEN]> {
        self.by_id.get(&id)
    }

    /// Returns the time at which all are removed. Until then, a new one removes those before it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.order.back().map(|(at, _)| *at)
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.order.front()
            && at <= now
        {
            self.order.pop_front();
            self.by_id.remove(&id);
        }
        if self.order.is_empty() && self.order.capacity() > 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fin_acks_are_kept_for_30_s() {
        let (mut fin_acks, epoch) = (FinAcks::default(), rdt_testing::epoch());
        let at = |s| epoch + Duration::from_secs(s);
        fin_acks.insert(1, [1; FIN_ACK_LEN], at(10));
        // Its connection repeated its FIN-ACK for a shorter time.
        fin_acks.insert(2, [2; FIN_ACK_LEN], at(5));
        assert_eq!(fin_acks.deadline(), Some(at(40)));
        fin_acks.expire(at(39));
        assert_eq!(fin_acks.get(2), Some(&[2; FIN_ACK_LEN]));
        fin_acks.expire(at(40));
        assert_eq!((fin_acks.get(1), fin_acks.get(2), fin_acks.deadline()), (None, None, None));
    }

    #[test]
    fn oldest_fin_ack_makes_room() {
        let (mut fin_acks, now) = (FinAcks::default(), rdt_testing::epoch());
        let most = MAX_KEPT as u64;
        (0..=most).for_each(|id| fin_acks.insert(id, [0; FIN_ACK_LEN], now));
        assert_eq!((fin_acks.by_id.len(), fin_acks.get(0)), (MAX_KEPT, None));
        assert!(fin_acks.get(1).is_some() && fin_acks.get(most).is_some());
    }
}
