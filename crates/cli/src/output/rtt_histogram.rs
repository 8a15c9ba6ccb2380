//! How long the round trips of one transfer took: the samples that its estimator was given. Stored
//! only for `--json`, so a transfer without it pays nothing, and one with it a few nanoseconds an
//! ACK: no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rdt_transport::{Interest, Observer, Trace};

/// Longest round trip told apart, nanoseconds; longer ones count as this.
const MAX_NS: u64 = 600_000_000_000;
/// Lengths are told apart to this many bits behind the first: two digits.
const BITS: u32 = 7;
/// Buckets.
const BUCKETS: usize = bucket(MAX_NS) + 1;

/// The round trips of one transfer.
#[derive(Default)]
pub(crate) struct RttHistogram(Arc<Samples>);

/// Counts by length, and the shortest as it was. One thread writes, so it needs no more than to be
/// read whole.
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
    /// What the sender tells of them; there is one.
    pub(crate) fn recorder(&self) -> Recorder {
        Recorder(Arc::clone(&self.0))
    }

    /// The time in microseconds that the share `q` (0 to 1) of the round trips did not exceed, to
    /// two digits; `None` if there were none. That of 0 is the shortest, exactly.
    #[expect(clippy::cast_precision_loss, reason = "two digits are exact, the rest is the bound of a bucket")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
    pub(crate) fn quantile_us(&self, q: f64) -> Option<f64> {
        let Samples { counts, min_ns } = &*self.0;
        let min_ns = min_ns.load(Relaxed);
        let counts = || counts.iter().map(|count| count.load(Relaxed));
        let rank = ((counts().sum::<u64>() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        let found = counts().position(|count| {
            seen += count;
            seen >= rank
        })?;
        // The bound of a bucket may lie below the shortest.
        let ns = if q > 0.0 { last_of(found).max(min_ns) } else { min_ns };
        Some(ns as f64 / 1e3)
    }
}

/// Writes the round trips of one transfer.
pub(crate) struct Recorder(Arc<Samples>);

impl Recorder {
    fn record(&self, sample: Duration) {
        let ns = u64::try_from(sample.as_nanos()).unwrap_or(MAX_NS).min(MAX_NS);
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

/// The bucket of a length: each power of two is divided into as many.
#[expect(clippy::cast_possible_truncation, reason = "what is left after the shift is below 256")]
const fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (ns >> shift) as usize
}

/// The longest length of a bucket.
const fn last_of(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    (((bucket - (shift << BITS)) as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(sample: Option<Duration>) -> Trace {
        Trace::AckReceived { ack: 1, wnd: 1, rto: Duration::ZERO, deadline: None, sample }
    }

    #[test]
    fn quantiles_of_what_acks_told() {
        let trips = RttHistogram::default();
        assert_eq!([0.0, 0.5, 0.99].map(|q| trips.quantile_us(q)), [None; 3]);
        let mut recorder = trips.recorder();
        let now = rdt_driver::clock::now();
        recorder.on(now, &ack(None));
        assert_eq!(trips.quantile_us(0.5), None, "a packet that was sent again gives none");
        for us in 1..=100 {
            recorder.on(now, &ack(Some(Duration::from_micros(us))));
        }
        assert_eq!(trips.quantile_us(0.0), Some(1.0));
        for (q, us) in [(0.5, 50.0), (0.99, 99.0)] {
            let found = trips.quantile_us(q).unwrap();
            assert!((found / us - 1.0).abs() < 0.01, "{q}: {found} us");
        }
    }

    #[test]
    fn each_length_is_in_one_bucket_which_is_narrow() {
        let mut before = None;
        for index in 0..BUCKETS {
            let (first, last) = (before.map_or(0, |last: u64| last + 1), last_of(index));
            assert_eq!((bucket(first), bucket(last)), (index, index));
            assert!(last - first <= first >> BITS, "{first} to {last}");
            before = Some(last);
        }
        assert!(before >= Some(MAX_NS));
        let trips = RttHistogram::default();
        trips.recorder().record(Duration::MAX);
        assert!(trips.quantile_us(0.99).unwrap() >= 600e6, "the longest there is");
    }
}
