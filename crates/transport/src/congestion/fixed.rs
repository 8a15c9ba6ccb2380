//! Constant window: for links with a known bandwidth-delay product, and for measurements without
//! the influence of a controller.

use super::{AckEvent, CongestionEvent, Controller};

/// Constant window, in packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixed {
    packets: u64,
    mss: u64,
}

impl Fixed {
    /// Returns a window of `packets` segments of `mss` bytes, at least one: a window of 0 never
    /// sends.
    pub(crate) fn new(mss: u64, packets: u32) -> Self {
        Self { packets: u64::from(packets.max(1)), mss }
    }
}

impl Controller for Fixed {
    fn on_ack(&mut self, _ack: &AckEvent) {}

    fn on_congestion(&mut self, _event: &CongestionEvent) {}

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    fn cwnd(&self) -> u64 {
        self.packets * self.mss
    }

    fn uses_prr(&self) -> bool {
        false
    }

    fn phase(&self) -> &'static str {
        "fixed"
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cause;
    use super::super::tests::{ack, congestion, start};
    use super::*;

    #[test]
    fn events_do_not_change_window() {
        let mut fixed = Fixed::new(1464, 64);
        assert_eq!((fixed.cwnd(), fixed.ssthresh(), fixed.pacing_rate()), (64 * 1464, None, None));
        for cause in [Cause::Loss, Cause::Ecn, Cause::Timeout] {
            fixed.on_ack(&ack(start(), 14_640));
            fixed.on_congestion(&congestion(start(), cause, fixed.cwnd()));
            assert_eq!(fixed.cwnd(), 64 * 1464, "{cause:?}");
        }
        assert!(!fixed.uses_prr());
    }

    #[test]
    fn window_counts_packets_of_any_size() {
        let mut fixed = Fixed::new(1464, 10);
        fixed.on_mss(1000);
        assert_eq!(fixed.cwnd(), 10_000);
        assert_eq!(Fixed::new(1000, 0).cwnd(), 1000);
    }
}
