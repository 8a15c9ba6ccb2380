//! "Exiting Acceleration Based on Bandwidth Plateau": detects that the delivery rate no longer
//! grows.

use super::math::gain;

/// Smallest significant growth per round, in thousandths.
const GROWTH: u64 = 1250;
/// Rounds without significant growth that indicate a full pipe.
const PLATEAU_ROUNDS: u8 = 3;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullBandwidth {
    baseline: u64,
    flat_rounds: u8,
    /// True if the current search found a full pipe (`BBR.full_bw_now`).
    pub(super) now: bool,
    /// True if the pipe has been full once (`BBR.full_bw_reached`); also set by loss-based exits
    /// and their undo.
    pub(super) reached: bool,
    /// True if the delivery rate grew by 25 % or more in the last round; `None` if that was
    /// app-limited.
    pub(super) grew: Option<bool>,
}

impl FullBandwidth {
    /// Restarts the search, with growth relative to `baseline` (`ResetFullBW`).
    pub(super) fn reset(&mut self, baseline: u64) {
        *self = Self { baseline, flat_rounds: 0, now: false, ..*self };
    }

    /// Processes the delivery rate of a round that was not app-limited (`CheckFullBWReached`).
    pub(super) fn on_round(&mut self, delivery_rate: u64) {
        if self.now {
            return;
        }
        if delivery_rate >= gain(self.baseline, GROWTH) {
            self.reset(delivery_rate);
            self.grew = Some(true);
            return;
        }
        self.grew = Some(false);
        self.flat_rounds += 1;
        self.now = self.flat_rounds >= PLATEAU_ROUNDS;
        self.reached |= self.now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_flat_rounds_fill_the_pipe() {
        let mut full = FullBandwidth::default();
        let mut after = |rate| {
            full.on_round(rate);
            full.grew
        };
        assert_eq!(after(1000), Some(true));
        assert_eq!(after(1250), Some(true), "a quarter is growth");
        assert_eq!(after(1561), Some(false), "1.2488 of 1250");
        assert_eq!(after(1300), Some(false));
        assert!(!full.now);
        full.grew = None;
        assert_eq!(full.grew, None);
        full.on_round(1200);
        assert!(full.now && full.reached);
        full.reset(0);
        assert!(!full.now && full.reached, "a new search, an old certainty");
    }

    #[test]
    fn growth_restarts_flat_round_count() {
        let mut full = FullBandwidth::default();
        for rate in [1000, 1000, 1000, 1300, 1300, 1300] {
            full.on_round(rate);
        }
        assert!(!full.now);
        full.on_round(1300);
        assert!(full.now);
    }
}
