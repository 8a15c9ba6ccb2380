//! Packet-timed round trips ("`BBR.round_count`: Tracking Packet-Timed Round Trips").

/// Counts rounds: one ends when something is delivered that was sent after it began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    next_round_delivered: u64,
    count: u64,
    starts: bool,
}

impl Rounds {
    /// Takes the newest packet of an ACK; `true` if a round ends with it (`UpdateRound`).
    pub(super) fn update(&mut self, prior_delivered: u64, delivered: u64) -> bool {
        self.starts = prior_delivered >= self.next_round_delivered;
        if self.starts {
            self.restart(delivered);
            self.count += 1;
        }
        self.starts
    }

    /// Begins a round now (`StartRound`).
    pub(super) fn restart(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// Rounds so far (`BBR.round_count`).
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The ACK in hand began a round (`BBR.round_start`).
    pub(super) fn starts(&self) -> bool {
        self.starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_the_first_packet_sent_after_it_began() {
        let mut rounds = Rounds::default();
        assert!(rounds.update(0, 1000), "the first delivery ends round zero");
        assert!(!rounds.update(0, 2000));
        assert!(!rounds.update(999, 3000));
        assert!(rounds.update(1000, 4000), "sent when 1000 bytes had been delivered");
        rounds.restart(9000);
        assert!(!rounds.update(4000, 10_000));
        assert_eq!(rounds.count(), 2);
    }
}
