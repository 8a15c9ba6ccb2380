//! Windowed maximum filters: bandwidth over probing cycles, ACK aggregation over rounds.

/// Maximum over the current and the previous cycle (`BBR.max_bw_filter`, `MaxBwFilterLen` = 2).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxBwFilter {
    previous: u64,
    current: u64,
}

impl MaxBwFilter {
    pub(super) fn update(&mut self, rate: u64) {
        self.current = self.current.max(rate);
    }

    /// Ends a cycle (`AdvanceMaxBwFilter`). A cycle without samples does not count.
    pub(super) fn advance(&mut self) {
        if self.current > 0 {
            self.previous = self.current;
            self.current = 0;
        }
    }

    pub(super) fn max(&self) -> u64 {
        self.previous.max(self.current)
    }
}

/// Exact maximum over up to ten rounds: one value per round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundMaxFilter {
    slots: [u64; Self::ROUNDS],
    round: u64,
}

impl RoundMaxFilter {
    /// `BBR.ExtraAckedFilterLen`.
    pub(super) const ROUNDS: usize = 10;

    pub(super) fn update(&mut self, value: u64, round: u64) {
        let passed = round.saturating_sub(self.round).min(Self::ROUNDS as u64);
        for step in 1..=passed {
            self.slots[Self::slot(self.round + step)] = 0;
        }
        // After more rounds than slots, every slot is empty.
        self.round = round;
        let slot = &mut self.slots[Self::slot(round)];
        *slot = (*slot).max(value);
    }

    pub(super) fn max(&self, window: usize) -> u64 {
        let oldest = self.round.saturating_sub(window.clamp(1, Self::ROUNDS) as u64 - 1);
        (oldest..=self.round).map(|round| self.slots[Self::slot(round)]).max().unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder below ten")]
    fn slot(round: u64) -> usize {
        (round % Self::ROUNDS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_expires_after_two_cycles_with_samples() {
        let mut filter = MaxBwFilter::default();
        filter.update(100);
        filter.advance();
        filter.update(60);
        assert_eq!(filter.max(), 100, "seen in the previous cycle");
        filter.advance();
        assert_eq!(filter.max(), 60);
        filter.advance();
        filter.advance();
        assert_eq!(filter.max(), 60, "cycles without a sample");
    }

    #[test]
    fn aggregation_is_maximum_of_last_rounds() {
        let mut filter = RoundMaxFilter::default();
        filter.update(50, 1);
        filter.update(20, 5);
        assert_eq!((filter.max(10), filter.max(4), filter.max(1)), (50, 20, 20));
        filter.update(10, 11);
        assert_eq!(filter.max(10), 20, "round 1 is eleven rounds back");
        filter.update(1, 500);
        assert_eq!(filter.max(10), 1);
    }
}
