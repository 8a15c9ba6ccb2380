//! How long the round trips of one transfer took: the samples that its estimator was given. Kept only for
//! `--json`, so a transfer without it pays nothing.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rdt_transport::{Observer, Trace};

/// Longest round trip told apart, nanoseconds; longer ones count as this.
const MAX_NS: u64 = 600_000_000_000;

/// The round trips of one transfer. Clones share them: one is the sender's observer, one is read.
#[derive(Clone)]
pub(crate) struct RoundTrips(Arc<Mutex<Samples>>);

/// Percentiles to two digits, and the shortest as it was.
struct Samples {
    histogram: Histogram<u64>,
    min_ns: u64,
}

impl Default for RoundTrips {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MAX_NS, 2).expect("constant bounds are valid");
        Self(Arc::new(Mutex::new(Samples { histogram, min_ns: u64::MAX })))
    }
}

impl RoundTrips {
    /// Takes the samples of facts that occurred together: of most of them many are alike.
    fn record(&self, traces: &[Trace]) {
        let mut samples = None;
        for alike in traces.chunk_by(|a, b| sample_of(a) == sample_of(b)) {
            let Some(sample) = alike.first().and_then(sample_of) else { continue };
            if samples.is_none() {
                samples = self.0.lock().ok();
            }
            let Some(samples) = &mut samples else { return };
            let ns = u64::try_from(sample.as_nanos()).unwrap_or(MAX_NS);
            samples.histogram.saturating_record_n(ns, alike.len() as u64);
            samples.min_ns = samples.min_ns.min(ns);
        }
    }

    /// The time in microseconds that the share `q` (0 to 1) of the round trips did not exceed, to two
    /// digits; `None` if there were none. That of 0 is the shortest, exactly.
    #[expect(clippy::cast_precision_loss, reason = "two digits are exact, the rest is the bound of a bucket")]
    pub(crate) fn quantile_us(&self, q: f64) -> Option<f64> {
        let Samples { histogram, min_ns } = &*self.0.lock().ok()?;
        // The bound of a bucket may lie below the shortest.
        let ns = if q > 0.0 { histogram.value_at_quantile(q).max(*min_ns) } else { *min_ns };
        (!histogram.is_empty()).then_some(ns as f64 / 1e3)
    }
}

impl Observer for RoundTrips {
    fn on(&mut self, _: Instant, trace: &Trace) {
        if sample_of(trace).is_some() {
            self.record(std::slice::from_ref(trace));
        }
    }

    fn on_all(&mut self, _: Instant, traces: &[Trace]) {
        self.record(traces);
    }

    fn hears_of_each_packet(&self) -> bool {
        false
    }
}

fn sample_of(trace: &Trace) -> Option<Duration> {
    match trace {
        Trace::AckReceived { sample, .. } => *sample,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_what_acks_told() {
        let trips = RoundTrips::default();
        assert_eq!([0.0, 0.5, 0.99].map(|q| trips.quantile_us(q)), [None; 3]);
        let mut observer = trips.clone();
        let ack = |sample| Trace::AckReceived { ack: 1, wnd: 1, rto: Duration::ZERO, deadline: None, sample };
        let now = rdt_driver::clock::now();
        observer.on(now, &ack(None));
        assert_eq!(trips.quantile_us(0.5), None, "a packet that was sent again gives none");
        // Some one by one, some together; of the latter some are alike and some are none.
        let acks: Vec<Trace> = (1..=100).map(|us| ack(Some(Duration::from_micros(us)))).collect();
        for trace in acks.iter().chain(&acks[..50]) {
            observer.on(now, trace);
        }
        observer.on_all(
            now,
            &acks[50..].iter().flat_map(|fact| [*fact, ack(None), ack(None)]).collect::<Vec<_>>(),
        );
        observer.on_all(now, &[ack(None), ack(None)]);
        assert_eq!(trips.quantile_us(0.0), Some(1.0));
        for (q, us) in [(0.5, 50.0), (0.99, 99.0)] {
            let found = trips.quantile_us(q).unwrap();
            assert!((found / us - 1.0).abs() < 0.01, "{q}: {found} us");
        }
    }
}
