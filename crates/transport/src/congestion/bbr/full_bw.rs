//! "Exiting Acceleration Based on Bandwidth Plateau": has faster sending ceased to give faster delivery?

use super::math::gain;

/// Growth that counts as such, in thousandths.
const GROWTH: u64 = 1250;
/// Rounds without it that make a full pipe.
const PLATEAU_ROUNDS: u8 = 3;

/// What a round said of the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The delivery rate grew by a quarter or more.
    Growing,
    /// It did not.
    Flat,
}

/// The estimator of a full pipe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullBandwidth {
    baseline: u64,
    flat_rounds: u8,
    now: bool,
    reached: bool,
    last: Option<Verdict>,
}

impl FullBandwidth {
    /// Begins to look anew, with growth counted from `baseline` (`ResetFullBW`).
    pub(super) fn reset(&mut self, baseline: u64) {
        *self = Self { baseline, flat_rounds: 0, now: false, ..*self };
    }

    /// Takes the rate at the end of a round which the application did not limit (`CheckFullBWReached`).
    pub(super) fn on_round(&mut self, delivery_rate: u64) {
        if self.now {
            return;
        }
        if delivery_rate >= gain(self.baseline, GROWTH) {
            self.reset(delivery_rate);
            self.last = Some(Verdict::Growing);
            return;
        }
        self.last = Some(Verdict::Flat);
        self.flat_rounds += 1;
        self.now = self.flat_rounds >= PLATEAU_ROUNDS;
        self.reached |= self.now;
    }

    /// A round is over of which the application's limit tells nothing.
    pub(super) fn on_limited_round(&mut self) {
        self.last = None;
    }

    /// What the last round said; `None` if it said nothing.
    pub(super) fn last(&self) -> Option<Verdict> {
        self.last
    }

    /// The pipe is full since the search began (`BBR.full_bw_now`).
    pub(super) fn now(&self) -> bool {
        self.now
    }

    /// The pipe was full once (`BBR.full_bw_reached`).
    pub(super) fn reached(&self) -> bool {
        self.reached
    }

    /// Decides from outside that the pipe is full, or that it never was.
    pub(super) fn set_reached(&mut self, reached: bool) {
        self.reached = reached;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_below_a_quarter_of_growth_fill_the_pipe() {
        let mut full = FullBandwidth::default();
        let mut after = |rate| {
            full.on_round(rate);
            full.last()
        };
        assert_eq!(after(1000), Some(Verdict::Growing));
        assert_eq!(after(1250), Some(Verdict::Growing), "a quarter is growth");
        assert_eq!(after(1561), Some(Verdict::Flat), "1.2488 of 1250");
        assert_eq!(after(1300), Some(Verdict::Flat));
        assert!(!full.now());
        full.on_limited_round();
        assert_eq!(full.last(), None);
        full.on_round(1200);
        assert!(full.now() && full.reached());
        full.reset(0);
        assert!(!full.now() && full.reached(), "a new search, an old certainty");
    }

    #[test]
    fn growth_starts_the_count_again() {
        let mut full = FullBandwidth::default();
        for rate in [1000, 1000, 1000, 1300, 1300, 1300] {
            full.on_round(rate);
        }
        assert!(!full.now());
        full.on_round(1300);
        assert!(full.now());
    }
}
