//! Packet-timed rounds ("`BBR.round_count`: Tracking Packet-Timed Round Trips"), and the delivery
//! and loss signals of a round ("When not Probing for Bandwidth").

use super::base_loss::Tally;
use super::bounds::Latest;

/// `BBRStartupFullLossCnt`.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;

/// Round counter. A round ends when a packet sent after its start is delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    /// Bytes delivered so far (`C.delivered`).
    pub(super) delivered: u64,
    next_round_delivered: u64,
    /// Number of rounds (`BBR.round_count`).
    pub(super) count: u64,
    /// True if the current ACK starts a round (`BBR.round_start`).
    pub(super) starts: bool,
}

impl Rounds {
    /// Processes the newest packet of an ACK (`UpdateRound`). Returns true if a round ends.
    pub(super) fn update(&mut self, prior_delivered: u64) -> bool {
        self.starts = prior_delivered >= self.next_round_delivered;
        if self.starts {
            self.restart();
            self.count += 1;
        }
        self.starts
    }

    /// Starts a round now (`StartRound`).
    pub(super) fn restart(&mut self) {
        self.next_round_delivered = self.delivered;
    }
}

/// Signals of the current round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRound {
    pub(super) latest: Latest,
    ends_at: u64,
    /// True if the current ACK ends the round (`BBR.loss_round_start`).
    pub(super) over: bool,
    /// True if loss was detected in this round (`BBR.is_loss_in_round`).
    pub(super) congested: bool,
    /// True if CE marks were reported in this round.
    pub(super) marked: bool,
    /// Totals over the ACKs of the round.
    pub(super) tally: Tally,
    /// ACKs that revealed loss: approximates the number of separate lost ranges.
    events: u32,
    recovery: InRecovery,
}

/// Fast recovery at the start of the round and now.
#[derive(Debug, Clone, Copy, Default)]
struct InRecovery {
    when_it_began: bool,
    now: bool,
}

impl LossRound {
    /// Records a loss (`NoteLoss`). The first loss in a loss round starts a new loss round, and
    /// returns true.
    pub(super) fn note(&mut self, delivered: u64) -> bool {
        let first = !self.congested;
        if first {
            self.ends_at = delivered;
        }
        self.congested = true;
        first
    }

    /// Runs near the start of ACK processing (`UpdateLatestDeliverySignals`).
    pub(super) fn update(&mut self, sample: Latest, prior_delivered: u64, delivered: u64) {
        self.latest.bw = self.latest.bw.max(sample.bw);
        self.latest.inflight = self.latest.inflight.max(sample.inflight);
        self.over = prior_delivered >= self.ends_at;
        if self.over {
            self.ends_at = delivered;
        }
    }

    /// Adds the current ACK to the totals.
    pub(super) fn count(&mut self, acked: u64, lost: u64, in_recovery: bool) {
        self.tally.add(acked, lost);
        self.events += u32::from(lost > 0);
        self.recovery.now = in_recovery;
    }

    /// Runs near the end of ACK processing (`AdvanceLatestDeliverySignals`): starts the next round
    /// if this one is over.
    pub(super) fn advance(&mut self, sample: Latest) {
        if self.over {
            self.latest = sample;
            (self.tally, self.events) = (Tally::default(), 0);
            self.congested = false;
            self.marked = false;
            self.recovery.when_it_began = self.recovery.now;
        }
    }

    /// Clears the signals of the current round (`ResetCongestionSignals`).
    pub(super) fn reset(&mut self) {
        self.congested = false;
        self.marked = false;
        self.latest = Latest::default();
    }

    /// True if a whole round in fast recovery lost several separate ranges, more than one burst
    /// ("Exiting Startup Based on Packet Loss", first and third criterion).
    pub(super) fn persistent(&self) -> bool {
        self.over && self.recovery.when_it_began && self.recovery.now && self.many()
    }

    /// True if the round has lost several separate ranges so far, more than one burst.
    pub(super) fn many(&self) -> bool {
        self.events >= STARTUP_FULL_LOSS_COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_ends_with_first_packet_sent_after_start() {
        let mut rounds = Rounds::default();
        let update = |rounds: &mut Rounds, prior, delivered| {
            rounds.delivered = delivered;
            rounds.update(prior)
        };
        assert!(update(&mut rounds, 0, 1000), "the first delivery ends round zero");
        assert!(!update(&mut rounds, 0, 2000));
        assert!(!update(&mut rounds, 999, 3000));
        assert!(update(&mut rounds, 1000, 4000), "sent when 1000 bytes had been delivered");
        rounds.delivered = 9000;
        rounds.restart();
        assert!(!update(&mut rounds, 4000, 10_000));
        assert_eq!(rounds.count, 2);
    }

    #[test]
    fn loss_round_ends_with_packet_sent_after_loss() {
        let mut round = LossRound::default();
        assert!(round.note(5000) && !round.note(6000));
        round.update(Latest { bw: 10, inflight: 3000 }, 4000, 7000);
        assert!(!round.over);
        round.advance(Latest { bw: 10, inflight: 3000 });
        round.update(Latest { bw: 8, inflight: 2000 }, 5000, 9000);
        assert!(round.over && round.congested);
        assert_eq!((round.latest.bw, round.latest.inflight), (10, 3000), "the best of the round");
        round.advance(Latest { bw: 8, inflight: 2000 });
        assert_eq!(round.latest.bw, 8);
        assert!(!round.congested);
    }

    #[test]
    fn recovery_round_with_six_losses_is_persistent() {
        for (events, expected) in [(5, false), (6, true)] {
            let mut round = LossRound::default();
            round.count(1000, 1000, true);
            round.update(Latest::default(), 0, 1000);
            assert!(!round.persistent(), "recovery had not begun when this round did");
            round.advance(Latest::default());
            for _ in 0..events {
                round.count(1000, 1000, true);
            }
            round.update(Latest::default(), 1000, 7000);
            assert_eq!(round.persistent(), expected, "{events} events");
        }
    }
}
