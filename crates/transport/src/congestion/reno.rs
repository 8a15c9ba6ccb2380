//! Reno (RFC 5681) with appropriate byte counting (RFC 3465): slow start, congestion avoidance, and
//! half of the flight after congestion. Proportional rate reduction (RFC 9937) limits sending
//! during recovery.

use std::time::{Duration, Instant};

use super::{AckEvent, Cause, CongestionEvent, Controller, slow_start_limit, volume};

#[derive(Debug, Clone)]
pub(crate) struct Reno {
    mss: u64,
    /// Window after a timeout, packets.
    pub(super) loss_window: u32,
    pub(super) paced: bool,
    window: Window,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    bytes_acked: u64,
    /// Cause of the current recovery. The window does not grow during recovery from a loss; after a
    /// timeout it does.
    episode: Option<Cause>,
    /// True from a retransmission timeout until the next delivery.
    backed_off: bool,
    /// State before the last episode, while it can be undone.
    undo: Option<Window>,
}

/// Window state, in bytes.
#[derive(Debug, Clone, Copy)]
struct Window {
    cwnd: u64,
    ssthresh: Option<u64>,
}

impl Reno {
    /// Starts in slow start with `initial_window_packets` segments of `mss` bytes (at least one).
    /// Without pacing; after a timeout the window is one segment.
    pub(crate) fn new(mss: u64, initial_window_packets: u32) -> Self {
        let cwnd = u64::from(initial_window_packets.max(1)) * mss;
        let window = Window { cwnd, ssthresh: None };
        Self {
            mss,
            loss_window: 1,
            paced: false,
            window,
            bytes_acked: 0,
            episode: None,
            backed_off: false,
            undo: None,
        }
    }

    fn in_slow_start(&self) -> bool {
        self.window.ssthresh.is_none_or(|ssthresh| self.window.cwnd < ssthresh)
    }

    fn slow_start(&mut self, acked: u64) {
        let limit = slow_start_limit(self.paced, self.episode, self.mss);
        let opened = self.window.cwnd + acked.min(limit);
        self.window.cwnd = opened.min(self.window.ssthresh.unwrap_or(u64::MAX));
    }

    /// Grows by one segment for each window of acknowledged bytes (RFC 3465, section 2.1). The
    /// window counts without its fraction of a segment, which is never in flight and would slow the
    /// growth of a small window by 10 %.
    fn congestion_avoidance(&mut self, acked: u64) {
        self.bytes_acked += acked;
        loop {
            let window = self.window.cwnd - self.window.cwnd % self.mss;
            if self.bytes_acked < window {
                return;
            }
            self.bytes_acked -= window;
            self.window.cwnd += self.mss;
        }
    }
}

impl Controller for Reno {
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.acked > 0 {
            self.backed_off = false;
        }
        self.episode = ack.episode;
        if ack.episode.is_none() {
            // The ACK that ends an episode still names it, so that it can be undone until then.
            self.undo = None;
        }
        if ack.in_recovery() || !ack.cwnd_limited {
            return;
        }
        if self.in_slow_start() {
            self.slow_start(ack.acked);
        } else {
            self.congestion_avoidance(ack.acked);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.bytes_acked = 0;
        // RFC 5681, section 3.1: ssthresh is unchanged if a retransmission times out again.
        let repeated = event.cause == Cause::Timeout && self.backed_off;
        if !repeated {
            // A CE mark is never spurious. Its episode cannot be undone, nor can the one that it
            // ends.
            self.undo = (event.cause != Cause::Ecn).then_some(self.window);
            self.window.ssthresh = Some((event.flight_size / 2).max(2 * self.mss));
        }
        match event.cause {
            Cause::Timeout => {
                self.window.cwnd = u64::from(self.loss_window) * self.mss;
                self.backed_off = true;
                self.episode = Some(Cause::Timeout);
            }
            Cause::Loss | Cause::Ecn => {
                self.window.cwnd = self.window.cwnd.min(self.window.ssthresh.unwrap_or(u64::MAX));
                if event.cause == Cause::Loss {
                    self.episode = Some(Cause::Loss);
                }
            }
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some(before) = self.undo.take() {
            self.window = Window { cwnd: self.window.cwnd.max(before.cwnd), ..before };
            self.episode = None;
            self.backed_off = false;
        }
    }

    fn reopen_from(&mut self, cwnd: u64) {
        let Window { cwnd: back, ssthresh } = self.window;
        if cwnd < back {
            let ssthresh = ssthresh.map(|ssthresh| ssthresh.max(back));
            self.window = Window { cwnd: cwnd.max(self.mss), ssthresh };
        }
    }

    fn take_over(&mut self, rate: u64, srtt: Duration) {
        // Slow start finds the rate by itself.
        if !self.in_slow_start() {
            self.window.cwnd += volume(rate, srtt);
            self.window.ssthresh = Some(self.window.cwnd);
            self.undo = None;
        }
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss;
        self.window.cwnd = self.window.cwnd.max(mss);
    }

    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> Option<u64> {
        self.window.ssthresh
    }

    fn phase(&self) -> &'static str {
        if self.episode == Some(Cause::Loss) {
            "recovery"
        } else if self.in_slow_start() {
            "slow_start"
        } else {
            "congestion_avoidance"
        }
    }
}

#[cfg(test)]
mod tests;
