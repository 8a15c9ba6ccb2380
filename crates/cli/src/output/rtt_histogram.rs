//! Histogram of the RTT samples of one transfer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdt_emulator::DelayHistogram;
use rdt_program::json::nanos;
use rdt_transport::{Interest, Observer, Trace};

use super::format::ms;

/// Histogram that one thread fills and reads. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RttHistogram(Arc<Mutex<Samples>>);

#[derive(Debug, Default)]
struct Samples {
    histogram: DelayHistogram,
    /// Exact minimum.
    min: Option<Duration>,
}

/// Quantiles of RTT samples, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RttQuantiles {
    pub(crate) min: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
}

impl fmt::Display for RttQuantiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p90, p99] = [self.p50, self.p90, self.p99].map(ms);
        write!(out, "{p50:.3} ms (median), {p90:.3} ms (90 %), {p99:.3} ms (99 %)")
    }
}

impl RttHistogram {
    /// Returns the observer that fills the histogram.
    pub(crate) fn recorder(&self) -> Recorder {
        Recorder(self.clone())
    }

    /// Returns the quantiles, to two digits, and the exact minimum; `None` without samples.
    pub(crate) fn quantiles(&self) -> Option<RttQuantiles> {
        let samples = self.samples();
        let quantile = |q| nanos(samples.histogram.quantile(q).max(samples.min.unwrap_or_default()));
        Some(RttQuantiles {
            min: nanos(samples.min?),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
        })
    }

    /// Removes all samples.
    pub(crate) fn clear(&self) {
        *self.samples() = Samples::default();
    }

    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Recorder(RttHistogram);

impl Recorder {
    pub(crate) fn record(&self, sample: Duration) {
        let mut samples = self.0.samples();
        samples.histogram.record(sample);
        samples.min = Some(samples.min.map_or(sample, |min| min.min(sample)));
    }
}

impl Observer for Recorder {
    fn on(&mut self, _: Instant, trace: &Trace) {
        if let Trace::AckReceived { sample: Some(sample), .. } = trace {
            self.record(*sample);
        }
    }

    fn interest(&self) -> Interest {
        Interest::RoundTrips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(sample: Option<Duration>) -> Trace {
        Trace::AckReceived { ack: 1, window: 1, rto: Duration::ZERO, deadline: None, sample }
    }

    #[test]
    fn quantiles_match_recorded_samples() {
        let trips = RttHistogram::default();
        assert_eq!(trips.quantiles(), None);
        let mut recorder = trips.recorder();
        let now = rdt_udp::clock::now();
        recorder.on(now, &ack(None));
        assert_eq!(trips.quantiles(), None, "a packet that was sent again gives none");
        for us in 1..=100 {
            recorder.on(now, &ack(Some(Duration::from_micros(us))));
        }
        let found = trips.quantiles().unwrap();
        assert_eq!(found.min, 1000);
        for (found, ns) in [(found.p50, 50_000), (found.p90, 90_000), (found.p99, 99_000)] {
            assert!(u64::abs_diff(found, ns) < ns / 100, "{found} ns");
        }
        recorder.record(Duration::MAX);
        assert!(trips.quantiles().is_some_and(|found| found.p99 < 101_000), "one of 101");
    }
}
