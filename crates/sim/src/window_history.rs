//! History of a sender's congestion window: reductions, and growth between them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_transport::congestion::Cause;
use rdt_transport::{Metrics, Observer, Trace};

/// History of a congestion window: reductions after losses, and growth between them. Bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WindowHistory {
    /// Congestion window after each timeout that began a recovery and counted as congestion.
    pub after_timeouts: Vec<u64>,
    /// Before each fast recovery the estimate of the bytes in the network and the congestion
    /// window, between which the flight is; then the slow-start threshold.
    pub halvings: Vec<(u64, u64, u64)>,
    /// At the end of each fast recovery, congestion window and slow-start threshold.
    pub recovered: Vec<(u64, u64)>,
    /// Growth in congestion avoidance, from the first step after a recovery to the last step before
    /// the next.
    pub growth: u64,
    /// Smoothed round trips that this growth took.
    pub round_trips: f64,
}

/// Part of a recovery whose effect on the window is not known yet.
#[derive(Debug, Clone, Copy)]
enum Step {
    Began(Cause),
    Recovered,
}

#[derive(Debug, Default)]
struct Following {
    history: WindowHistory,
    /// Latest metrics, and their time.
    latest: Option<(Instant, Metrics)>,
    /// Cause of the current recovery.
    recovery: Option<Cause>,
    step: Option<Step>,
    /// True if the latest metrics are those of congestion avoidance.
    avoids_congestion: bool,
    /// Round trips since the window last grew. `None` before its first growth after a recovery.
    since_growth: Option<f64>,
}

/// Observer that records a [`WindowHistory`]. Clones share it, so one clone observes the sender and
/// another returns the history.
#[derive(Debug, Clone, Default)]
pub struct WindowRecorder(Arc<Mutex<Following>>);

impl WindowRecorder {
    /// Returns the history so far.
    pub fn history(&self) -> WindowHistory {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).history.clone()
    }
}

impl Following {
    fn on_metrics(&mut self, now: Instant, metrics: &Metrics) {
        let before = self.latest.replace((now, *metrics));
        let (cwnd, ssthresh) = (metrics.cwnd, metrics.ssthresh.unwrap_or(u64::MAX));
        let (flight, window) = before.map_or((0, 0), |(_, it)| (it.cwnd.min(it.in_flight), it.cwnd));
        let is_reduced = before.is_none_or(|(_, it)| (it.cwnd, it.ssthresh) != (cwnd, metrics.ssthresh));
        match self.step.take() {
            Some(Step::Began(Cause::Timeout)) if is_reduced => self.history.after_timeouts.push(cwnd),
            Some(Step::Began(Cause::Loss)) if metrics.ssthresh.is_some() => {
                self.history.halvings.push((flight, window, ssthresh));
            }
            Some(Step::Recovered) if metrics.ssthresh.is_some() => {
                self.history.recovered.push((cwnd, ssthresh));
            }
            _ => {}
        }
        let avoids_congestion = self.recovery.is_none() && cwnd >= ssthresh;
        let Some((since, before)) = before.filter(|_| self.avoids_congestion && avoids_congestion) else {
            (self.avoids_congestion, self.since_growth) = (avoids_congestion, None);
            return;
        };
        let time = now.saturating_duration_since(since).as_secs_f64();
        let round_trips = time / before.srtt.max(Duration::from_nanos(1)).as_secs_f64();
        self.since_growth = self.since_growth.map(|it| it + round_trips);
        if cwnd > before.cwnd
            && let Some(round_trips) = self.since_growth.replace(0.0)
        {
            self.history.round_trips += round_trips;
            self.history.growth += cwnd - before.cwnd;
        }
    }
}

impl Observer for WindowRecorder {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut following = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match trace {
            Trace::RecoveryBegan { cause } => {
                (following.recovery, following.step) = (Some(*cause), Some(Step::Began(*cause)));
            }
            Trace::RecoveryEnded { spurious } => {
                let is_fast = following.recovery.take() == Some(Cause::Loss);
                following.step = (is_fast && !spurious).then_some(Step::Recovered);
            }
            Trace::MetricsUpdated(metrics) => following.on_metrics(now, metrics),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_history_separates_reductions_and_growth() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let epoch = Instant::now();
        let at = |ms| epoch + Duration::from_millis(ms);
        let recorder = WindowRecorder::default();
        let mut observer = recorder.clone();
        let state = |cwnd, ssthresh| {
            let srtt = Duration::from_millis(10);
            Trace::MetricsUpdated(Metrics { cwnd, ssthresh, in_flight: cwnd, srtt, ..Metrics::default() })
        };
        observer.on(at(0), &state(8, None));
        observer.on(at(10), &Trace::RecoveryBegan { cause: Cause::Loss });
        observer.on(at(10), &state(4, Some(4)));
        observer.on(at(20), &Trace::RecoveryEnded { spurious: false });
        observer.on(at(20), &state(4, Some(4)));
        observer.on(at(30), &state(5, Some(4)));
        observer.on(at(45), &state(6, Some(4)));
        observer.on(at(50), &Trace::RecoveryBegan { cause: Cause::Timeout });
        observer.on(at(50), &state(1, Some(3)));
        observer.on(at(60), &Trace::RecoveryEnded { spurious: false });
        observer.on(at(60), &state(2, Some(3)));
        let history = recorder.history();
        assert_eq!((history.halvings, history.recovered), (vec![(8, 8, 4)], vec![(4, 4)]));
        // From the first step at 30 ms to the second at 45 ms.
        assert_eq!((history.after_timeouts, history.growth), (vec![1], 1));
        assert!((history.round_trips - 1.5).abs() < 1e-9, "{}", history.round_trips);
    }
}
