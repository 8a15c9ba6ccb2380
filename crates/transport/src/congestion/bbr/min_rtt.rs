//! "`BBR.min_rtt` Min Filter": minimum RTT, and the schedule of `ProbeRTT`.

use std::time::{Duration, Instant};

/// `BBR.MinRTTFilterLen`.
const FILTER_LEN: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// A sample confirms the minimum RTT if it exceeds the minimum by at most 1/64.
const CONFIRM_DIVISOR: u32 = 64;

/// Two minimum filters: over 10 s for the model, over 5 s for the schedule of `ProbeRTT`.
///
/// Deviation. In the draft only a *smaller* sample postpones `ProbeRTT`, so a flow on an empty path
/// halves its window every 5 s to measure a known value. Here a sample within 1/64 of the minimum
/// confirms it and renews both windows. A path with a standing queue gives no such samples, so
/// `ProbeRTT` stays on schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinRtt {
    min: Option<Sample>,
    probe: Option<Sample>,
    /// True if a probe was due at the last update (`BBR.probe_rtt_expired`).
    pub(super) probe_due: bool,
    confirm: bool,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    rtt: Duration,
    at: Instant,
}

impl MinRtt {
    /// Returns an empty filter. With `confirm`, samples near the minimum confirm it (the
    /// deviation).
    pub(super) fn new(confirm: bool) -> Self {
        Self { min: None, probe: None, probe_due: false, confirm }
    }

    /// Adds the newest RTT sample of an ACK, if any (`UpdateMinRTT`).
    pub(super) fn update(&mut self, now: Instant, rtt: Option<Duration>) {
        let expired = |sample: Option<Sample>, window| sample.is_some_and(|held| now > held.at + window);
        self.probe_due = expired(self.probe, PROBE_INTERVAL);
        if let Some(rtt) = rtt {
            match &mut self.probe {
                Some(held) if rtt >= held.rtt && !self.probe_due => {
                    if self.confirm && rtt <= held.rtt + held.rtt / CONFIRM_DIVISOR {
                        held.at = now;
                    }
                }
                held => *held = Some(Sample { rtt, at: now }),
            }
        }
        let Some(probe) = self.probe else { return };
        let renews = match self.min {
            Some(min) if self.confirm => probe.rtt <= min.rtt,
            Some(min) => probe.rtt < min.rtt,
            None => true,
        };
        if renews || expired(self.min, FILTER_LEN) {
            self.min = Some(probe);
        }
    }

    /// Ends a probe: the next one is due after [`PROBE_INTERVAL`].
    pub(super) fn probed(&mut self, now: Instant) {
        if let Some(probe) = &mut self.probe {
            probe.at = now;
        }
    }

    /// Returns the minimum RTT of the model; `None` before the first sample.
    pub(super) fn get(&self) -> Option<Duration> {
        self.min.map(|sample| sample.rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::bbr::tests::origin;

    fn feed(filter: &mut MinRtt, start: Instant, at_millis: u64, rtt_micros: u64) {
        filter.update(start + Duration::from_millis(at_millis), Some(Duration::from_micros(rtt_micros)));
    }

    #[test]
    fn probe_is_due_five_seconds_after_minimum() {
        let (mut filter, start) = (MinRtt::new(true), origin());
        feed(&mut filter, start, 0, 100_000);
        feed(&mut filter, start, 4000, 120_000);
        feed(&mut filter, start, 5000, 120_000);
        assert!(!filter.probe_due);
        feed(&mut filter, start, 5001, 120_000);
        assert!(filter.probe_due);
        assert_eq!(filter.get(), Some(Duration::from_millis(100)), "the model remembers for ten");
        feed(&mut filter, start, 10_001, 130_000);
        assert_eq!(filter.get(), Some(Duration::from_millis(120)));
    }

    #[test]
    fn sample_within_64th_confirms_minimum_unless_disabled() {
        let (mut filter, mut draft, start) = (MinRtt::new(true), MinRtt::new(false), origin());
        for filter in [&mut filter, &mut draft] {
            feed(filter, start, 0, 100_000);
            feed(filter, start, 3000, 101_562);
            feed(filter, start, 7000, 101_563);
        }
        assert!(!filter.probe_due, "101.562 ms is within 1/64");
        assert_eq!(filter.get(), Some(Duration::from_millis(100)), "confirmed, not raised");
        assert!(draft.probe_due);
        feed(&mut filter, start, 8001, 101_563);
        assert!(filter.probe_due, "101.563 ms is not");
    }
}
