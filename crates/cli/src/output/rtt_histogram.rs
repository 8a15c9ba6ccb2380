//! Histogram of the RTT samples of one transfer. Recording takes a few nanoseconds
//! per ACK, because it needs no lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rdt_transport::{Interest, Observer, Trace};

use super::format::ms;

/// Largest RTT of the histogram, nanoseconds; longer samples count as this value.
const MAX_RTT_NS: u64 = 600_000_000_000;
/// Bits after an RTT's leading 1 bit that select its bucket: two decimal digits.
const PRECISION_BITS: u32 = 7;
const BUCKETS: usize = bucket(MAX_RTT_NS) + 1;

#[derive(Debug, Clone, Default)]
pub(crate) struct RttHistogram(Arc<Samples>);

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

/// Samples in each bucket, and the exact minimum. One thread writes, so relaxed access suffices.
#[derive(Debug)]
struct Samples {
    counts: Box<[AtomicU64]>,
    min_ns: AtomicU64,
}

impl Default for Samples {
    fn default() -> Self {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { counts, min_ns: AtomicU64::new(u64::MAX) }
    }
}

impl RttHistogram {
    /// Returns the observer that fills the histogram. An earlier one must not be called any more.
    pub(crate) fn recorder(&self) -> Recorder {
        Recorder(Arc::clone(&self.0))
    }

    pub(crate) fn quantiles(&self) -> Option<RttQuantiles> {
        Some(RttQuantiles {
            min: self.quantile_ns(0.0)?,
            p50: self.quantile_ns(0.5)?,
            p90: self.quantile_ns(0.9)?,
            p99: self.quantile_ns(0.99)?,
        })
    }

    /// Must be called by the thread that records.
    pub(crate) fn clear(&self) {
        for count in &self.0.counts {
            count.store(0, Relaxed);
        }
        self.0.min_ns.store(u64::MAX, Relaxed);
    }

    /// Returns quantile `q` (0 to 1) in nanoseconds, to two digits; quantile 0 is exact.
    #[expect(clippy::cast_precision_loss, reason = "two digits are exact, the rest is the bound of a bucket")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
    pub(crate) fn quantile_ns(&self, q: f64) -> Option<u64> {
        let Samples { counts, min_ns } = &*self.0;
        let min_ns = min_ns.load(Relaxed);
        let counts = || counts.iter().map(|count| count.load(Relaxed));
        let rank = ((counts().sum::<u64>() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        let found = counts().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(if q > 0.0 { last_of(found).max(min_ns) } else { min_ns })
    }
}

pub(crate) struct Recorder(Arc<Samples>);

impl Recorder {
    pub(crate) fn record(&self, sample: Duration) {
        let ns = u64::try_from(sample.as_nanos()).unwrap_or(MAX_RTT_NS).min(MAX_RTT_NS);
        let count = &self.0.counts[bucket(ns)];
        count.store(count.load(Relaxed) + 1, Relaxed);
        if ns < self.0.min_ns.load(Relaxed) {
            self.0.min_ns.store(ns, Relaxed);
        }
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

/// Returns the bucket of an RTT. Each power of two is divided into 2^`PRECISION_BITS` buckets.
#[expect(clippy::cast_possible_truncation, reason = "what is left after the shift is below 256")]
const fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(PRECISION_BITS + 1);
    ((shift as usize) << PRECISION_BITS) + (ns >> shift) as usize
}

/// Returns the largest RTT of a bucket, nanoseconds.
const fn last_of(bucket: usize) -> u64 {
    let shift = (bucket >> PRECISION_BITS).saturating_sub(1);
    (((bucket - (shift << PRECISION_BITS)) as u64 + 1) << shift) - 1
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
        assert_eq!([0.0, 0.5, 0.99].map(|q| trips.quantile_ns(q)), [None; 3]);
        let mut recorder = trips.recorder();
        let now = rdt_udp::clock::now();
        recorder.on(now, &ack(None));
        assert_eq!(trips.quantile_ns(0.5), None, "a packet that was sent again gives none");
        for us in 1..=100 {
            recorder.on(now, &ack(Some(Duration::from_micros(us))));
        }
        assert_eq!(trips.quantile_ns(0.0), Some(1000));
        for (q, ns) in [(0.5, 50_000), (0.99, 99_000)] {
            let found = trips.quantile_ns(q).unwrap();
            assert!(found.abs_diff(ns) < ns / 100, "{q}: {found} ns");
        }
    }

    #[test]
    fn buckets_are_narrow_and_disjoint() {
        let mut before = None;
        for index in 0..BUCKETS {
            let (first, last) = (before.map_or(0, |last: u64| last + 1), last_of(index));
            assert_eq!((bucket(first), bucket(last)), (index, index));
            assert!(last - first <= first >> PRECISION_BITS, "{first} to {last}");
            before = Some(last);
        }
        assert!(before >= Some(MAX_RTT_NS));
        let trips = RttHistogram::default();
        trips.recorder().record(Duration::MAX);
        assert!(trips.quantile_ns(0.99).unwrap() >= MAX_RTT_NS, "the longest there is");
    }
}
