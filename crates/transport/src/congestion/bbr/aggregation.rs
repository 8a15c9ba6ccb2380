//! ACK aggregation (`BBR.extra_acked`): bytes acknowledged beyond the estimated bandwidth.

use std::time::{Duration, Instant};

use super::math::volume;
use super::max_filter::RoundMaxFilter;

/// Estimator of aggregation in the path and at the receiver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExtraAcked {
    interval_start: Option<Instant>,
    delivered: u64,
    filter: RoundMaxFilter,
    /// Time that the newest ACK took on its way back beyond the fastest one.
    pub(super) way_back: Duration,
}

impl ExtraAcked {
    /// Restarts the interval after an idle period, which must not count as expected delivery.
    pub(super) fn restart(&mut self, now: Instant) {
        self.interval_start = Some(now);
        self.delivered = 0;
    }

    /// Adds an ACK (`UpdateACKAggregation`). The surplus is capped at `cwnd`, the most the network
    /// can hold.
    pub(super) fn on_ack(&mut self, now: Instant, acked: u64, bw: u64, cwnd: u64, round: u64) {
        let start = self.interval_start.unwrap_or(now);
        let mut expected = volume(bw, now.saturating_duration_since(start));
        if self.delivered <= expected || self.interval_start.is_none() {
            self.restart(now);
            expected = 0;
        }
        self.delivered += acked;
        self.filter.update(self.delivered.saturating_sub(expected).min(cwnd), round);
    }

    /// Returns the maximum surplus over ten rounds, in bytes. Until the pipe is full, over one
    /// round, because early bandwidth estimates are too low.
    pub(super) fn bytes(&self, full_bw_reached: bool) -> u64 {
        self.filter.max(if full_bw_reached { RoundMaxFilter::ROUNDS } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::bbr::tests::origin;

    #[test]
    fn ack_burst_counts_excess_over_bandwidth() {
        let mut extra = ExtraAcked::default();
        let start = origin();
        // 1 MB/s: an ACK of 1000 bytes each millisecond, then 10 ms without ACKs, then 10,000 bytes
        // at once.
        for tick in 0..50 {
            extra.on_ack(start + Duration::from_millis(tick), 1000, 1_000_000, 100_000, 1);
        }
        assert_eq!(extra.bytes(true), 1000);
        extra.on_ack(start + Duration::from_millis(60), 10_000, 1_000_000, 100_000, 2);
        assert_eq!(extra.bytes(true), 10_000);
        extra.on_ack(start + Duration::from_millis(61), 8000, 1_000_000, 100_000, 2);
        assert_eq!(extra.bytes(true), 17_000, "18,000 within 1 ms, which is worth 1000");
        extra.on_ack(start + Duration::from_millis(500), 1000, 1_000_000, 100_000, 3);
        assert_eq!((extra.bytes(false), extra.bytes(true)), (1000, 17_000));
        extra.on_ack(start + Duration::from_millis(500), 90_000, 1_000_000, 20_000, 4);
        assert_eq!(extra.bytes(true), 20_000, "never beyond the window");
    }
}
