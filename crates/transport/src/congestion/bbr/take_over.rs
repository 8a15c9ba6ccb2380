//! Bandwidth that another connection to the same host has left (RFC 3124). The draft has nothing
//! like it: its flows find free bandwidth by probes, each of which raises the rate by a quarter and
//! comes 2 to 3 s after the one before.

use std::time::Duration;

use super::math::{UNBOUNDED, mul_div, volume};
use super::{Bbr, State};

impl Bbr {
    /// Adds `rate` bytes per second to the model, and raises its bounds and the window in
    /// proportion. In `Startup` the rate grows faster by itself.
    pub(super) fn add_bandwidth(&mut self, rate: u64, srtt: Duration) {
        if self.state == State::Startup || self.bw == 0 {
            return;
        }
        let (before, after) = (self.bw, self.bw.saturating_add(rate));
        let raised = |bound| if bound == UNBOUNDED { bound } else { mul_div(bound, after, before) };
        self.max_bw.update(self.max_bw.max().saturating_add(rate));
        self.bounds.bw_shortterm = raised(self.bounds.bw_shortterm);
        self.bounds.inflight_shortterm = raised(self.bounds.inflight_shortterm);
        self.bounds.inflight_longterm = raised(self.bounds.inflight_longterm);
        self.bw = self.max_bw.max().min(self.bounds.bw_shortterm);
        self.cwnd = self.cwnd.saturating_add(volume(rate, srtt)).min(self.max_inflight().max(self.cwnd));
        self.set_pacing_rate();
    }
}
