//! CUBIC (RFC 9438): after congestion, the window follows a cubic curve to its previous size, stays
//! near it, then probes beyond. It grows at least as fast as Reno. Slow start with `HyStart++` (RFC
//! 9406).
//!
//! Internal units are segments, as in the RFC; the interface uses bytes.

use std::time::{Duration, Instant};

use super::hystart::{HyStart, Step};
use super::{AckEvent, Cause, CongestionEvent, Controller, slow_start_limit, volume};

/// Steepness of the curve, segments per cubic second (RFC 9438, section 5.1).
const C: f64 = 0.4;

/// Multiplicative decrease factor (section 4.6).
const BETA: f64 = 0.7;

/// Growth of the Reno-friendly estimate up to the previous window, segments per RTT. With [`BETA`]
/// it averages Reno's throughput (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Upper limit of the target, in windows (section 4.2).
const TARGET_LIMIT: f64 = 1.5;

/// Smallest slow-start threshold, segments (section 4.6).
const MIN_SSTHRESH: f64 = 2.0;

#[derive(Debug, Clone)]
pub(crate) struct Cubic {
    mss: u64,
    /// Window after a timeout, packets.
    pub(super) loss_window: u32,
    /// Exit of the first slow start when the RTT rises; `None`: at congestion only.
    pub(super) hystart: Option<HyStart>,
    paced: bool,
    window: Window,
    /// Cause of the current recovery. The window does not grow during recovery from a loss; after a
    /// timeout it grows in slow start.
    episode: Option<Cause>,
    /// True from a retransmission timeout until the next delivery.
    backed_off: bool,
    /// Time of the last event; used to exclude idle time from the epoch.
    accounted: Option<Instant>,
    /// State before the last episode, while it can be undone (section 4.9).
    undo: Option<Window>,
}

/// Window state, in segments.
#[derive(Debug, Clone, Copy)]
struct Window {
    cwnd: f64,
    ssthresh: Option<f64>,
    /// `cwnd` when `ssthresh` was last set.
    cwnd_prior: f64,
    /// Plateau of the curve. `None`: the window at the start of congestion avoidance (sections 4.8
    /// and 4.10).
    w_max: Option<f64>,
    epoch: Option<Epoch>,
}

/// Congestion avoidance epoch: one cubic curve.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// `t_epoch`, plus the time in which the sender was not cwnd-limited.
    start: Instant,
    w_max: f64,
    /// Time until the curve reaches `w_max`, seconds.
    k: f64,
    /// Reno's window estimate.
    w_est: f64,
}

impl Epoch {
    /// Returns the curve from `cwnd` to `w_max`, or upwards from `cwnd` if it is not below `w_max`.
    fn new(start: Instant, cwnd: f64, w_max: Option<f64>) -> Self {
        let w_max = w_max.unwrap_or(cwnd).max(cwnd);
        Self { start, w_max, k: ((w_max - cwnd) / C).cbrt(), w_est: cwnd }
    }

    /// Returns `W_cubic` at `since_start`, segments (section 4.2, figure 1).
    fn w_cubic(&self, since_start: Duration) -> f64 {
        let from_plateau = since_start.as_secs_f64() - self.k;
        C * from_plateau * from_plateau * from_plateau + self.w_max
    }
}

impl Cubic {
    /// Starts in slow start with `initial_window_packets` segments of `mss` bytes (at least one).
    /// After a timeout the window is one segment.
    pub(crate) fn new(mss: u64, initial_window_packets: u32, paced: bool) -> Self {
        let cwnd = f64::from(initial_window_packets.max(1));
        Self {
            mss,
            loss_window: 1,
            hystart: Some(HyStart::new(paced)),
            paced,
            window: Window { cwnd, ssthresh: None, cwnd_prior: cwnd, w_max: None, epoch: None },
            episode: None,
            backed_off: false,
            accounted: None,
            undo: None,
        }
    }

    fn in_slow_start(&self) -> bool {
        self.window.ssthresh.is_none_or(|ssthresh| self.window.cwnd < ssthresh)
    }

    fn slow_start(&mut self, ack: &AckEvent) {
        let step = match &mut self.hystart {
            Some(hystart) if self.window.ssthresh.is_none() => hystart.on_ack(ack, self.mss),
            _ => Step::Grow(ack.acked.min(slow_start_limit(self.paced, self.episode, self.mss))),
        };
        match step {
            Step::Exit => {
                self.window.ssthresh = Some(self.window.cwnd);
                self.window.cwnd_prior = self.window.cwnd;
            }
            Step::Grow(bytes) if ack.cwnd_limited => {
                let opened = self.window.cwnd + self.segments(bytes);
                self.window.cwnd = opened.min(self.window.ssthresh.unwrap_or(f64::INFINITY));
            }
            Step::Grow(_) => {}
        }
    }

    fn congestion_avoidance(&mut self, ack: &AckEvent) {
        let acked = self.segments(ack.acked);
        let Window { cwnd, cwnd_prior, w_max, .. } = self.window;
        let epoch = self.window.epoch.get_or_insert_with(|| Epoch::new(ack.now, cwnd, w_max));
        self.window.w_max = Some(epoch.w_max);

        let alpha = if epoch.w_est >= cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * acked / cwnd;
        let elapsed = ack.now.saturating_duration_since(epoch.start);
        self.window.cwnd = if epoch.w_cubic(elapsed) < epoch.w_est {
            cwnd.max(epoch.w_est)
        } else {
            let target = epoch.w_cubic(elapsed + ack.srtt).clamp(cwnd, TARGET_LIMIT * cwnd);
            // Scaled by the acknowledged share of the window: reaches the target in one RTT.
            cwnd + (target - cwnd) * (acked / cwnd).min(1.0)
        };
    }

    /// Excludes the time since the last event from the epoch (section 5.8).
    fn pause_epoch(&mut self, since_last_event: Duration) {
        if let Some(epoch) = &mut self.window.epoch {
            epoch.start += since_last_event;
        }
    }

    /// Records an event at `now` and returns the time since the previous event.
    fn account(&mut self, now: Instant) -> Duration {
        let before = self.accounted.replace(now).unwrap_or(now);
        now.saturating_duration_since(before)
    }

    /// Returns the plateau of the next curve. Fast convergence (section 4.7): lower than `cwnd` if
    /// the loss came before the window reached the previous plateau, which frees capacity for other
    /// flows.
    fn next_w_max(&self) -> f64 {
        let cwnd = self.window.cwnd;
        let yields = self.window.w_max.is_some_and(|w_max| cwnd < w_max);
        if yields { cwnd * f64::midpoint(1.0, BETA) } else { cwnd }
    }

    #[expect(clippy::cast_precision_loss, reason = "windows are far below 2^53 bytes")]
    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss as f64
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are positive and far below 2^53 bytes"
    )]
    fn bytes(&self, segments: f64) -> u64 {
        (segments * self.mss as f64).round() as u64
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64, _app_limited: bool) {
        if in_flight == bytes {
            let idle = self.account(now);
            self.pause_epoch(idle);
        }
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let since_last_event = self.account(ack.now);
        if !ack.cwnd_limited {
            self.pause_epoch(since_last_event);
        }
        if ack.acked > 0 {
            self.backed_off = false;
        }
        self.episode = ack.episode;
        if ack.episode.is_none() {
            // The ACK that ends an episode still names it, so that it can be undone until then.
            self.undo = None;
        }
        if ack.in_recovery() {
            return;
        }
        if self.in_slow_start() {
            self.slow_start(ack);
        } else if ack.cwnd_limited {
            self.congestion_avoidance(ack);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        // RFC 5681, section 3.1: ssthresh is unchanged if a retransmission times out again.
        let repeated = event.cause == Cause::Timeout && self.backed_off;
        if !repeated {
            // A CE mark is never spurious. Its episode cannot be undone, nor can the one that it
            // ends.
            self.undo = (event.cause != Cause::Ecn).then_some(self.window);
            self.window.cwnd_prior = self.window.cwnd;
            self.window.ssthresh = Some((self.segments(event.flight_size) * BETA).max(MIN_SSTHRESH));
        }
        match event.cause {
            Cause::Timeout => {
                self.window.cwnd = f64::from(self.loss_window);
                self.window.w_max = None;
                self.backed_off = true;
                self.episode = Some(Cause::Timeout);
            }
            Cause::Loss | Cause::Ecn => {
                self.window.w_max = Some(self.next_w_max());
                self.window.cwnd = self.window.cwnd.min(self.window.ssthresh.unwrap_or(f64::INFINITY));
                if event.cause == Cause::Loss {
                    self.episode = Some(Cause::Loss);
                }
            }
        }
        self.window.epoch = None;
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some(before) = self.undo.take() {
            self.window = Window { cwnd: self.window.cwnd.max(before.cwnd), ..before };
            self.episode = None;
            self.backed_off = false;
        }
    }

    fn reopen_from(&mut self, cwnd: u64) {
        let cwnd = self.segments(cwnd).max(1.0);
        let window = &mut self.window;
        if cwnd < window.cwnd {
            window.ssthresh = window.ssthresh.map(|ssthresh| ssthresh.max(window.cwnd));
            window.cwnd = cwnd;
        }
    }

    fn take_over(&mut self, rate: u64, srtt: Duration) {
        // Slow start finds the rate by itself.
        if !self.in_slow_start() {
            let cwnd = self.window.cwnd + self.segments(volume(rate, srtt));
            let cwnd_prior = self.window.cwnd_prior.max(cwnd);
            self.window = Window { cwnd, ssthresh: Some(cwnd), cwnd_prior, w_max: None, epoch: None };
            self.undo = None;
        }
    }

    fn on_mss(&mut self, mss: u64) {
        let scale = self.segments(mss).recip();
        let window = &mut self.window;
        window.cwnd = (window.cwnd * scale).max(1.0);
        window.cwnd_prior *= scale;
        window.ssthresh = window.ssthresh.map(|ssthresh| (ssthresh * scale).max(MIN_SSTHRESH));
        window.w_max = window.w_max.map(|w_max| w_max * scale);
        // The shape of the curve depends on the segment size, so restart it at the current window.
        window.epoch = None;
        self.undo = None;
        self.mss = mss;
    }

    fn cwnd(&self) -> u64 {
        self.bytes(self.window.cwnd)
    }

    fn ssthresh(&self) -> Option<u64> {
        self.window.ssthresh.map(|ssthresh| self.bytes(ssthresh))
    }

    fn lacks_rtt_samples(&self) -> bool {
        self.window.ssthresh.is_none() && self.hystart.as_ref().is_some_and(HyStart::lacks_samples)
    }

    fn phase(&self) -> &'static str {
        let first_slow_start = self.window.ssthresh.is_none();
        if self.episode == Some(Cause::Loss) {
            "recovery"
        } else if first_slow_start && self.hystart.as_ref().is_some_and(HyStart::is_conservative) {
            "conservative_slow_start"
        } else if self.in_slow_start() {
            "slow_start"
        } else {
            "congestion_avoidance"
        }
    }
}

#[cfg(test)]
mod tests;
