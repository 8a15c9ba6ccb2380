//! Losses that the receiver's socket accounts for. It reports how many messages its full receive
//! buffer dropped (`SO_RXQ_OVFL`); each of them was a run of coalesced datagrams that had left one
//! after the other.

/// Datagrams of one message at most: what receive offload joins.
const JOINED: u32 = 64;

/// Drops that the receiver reported, and the losses put down to them.
#[derive(Debug, Default)]
pub(crate) struct ReceiverDrops {
    /// Messages refused, modulo 2^32, as told last.
    told: u32,
    /// Drops to which no loss was put down yet.
    messages: u32,
    /// Transmissions before this one had left when they were told.
    until: u64,
    /// The newest one that was put down to a message, and how many were to the same.
    last: Option<(u64, u32)>,
}

impl ReceiverDrops {
    /// The receiver's count is `messages`; `next_tx` leaves next.
    pub(crate) fn on_told(&mut self, messages: u32, next_tx: u64) {
        let more = messages.wrapping_sub(self.told);
        // What seems to be half of all numbers is an ACK that was overtaken.
        if more == 0 || more > u32::MAX / 2 {
            return;
        }
        self.told = messages;
        self.messages = self.messages.saturating_add(more);
        self.until = next_tx;
    }

    /// Of what may still be found lost, the oldest transmission is this one: what was told of those
    /// before it and accounted for none of them was another sender's.
    pub(crate) fn settle(&mut self, oldest: Option<u64>) {
        if oldest.is_none_or(|tx| tx >= self.until) {
            self.messages = 0;
        }
    }

    /// True if the loss is put down to the socket that a probe repaired before anything was found
    /// to be lost.
    pub(crate) fn covers_repaired(&mut self) -> bool {
        let covered = self.messages > 0;
        self.messages -= u32::from(covered);
        covered
    }

    /// True if the loss of transmission `tx` is put down to the socket. To be asked in the order in
    /// which they left.
    pub(crate) fn covers(&mut self, tx: u64) -> bool {
        if let Some((last, count)) = self.last
            && last.checked_add(1) == Some(tx)
            && count < JOINED
        {
            self.last = Some((tx, count + 1));
            return true;
        }
        if tx >= self.until {
            // Drops before it belong to losses that were never found, or to another sender.
            self.messages = 0;
        }
        let covered = self.messages > 0;
        self.messages -= u32::from(covered);
        self.last = covered.then_some((tx, 1));
        covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_covers_run_of_at_most_64() {
        let mut losses = ReceiverDrops::default();
        assert!(!losses.covers(3), "nothing was told");
        losses.on_told(2, 1000);
        assert!((10..74).all(|tx| losses.covers(tx)), "what came joined");
        assert!(losses.covers(74), "the second message");
        assert!(!losses.covers(80) && !losses.covers(81), "there is no third");
        losses.on_told(2, 1000);
        assert!(!losses.covers(90), "told again, it is the same");
    }

    #[test]
    fn unused_drops_belong_to_other_senders() {
        let mut losses = ReceiverDrops::default();
        losses.on_told(5, 100);
        losses.settle(Some(99));
        assert!(losses.covers_repaired() && losses.covers(99));
        losses.settle(Some(100));
        assert!(!losses.covers(99 + 64) && !losses.covers_repaired());
        losses.on_told(6, 200);
        losses.settle(None);
        assert!(!losses.covers(150));
    }

    #[test]
    fn later_losses_are_the_networks() {
        let mut losses = ReceiverDrops::default();
        losses.on_told(5, 100);
        assert!(losses.covers(99));
        assert!(!losses.covers(101) && !losses.covers(98), "what is left of the count was another's");
    }

    #[test]
    fn drop_counts_wrap_and_ignore_late_ones() {
        let mut losses = ReceiverDrops { told: u32::MAX, ..ReceiverDrops::default() };
        losses.on_told(0, 10);
        losses.on_told(u32::MAX - 3, 10);
        assert!(losses.covers(1) && !losses.covers(3));
    }
}
