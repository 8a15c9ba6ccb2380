//! Losses in the receiver's socket. Native ACKs report how many messages the full receive buffer
//! dropped (`SO_RXQ_OVFL`). Each message is a run of coalesced datagrams with consecutive packet
//! numbers. Such losses are no sign of congestion.

/// Largest number of datagrams that GRO coalesces into one message.
const MAX_COALESCED_DATAGRAMS: u32 = 64;

/// Drops reported by the receiver, and the losses attributed to them.
#[derive(Debug, Default)]
pub(crate) struct ReceiverDrops {
    /// Newest reported count of dropped messages, modulo 2^32.
    reported_messages: u32,
    /// Reported drops to which no loss is attributed yet, in messages of coalesced datagrams.
    messages: u32,
    /// Next packet number when the drops were reported: only earlier packets can have been dropped.
    sent_before: u64,
    /// Newest transmission attributed to a message, and the number of transmissions attributed to
    /// that message.
    last: Option<(u64, u32)>,
}

impl ReceiverDrops {
    /// Handles the receiver's count `messages`; `next_number` is the number of the next
    /// transmission.
    pub(crate) fn on_report(&mut self, messages: u32, next_number: u64) {
        let more = messages.wrapping_sub(self.reported_messages);
        // A step of over 2^31 is a step back: this ACK was reordered.
        if more == 0 || more > u32::MAX / 2 {
            return;
        }
        self.reported_messages = messages;
        self.messages = self.messages.saturating_add(more);
        self.sent_before = next_number;
    }

    /// Forgets reported drops that can explain no more loss, given the oldest outstanding
    /// transmission: they hit another sender of the same receiver.
    pub(crate) fn settle(&mut self, oldest: Option<u64>) {
        if oldest.is_none_or(|packet_number| packet_number >= self.sent_before) {
            self.messages = 0;
        }
    }

    /// Attributes a loss that a tail loss probe repaired. Returns true if a drop was reported for
    /// it.
    pub(crate) fn covers_repaired(&mut self) -> bool {
        let covered = self.messages > 0;
        self.messages -= u32::from(covered);
        covered
    }

    /// Attributes the loss of packet `packet_number`. Returns true if a drop was reported for it.
    /// Call in the order of transmission. Within a message one number may be missing: the sender
    /// skips some.
    pub(crate) fn covers(&mut self, packet_number: u64) -> bool {
        if let Some((last, count)) = self.last
            && (1..=2).contains(&packet_number.saturating_sub(last))
            && count < MAX_COALESCED_DATAGRAMS
        {
            self.last = Some((packet_number, count + 1));
            return true;
        }
        if packet_number >= self.sent_before {
            // The reported drops are older than this packet: they belong to losses that were never
            // detected, or to another sender.
            self.messages = 0;
        }
        let covered = self.messages > 0;
        self.messages -= u32::from(covered);
        self.last = covered.then_some((packet_number, 1));
        covered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_covers_run_of_at_most_64() {
        let mut losses = ReceiverDrops::default();
        assert!(!losses.covers(3), "nothing is reported");
        losses.on_report(2, 1000);
        assert!((10..74).all(|number| losses.covers(number)), "one message");
        assert!(losses.covers(74), "the second message");
        assert!(!losses.covers(80) && !losses.covers(81), "there is no third");
        losses.on_report(2, 1000);
        assert!(!losses.covers(90), "the same count again");
    }

    #[test]
    fn skipped_number_does_not_divide_message() {
        let mut losses = ReceiverDrops::default();
        losses.on_report(1, 1000);
        assert!([10, 11, 13, 14].into_iter().all(|number| losses.covers(number)));
        assert!(!losses.covers(17), "two numbers are missing");
    }

    #[test]
    fn unused_drops_belong_to_other_senders() {
        let mut losses = ReceiverDrops::default();
        losses.on_report(5, 100);
        losses.settle(Some(99));
        assert!(losses.covers_repaired() && losses.covers(99));
        losses.settle(Some(100));
        assert!(!losses.covers(99 + 64) && !losses.covers_repaired());
        losses.on_report(6, 200);
        losses.settle(None);
        assert!(!losses.covers(150));
    }

    #[test]
    fn later_losses_are_the_networks() {
        let mut losses = ReceiverDrops::default();
        losses.on_report(5, 100);
        assert!(losses.covers(99));
        assert!(!losses.covers(102) && !losses.covers(98), "what is left of the count was another's");
    }

    #[test]
    fn drop_counts_wrap_and_ignore_late_ones() {
        let mut losses = ReceiverDrops { reported_messages: u32::MAX, ..ReceiverDrops::default() };
        losses.on_report(0, 10);
        losses.on_report(u32::MAX - 3, 10);
        assert!(losses.covers(1) && !losses.covers(4));
    }

    #[test]
    fn repaired_loss_uses_up_one_drop() {
        let mut losses = ReceiverDrops::default();
        losses.on_report(1, 100);
        assert!(losses.covers_repaired() && !losses.covers_repaired());
    }
}
