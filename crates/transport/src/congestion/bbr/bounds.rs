//! The bounds that loss puts on the model ("Long-term model", "Short-term model"), and their undoing.

use super::scale::{UNBOUNDED, gain};

/// `BBR.Beta`, in thousandths.
pub(super) const BETA: u64 = 700;
/// 1 - `BBR.Headroom`, in thousandths.
const BELOW_HEADROOM: u64 = 850;

/// Bounds in force; [`UNBOUNDED`] where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Bytes per second (`BBR.bw_shortterm`).
    pub(super) bw_shortterm: u64,
    /// Bytes (`BBR.inflight_shortterm`).
    pub(super) inflight_shortterm: u64,
    /// Bytes (`BBR.inflight_longterm`).
    pub(super) inflight_longterm: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bw_shortterm: UNBOUNDED, inflight_shortterm: UNBOUNDED, inflight_longterm: UNBOUNDED }
    }
}

/// What a round trip delivered at best.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latest {
    /// Bytes per second (`BBR.bw_latest`).
    pub(super) bw: u64,
    /// Bytes (`BBR.inflight_latest`).
    pub(super) inflight: u64,
}

impl Bounds {
    /// Forgets the congestion of this cycle (`ResetShortTermModel`).
    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = UNBOUNDED;
        self.inflight_shortterm = UNBOUNDED;
    }

    /// A round with congestion is over: slows down towards what it delivered, by 30 % at most
    /// (`InitLowerBounds`, `LossLowerBounds`).
    pub(super) fn lower(&mut self, latest: Latest, max_bw: u64, cwnd: u64) {
        if self.bw_shortterm == UNBOUNDED {
            self.bw_shortterm = max_bw;
        }
        if self.inflight_shortterm == UNBOUNDED {
            self.inflight_shortterm = cwnd;
        }
        self.bw_shortterm = latest.bw.max(gain(self.bw_shortterm, BETA));
        self.inflight_shortterm = latest.inflight.max(gain(self.inflight_shortterm, BETA));
    }

    /// The long-term bound less the room left to others, but at least `floor` (`InflightWithHeadroom`).
    pub(super) fn with_headroom(&self, mss: u64, floor: u64) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        gain(self.inflight_longterm, BELOW_HEADROOM)
            .min(self.inflight_longterm.saturating_sub(mss))
            .max(floor)
    }

    /// Gives back what was taken since `saved` (`HandleSpuriousLossDetection`).
    pub(super) fn restore(&mut self, saved: &Self) {
        self.bw_shortterm = self.bw_shortterm.max(saved.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(saved.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(saved.inflight_longterm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_congestion_lowers_to_what_was_delivered_but_by_three_tenths_at_most() {
        let mut bounds = Bounds::default();
        bounds.lower(Latest { bw: 9000, inflight: 100 }, 10_000, 500);
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (9000, 350));
        bounds.lower(Latest { bw: 1000, inflight: 300 }, 10_000, 500);
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (6300, 300));
        bounds.reset_short_term();
        assert_eq!(bounds, Bounds::default());
    }

    #[test]
    fn headroom_is_15_percent_or_a_segment() {
        let mut bounds = Bounds::default();
        assert_eq!(bounds.with_headroom(1000, 4000), UNBOUNDED);
        bounds.inflight_longterm = 100_000;
        assert_eq!(bounds.with_headroom(1000, 4000), 85_000);
        bounds.inflight_longterm = 6000;
        assert_eq!(bounds.with_headroom(1000, 4000), 5000);
        bounds.inflight_longterm = 3000;
        assert_eq!(bounds.with_headroom(1000, 4000), 4000);
    }

    #[test]
    fn undoing_raises_and_never_lowers() {
        let saved = Bounds { bw_shortterm: UNBOUNDED, inflight_shortterm: 50, inflight_longterm: 70 };
        let mut bounds = Bounds { bw_shortterm: 10, inflight_shortterm: 40, inflight_longterm: 90 };
        bounds.restore(&saved);
        assert_eq!(bounds, Bounds { bw_shortterm: UNBOUNDED, inflight_shortterm: 50, inflight_longterm: 90 });
    }
}
