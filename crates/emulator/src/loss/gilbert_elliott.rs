//! Losses in bursts: a channel that is good for a while and bad for a while.
//!
//! Owns the two states and the way between them. The chain is that of E. N. Gilbert, "Capacity of a
//! Burst-Noise Channel", Bell System Technical Journal 39 (1960), with the losses in the good state that
//! E. O. Elliott added: "Estimates of Error Rates for Codes on Burst-Noise Channels", Bell System
//! Technical Journal 42 (1963). The names `p` and `r` are Gilbert's. Here a step is a packet, not a bit.

use crate::probability::Probability;

/// A channel with a good and a bad state. The first packet finds it good; after each packet the state
/// may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Of going from good to bad after a packet.
    pub p: Probability,
    /// Of going from bad to good after a packet. The channel is bad for `1 / r` packets on average.
    pub r: Probability,
    /// Of losing a packet while the channel is good.
    pub loss_good: Probability,
    /// Of losing a packet while the channel is bad.
    pub loss_bad: Probability,
}

impl GilbertElliott {
    /// Nothing is lost while the channel is good, and everything while it is bad.
    pub const fn all_or_nothing(p: Probability, r: Probability) -> Self {
        Self { p, r, loss_good: Probability::ZERO, loss_bad: Probability::ONE }
    }

    /// The share of packets that is lost in the long run: that of the two states weighted with the
    /// share of time the channel spends in each, `r / (p + r)` and `p / (p + r)`.
    pub fn mean_loss(&self) -> f64 {
        let (p, r) = (self.p.as_f64(), self.r.as_f64());
        // A channel that never changes stays as it began.
        let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
        self.loss_good.as_f64() * (1.0 - bad) + self.loss_bad.as_f64() * bad
    }

    /// Whether a packet with this draw is lost in this state.
    pub(super) fn loses(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { self.loss_bad.happens(draw) } else { self.loss_good.happens(draw) }
    }

    /// Whether the channel is bad after a packet with this draw.
    pub(super) fn next(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { !self.r.happens(draw) } else { self.p.happens(draw) }
    }
}
