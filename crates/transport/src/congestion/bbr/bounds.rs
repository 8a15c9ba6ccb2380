//! Bounds that loss sets on the model ("Long-term model", "Short-term model"), and their undo after
//! a spurious loss.
//!
//! Deviation, switched by `skip_pacing_limited` of [`BbrConfig`](super::BbrConfig): a round that
//! delivered as fast as it was paced does not lower the bandwidth. The draft lowers the bandwidth
//! after a lossy round outside probes to the rate that this round delivered. But `ProbeBW_DOWN`
//! paces at 0.9 of the bandwidth and `CRUISE` slightly below it, so the path cannot deliver more.
//! One loss near the end of `DOWN` thus cut the bandwidth to 0.9 for the 2 to 3 s of `CRUISE`, and
//! every lossy round of `CRUISE` cut it further, whatever the capacity. The bound on inflight
//! follows the draft.
//!
//! Deviation, switched by `discount_down_gain`: in `ProbeBW_DOWN`, the delivered rate and volume
//! are divided by the pacing gain of 0.9 before they become bounds. The draft means loss of X %
//! to lower the rate by X % ("Design Considerations for Choosing Constant Parameters").
//! Its pseudocode lowers the rate by 10 % more in each lossy round of `ProbeBW_DOWN`: such a round
//! delivers at most 0.9 of the bandwidth, that becomes the bandwidth, and the next round is paced
//! at 0.9 of it. Beside a flow that keeps the queue full, `ProbeBW_DOWN` lasts until the next
//! probe.
//!
//! Known errors: the comparison uses the current pacing rate, so a loss in the first round after
//! `DOWN` still lowers the bandwidth. A queue that overflows by less than 2 % of the rate lowers
//! inflight only.

use super::control::DOWN_PACING_GAIN;
use super::math::{PPM, UNBOUNDED, gain, mul_div};
use super::{Bbr, LOSS_THRESH, State};

/// `BBR.Beta`, in thousandths.
pub(super) const BETA: u64 = 700;
/// 1 - `BBR.Headroom`, in thousandths.
const BELOW_HEADROOM: u64 = 850;

/// Current bounds; [`UNBOUNDED`] if unset.
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

/// Largest delivery rate, and largest number of bytes delivered, of the samples of a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latest {
    /// Bytes per second (`BBR.bw_latest`).
    pub(super) bw: u64,
    /// Bytes (`BBR.inflight_latest`).
    pub(super) inflight: u64,
}

impl Bounds {
    /// Clears the short-term bounds at the end of a cycle (`ResetShortTermModel`).
    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = UNBOUNDED;
        self.inflight_shortterm = UNBOUNDED;
    }

    /// Lowers the short-term bounds after a congested round to the amount delivered, by at most 30
    /// % (`InitLowerBounds`, `LossLowerBounds`).
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

    /// Returns the long-term bound minus the headroom for other flows, at least `floor`
    /// (`InflightWithHeadroom`).
    pub(super) fn with_headroom(&self, mss: u64, floor: u64) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        gain(self.inflight_longterm, BELOW_HEADROOM)
            .min(self.inflight_longterm.saturating_sub(mss))
            .max(floor)
    }

    /// Raises the bounds to their `saved` values (`HandleSpuriousLossDetection`).
    pub(super) fn restore(&mut self, saved: &Self) {
        self.bw_shortterm = self.bw_shortterm.max(saved.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(saved.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(saved.inflight_longterm);
    }
}

impl Bbr {
    /// Replaces the bandwidth of a lossy round by the model's if pacing, not the path, limited the
    /// round. Allows for the base loss and for 2 % more, the loss that a probe tolerates.
    pub(super) fn discount_pacing_limited(&self, latest: Latest) -> Latest {
        let arrives = mul_div(self.pacing_rate, PPM - self.base_loss_ppm(), PPM);
        let kept_up = latest.bw >= mul_div(arrives, PPM - LOSS_THRESH, PPM);
        if self.config.skip_pacing_limited && kept_up {
            return Latest { bw: latest.bw.max(self.bw), ..latest };
        }
        latest
    }

    /// Divides the signals of a lossy round of `ProbeBW_DOWN` by its pacing gain. This raises them
    /// to the current bandwidth and window at most.
    pub(super) fn discount_down_gain(&self, latest: Latest) -> Latest {
        if !self.config.discount_down_gain || self.state != State::ProbeBwDown {
            return latest;
        }
        let at_full_pace = |delivered| mul_div(delivered, 1000, DOWN_PACING_GAIN);
        let window = self.bounds.inflight_shortterm.min(self.cwnd);
        Latest {
            bw: at_full_pace(latest.bw).min(self.bw).max(latest.bw),
            inflight: at_full_pace(latest.inflight).min(window).max(latest.inflight),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congested_round_lowers_bounds_by_30_percent_limit() {
        let mut bounds = Bounds::default();
        bounds.lower(Latest { bw: 9000, inflight: 100 }, 10_000, 500);
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (9000, 350));
        bounds.lower(Latest { bw: 1000, inflight: 300 }, 10_000, 500);
        assert_eq!((bounds.bw_shortterm, bounds.inflight_shortterm), (6300, 300));
        bounds.reset_short_term();
        assert_eq!(bounds, Bounds::default());
    }

    #[test]
    fn headroom_is_15_percent_or_one_segment() {
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
    fn restore_never_lowers_bounds() {
        let saved = Bounds { bw_shortterm: UNBOUNDED, inflight_shortterm: 50, inflight_longterm: 70 };
        let mut bounds = Bounds { bw_shortterm: 10, inflight_shortterm: 40, inflight_longterm: 90 };
        bounds.restore(&saved);
        assert_eq!(bounds, Bounds { bw_shortterm: UNBOUNDED, inflight_shortterm: 50, inflight_longterm: 90 });
    }
}
