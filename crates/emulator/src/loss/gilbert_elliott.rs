//! Gilbert-Elliott loss model: a channel with a good and a bad state, so that losses are bursty.
//!
//! The chain is that of E. N. Gilbert, "Capacity of a Burst-Noise Channel", Bell System Technical
//! Journal 39 (1960), with losses in the good state added by E. O. Elliott: "Estimates of Error
//! Rates for Codes on Burst-Noise Channels", Bell System Technical Journal 42 (1963). The names `p`
//! and `r` are Gilbert's. Here a step is a packet, not a bit.

use crate::probability::Probability;

/// A channel with a good and a bad state. It starts good and may change after each packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability of a change from good to bad after a packet.
    pub p: Probability,
    /// Probability of a change from bad to good after a packet. Mean length of a bad period:
    /// `1 / r`.
    pub r: Probability,
    /// Loss probability of a packet in the good state.
    pub loss_good: Probability,
    /// Loss probability of a packet in the bad state.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// Returns a channel that loses no packet in the good state and every packet in the bad state.
    pub const fn all_or_nothing(p: Probability, r: Probability) -> Self {
        Self { p, r, loss_good: Probability::ZERO, loss_bad: Probability::ONE }
    }

    /// Returns the long-term loss rate, from 0 to 1. The channel is bad for a share `p / (p + r)`
    /// of the packets.
    pub fn mean_loss(&self) -> f64 {
        let (p, r) = (self.p.as_f64(), self.r.as_f64());
        // With `p` and `r` both 0, the channel never leaves its initial good state.
        let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
        self.loss_good.as_f64() * (1.0 - bad) + self.loss_bad.as_f64() * bad
    }

    pub(super) fn loses(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { self.loss_bad.happens(draw) } else { self.loss_good.happens(draw) }
    }

    pub(super) fn next(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { !self.r.happens(draw) } else { self.p.happens(draw) }
    }
}
