//! What a round delivered is news of the path only if more was sent. A deviation from the draft, which after a round
//! with loss outside probes lowers the bandwidth to what that round delivered.
//!
//! `ProbeBW_DOWN` sends at nine tenths of the bandwidth, `CRUISE` a little below it: the path cannot deliver more than
//! that. One loss near the end of `DOWN` made nine tenths the bandwidth of the two or three seconds of `CRUISE` that
//! follow, and each round with loss in `CRUISE` took a little more, whatever the path could bear. So a round that kept up with
//! the pace leaves the bandwidth as it is. What may be in flight is bounded all the same, as the draft has it.
//!
//! Where it errs: the pace is that of now, so a loss in the first round after `DOWN` is still held against the
//! bandwidth; and of a queue that overflows by less than a fiftieth of the rate only the bound on what is in flight
//! learns. It can be switched off in [`BbrConfig`](super::BbrConfig).

use super::bounds::Latest;
use super::scale::{PPM, mul_div};
use super::{Bbr, LOSS_THRESH};

impl Bbr {
    /// The best of a round that met loss; its bandwidth is the model's where only the pace kept it lower. Of what is
    /// paced the base loss does not arrive, and 2 % more is what a probe tolerates, too.
    pub(super) fn without_own_pace(&self, latest: Latest) -> Latest {
        let arrives = mul_div(self.pacing_rate, PPM - self.base_loss_ppm(), PPM);
        let kept_up = latest.bw >= mul_div(arrives, PPM - LOSS_THRESH, PPM);
        if self.config.discount_own_pace && kept_up {
            return Latest { bw: latest.bw.max(self.bw), ..latest };
        }
        latest
    }
}
