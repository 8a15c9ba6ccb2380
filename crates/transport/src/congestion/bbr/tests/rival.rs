//! Competing CUBIC flow (RFC 9438), minimal: without pacing and `HyStart`.

use std::time::{Duration, Instant};

use crate::congestion::{AckEvent, Cause, CongestionEvent, Controller};

#[derive(Debug)]
pub(super) struct PlainCubic {
    mss: f64,
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    w_est: f64,
    epoch: Option<Instant>,
}

impl PlainCubic {
    pub(super) fn new(mss: f64) -> Self {
        Self { mss, cwnd: 10.0, ssthresh: f64::MAX, w_max: 0.0, w_est: 0.0, epoch: None }
    }

    fn target(&self, elapsed: Duration) -> f64 {
        let k = ((self.w_max - self.w_max * 0.7) / 0.4).max(0.0).cbrt();
        0.4 * (elapsed.as_secs_f64() - k).powi(3) + self.w_max
    }
}

impl Controller for PlainCubic {
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.in_recovery() || !ack.cwnd_limited {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd += 1.0;
            return;
        }
        let epoch = *self.epoch.get_or_insert(ack.now);
        let elapsed = ack.now - epoch;
        self.w_est += 3.0 * 0.3 / 1.7 / self.cwnd;
        let target = self.target(elapsed + ack.srtt).clamp(self.cwnd, self.cwnd * 1.5);
        self.cwnd = (self.cwnd + (target - self.cwnd) / self.cwnd).max(self.w_est);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.w_max = if self.cwnd < self.w_max { self.cwnd * 0.85 } else { self.cwnd };
        self.ssthresh = (self.cwnd * 0.7).max(2.0);
        self.cwnd = if event.cause == Cause::Timeout { 1.0 } else { self.ssthresh };
        self.w_est = self.ssthresh;
        self.epoch = None;
    }

    fn on_mss(&mut self, _mss: u64) {}

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of bytes")]
    fn cwnd(&self) -> u64 {
        (self.cwnd * self.mss) as u64
    }

    fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow_start" } else { "congestion_avoidance" }
    }
}
