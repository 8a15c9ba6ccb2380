//! Losses in the receiver's socket. Native ACKs report how many messages the full receive buffer
//! dropped (`SO_RXQ_OVFL`). Each message is a run of coalesced datagrams with consecutive packet
//! numbers. Such losses are no sign of congestion.
//!
//! False reports would switch congestion control off. So reports excuse losses in at most
//! [`MAX_EXCUSED_ROUNDS`] round trips, and not again before [`MIN_QUIET_ROUNDS`] without a report.

/// Largest number of datagrams that GRO coalesces into one message.
const MAX_COALESCED_DATAGRAMS: u32 = 64;

/// Round trips with reports whose losses are excused. By then an honest receiver offers a window
/// that its buffer holds.
const MAX_EXCUSED_ROUNDS: u32 = 2;

/// Round trips in a row without a report after which reports excuse losses again.
const MIN_QUIET_ROUNDS: u32 = 8;

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
    /// Number of the first transmission after the present round trip.
    round_end: u64,
    /// Round trips with reports since the last [`MIN_QUIET_ROUNDS`] without one.
    reported_rounds: u32,
    /// Round trips that began since the last report.
    quiet_rounds: u32,
}

impl ReceiverDrops {
    /// Handles an ACK with the receiver's count `messages`, if it has one. `largest_acked` is the
    /// newest transmission that arrived, `next_number` the number of the next one.
    pub(crate) fn on_ack(&mut self, messages: Option<u32>, largest_acked: Option<u64>, next_number: u64) {
        if largest_acked.is_some_and(|number| number >= self.round_end) {
            self.round_end = next_number;
            self.quiet_rounds = self.quiet_rounds.saturating_add(1);
        }
        let Some(messages) = messages else { return };
        let more = messages.wrapping_sub(self.reported_messages);
        // A step of over 2^31 is a step back: this ACK was reordered.
        if more == 0 || more > u32::MAX / 2 {
            return;
        }
        self.reported_messages = messages;
        if self.quiet_rounds > MIN_QUIET_ROUNDS {
            self.reported_rounds = 0;
        }
        self.reported_rounds = self.reported_rounds.saturating_add(u32::from(self.quiet_rounds > 0));
        self.quiet_rounds = 0;
        if self.reported_rounds <= MAX_EXCUSED_ROUNDS {
            self.messages = self.messages.saturating_add(more);
            self.sent_before = next_number;
        } else {
            self.messages = 0;
        }
    }

    /// Forgets reported drops that are older than the oldest outstanding transmission, because they
    /// explain no further loss here. They hit another sender of the same receiver.
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

    /// Attributes the loss of packet `packet_number` to a reported drop; false if there is none.
    /// Call in the order of transmission. Within a message one number may be missing, because the
    /// sender skips some.
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

    fn report(losses: &mut ReceiverDrops, messages: u32, next_number: u64) {
        losses.on_ack(Some(messages), None, next_number);
    }

    #[test]
    fn drop_covers_run_of_at_most_64() {
        let mut losses = ReceiverDrops::default();
        assert!(!losses.covers(3), "nothing is reported");
        report(&mut losses, 2, 1000);
        assert!((10..74).all(|number| losses.covers(number)), "one message");
        assert!(losses.covers(74), "the second message");
        assert!(!losses.covers(80) && !losses.covers(81), "there is no third");
        report(&mut losses, 2, 1000);
        assert!(!losses.covers(90), "the same count again");
    }

    #[test]
    fn skipped_number_does_not_divide_message() {
        let mut losses = ReceiverDrops::default();
        report(&mut losses, 1, 1000);
        assert!([10, 11, 13, 14].into_iter().all(|number| losses.covers(number)));
        assert!(!losses.covers(17), "two numbers are missing");
    }

    #[test]
    fn unused_drops_belong_to_other_senders() {
        let mut losses = ReceiverDrops::default();
        report(&mut losses, 5, 100);
        losses.settle(Some(99));
        assert!(losses.covers_repaired() && losses.covers(99));
        losses.settle(Some(100));
        assert!(!losses.covers(99 + 64) && !losses.covers_repaired());
        report(&mut losses, 6, 200);
        losses.settle(None);
        assert!(!losses.covers(150));
    }

    #[test]
    fn later_losses_are_the_networks() {
        let mut losses = ReceiverDrops::default();
        report(&mut losses, 5, 100);
        assert!(losses.covers(99));
        assert!(!losses.covers(102) && !losses.covers(98), "what is left of the count was another's");
    }

    #[test]
    fn drop_counts_wrap_and_ignore_late_ones() {
        let mut losses = ReceiverDrops { reported_messages: u32::MAX, ..ReceiverDrops::default() };
        report(&mut losses, 0, 10);
        report(&mut losses, u32::MAX - 3, 10);
        assert!(losses.covers(1) && !losses.covers(4));
    }

    /// Each round trip sends ten packets, and each loses one, two apart.
    #[test]
    fn reports_excuse_losses_of_two_round_trips() {
        let mut losses = ReceiverDrops::default();
        let mut next = 0;
        let mut covers = |report: bool| {
            next += 10;
            let messages = losses.reported_messages + u32::from(report) * 1000;
            for largest_acked in [next - 10, next - 9] {
                losses.on_ack(Some(messages), Some(largest_acked), next);
            }
            losses.covers(next - 5)
        };
        let lies: Vec<bool> = (0..6).map(|_| covers(true)).collect();
        assert_eq!(lies, [true, true, false, false, false, false]);
        for pause in [7, 8] {
            assert!((0..pause).all(|_| !covers(false)));
            assert_eq!(covers(true), pause == 8, "after {pause} round trips");
        }
    }

    #[test]
    fn repaired_loss_uses_up_one_drop() {
        let mut losses = ReceiverDrops::default();
        report(&mut losses, 1, 100);
        assert!(losses.covers_repaired() && !losses.covers_repaired());
    }
}
