//! Gilbert-Elliott loss model: loss in bursts, by a channel with a good and a bad state.
//!
//! The chain is that of E. N. Gilbert, "Capacity of a Burst-Noise Channel", Bell System Technical
//! Journal 39 (1960), with losses in the good state added by E. O. Elliott: "Estimates of Error
//! Rates for Codes on Burst-Noise Channels", Bell System Technical Journal 42 (1963). The names `p`
//! and `r` are Gilbert's. Here a step is a packet, not a bit.

use crate::probability::Probability;

/// A channel with a good and a bad state. It starts good and may change state after each packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability of the change from good to bad after a packet.
    pub p: Probability,
    /// Probability of the change from bad to good after a packet. The channel is bad for `1 / r`
    /// packets on average.
    pub r: Probability,
    /// Probability of loss while the channel is good.
    pub loss_good: Probability,
    /// Probability of loss while the channel is bad.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// A channel that loses no packet while it is good and all while it is bad.
    pub const fn all_or_nothing(p: Probability, r: Probability) -> Self {
        Self { p, r, loss_good: Probability::ZERO, loss_bad: Probability::ONE }
    }

    /// The share of packets lost in the long run: the loss of each state weighted with the share of
    /// time in it, `r / (p + r)` and `p / (p + r)`.
    pub fn mean_loss(&self) -> f64 {
        let (p, r) = (self.p.as_f64(), self.r.as_f64());
        // A channel that never changes stays good.
        let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
        self.loss_good.as_f64() * (1.0 - bad) + self.loss_bad.as_f64() * bad
    }

    /// Returns whether a packet with this draw is lost in this state.
    pub(super) fn loses(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { self.loss_bad.happens(draw) } else { self.loss_good.happens(draw) }
    }

    /// Returns whether the channel is bad after a packet with this draw.
    pub(super) fn next(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { !self.r.happens(draw) } else { self.p.happens(draw) }
    }
}
