//! Rounds of loss and what they delivered ("When not Probing for Bandwidth").

use super::bounds::Latest;

/// `BBRStartupFullLossCnt`.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;

/// The round since the last one that was judged.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRound {
    latest: Latest,
    ends_at: u64,
    over: bool,
    /// Loss was noticed in it (`BBR.is_loss_in_round`).
    pub(super) congested: bool,
    /// The network marked packets in it.
    pub(super) marked: bool,
    tally: Tally,
    recovery: InRecovery,
}

/// Whether fast recovery was on.
#[derive(Debug, Clone, Copy, Default)]
struct InRecovery {
    when_it_began: bool,
    now: bool,
}

/// What an interval of ACKs brought.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Bytes delivered.
    pub(super) acked: u64,
    /// Bytes lost.
    pub(super) lost: u64,
    /// ACKs that told of loss: the nearest that is known to the number of separate ranges lost.
    pub(super) events: u32,
}

impl LossRound {
    /// Loss is noticed; the first of a round begins the round (`NoteLoss`). True for that first.
    pub(super) fn note(&mut self, delivered: u64) -> bool {
        let first = !self.congested;
        if first {
            self.ends_at = delivered;
        }
        self.congested = true;
        first
    }

    /// Near the start of an ACK (`UpdateLatestDeliverySignals`).
    pub(super) fn update(&mut self, sample: Latest, prior_delivered: u64, delivered: u64) {
        self.latest.bw = self.latest.bw.max(sample.bw);
        self.latest.inflight = self.latest.inflight.max(sample.inflight);
        self.over = prior_delivered >= self.ends_at;
        if self.over {
            self.ends_at = delivered;
        }
    }

    /// Counts what the ACK in hand brought.
    pub(super) fn count(&mut self, acked: u64, lost: u64, in_recovery: bool) {
        self.tally.acked += acked;
        self.tally.lost += lost;
        self.tally.events += u32::from(lost > 0);
        self.recovery.now = in_recovery;
    }

    /// Near the end of an ACK (`AdvanceLatestDeliverySignals`): the next round begins if this one is over.
    pub(super) fn advance(&mut self, sample: Latest) {
        if self.over {
            self.latest = sample;
            self.tally = Tally::default();
            self.congested = false;
            self.marked = false;
            self.recovery.when_it_began = self.recovery.now;
        }
    }

    /// Forgets the round in hand (`ResetCongestionSignals`).
    pub(super) fn reset(&mut self) {
        self.congested = false;
        self.marked = false;
        self.latest = Latest::default();
    }

    /// The ACK in hand ends the round (`BBR.loss_round_start`).
    pub(super) fn over(&self) -> bool {
        self.over
    }

    pub(super) fn latest(&self) -> Latest {
        self.latest
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// A whole round passed in fast recovery and lost enough separate ranges to be more than a burst
    /// ("Exiting Startup Based on Packet Loss", first and third criterion).
    pub(super) fn persistent(&self) -> bool {
        self.over && self.recovery.when_it_began && self.recovery.now && self.many()
    }

    /// So far the round lost enough separate ranges to be more than a burst.
    pub(super) fn many(&self) -> bool {
        self.tally.events >= STARTUP_FULL_LOSS_COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_lasts_from_its_first_loss_to_a_packet_sent_after_it() {
        let mut round = LossRound::default();
        assert!(round.note(5000) && !round.note(6000));
        round.update(Latest { bw: 10, inflight: 3000 }, 4000, 7000);
        assert!(!round.over());
        round.advance(Latest { bw: 10, inflight: 3000 });
        round.update(Latest { bw: 8, inflight: 2000 }, 5000, 9000);
        assert!(round.over() && round.congested);
        assert_eq!((round.latest().bw, round.latest().inflight), (10, 3000), "the best of the round");
        round.advance(Latest { bw: 8, inflight: 2000 });
        assert_eq!(round.latest().bw, 8);
        assert!(!round.congested);
    }

    #[test]
    fn loss_persists_after_a_round_in_recovery_with_six_events() {
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
