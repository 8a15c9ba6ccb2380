//! Observers of a sender: metrics sampled at fixed intervals, and window reductions.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdt_transport::congestion::Cause;
use rdt_transport::{Metrics, Observer, Trace};

/// Metrics of a sender, sampled at a fixed interval. Sample i is the state at time i * interval,
/// before the events of that time. All vectors have the same length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Times of the samples, seconds since the start of virtual time.
    pub time_s: Vec<f64>,
    /// Congestion window at each sample, bytes.
    pub cwnd: Vec<u64>,
    /// Slow-start threshold at each sample, bytes; `None` if the controller has none.
    pub ssthresh: Vec<Option<u64>>,
    /// Smoothed RTT at each sample, seconds; 0 before the handshake.
    pub srtt_s: Vec<f64>,
    /// Bytes in flight at each sample.
    pub in_flight: Vec<u64>,
    /// Latest delivery-rate measurement at each sample, bytes per second; 0 before the first.
    pub delivery_rate: Vec<u64>,
    /// Receiver's window at each sample, in packets (classic format) or bytes (native format).
    pub rwnd: Vec<u64>,
}

impl Series {
    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.time_s.len()
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.time_s.is_empty()
    }

    /// Returns the mean congestion window, in bytes, of the samples with times in `range`, in
    /// seconds. `None` if there are none.
    #[allow(clippy::cast_precision_loss, reason = "a mean of windows, which are far below 2^53")]
    pub fn mean_cwnd(&self, range: &Range<f64>) -> Option<f64> {
        let inside: Vec<u64> =
            self.time_s.iter().zip(&self.cwnd).filter(|(t, _)| range.contains(t)).map(|(_, w)| *w).collect();
        let sum: f64 = inside.iter().map(|cwnd| *cwnd as f64).sum();
        (!inside.is_empty()).then(|| sum / inside.len() as f64)
    }

    /// Returns the samples as CSV: a header with units, then one line for each sample. A missing
    /// slow-start threshold is an empty cell.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from(
            "time_s,cwnd_bytes,ssthresh_bytes,srtt_s,in_flight_bytes,delivery_rate_bytes_per_s,rwnd\n",
        );
        for i in 0..self.len() {
            let ssthresh = self.ssthresh[i].map_or(String::new(), |bytes| bytes.to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(
                csv,
                "{:.6},{},{ssthresh},{:.6},{},{},{}",
                self.time_s[i],
                self.cwnd[i],
                self.srtt_s[i],
                self.in_flight[i],
                self.delivery_rate[i],
                self.rwnd[i],
            );
        }
        csv
    }

    fn push(&mut self, time: Duration, metrics: &Metrics) {
        self.time_s.push(time.as_secs_f64());
        self.cwnd.push(metrics.cwnd);
        self.ssthresh.push(metrics.ssthresh);
        self.srtt_s.push(metrics.srtt.as_secs_f64());
        self.in_flight.push(metrics.in_flight);
        self.delivery_rate.push(metrics.delivery_rate.unwrap_or(0));
        self.rwnd.push(metrics.snd_wnd);
    }
}

#[derive(Debug)]
struct Sampling {
    epoch: Instant,
    interval: Duration,
    /// Time of the next sample.
    next: Duration,
    metrics: Metrics,
    series: Series,
}

/// Observer that records a [`Series`]. Clones share the samples, so one clone observes the sender
/// and another returns the samples.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Mutex<Sampling>>);

impl Recorder {
    /// Creates a recorder that samples every `interval` from `epoch` on. `epoch` is
    /// [`Simulation::epoch`](crate::Simulation::epoch).
    ///
    /// # Panics
    /// If the interval is zero.
    pub fn new(epoch: Instant, interval: Duration) -> Self {
        assert!(!interval.is_zero(), "the sampling interval is not zero");
        let (next, metrics, series) = (Duration::ZERO, Metrics::default(), Series::default());
        Self(Arc::new(Mutex::new(Sampling { epoch, interval, next, metrics, series })))
    }

    /// Returns the samples up to the latest event of the sender.
    pub fn series(&self) -> Series {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).series.clone()
    }
}

impl Observer for Recorder {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut sampling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Sampling { epoch, interval, next, metrics, series } = &mut *sampling;
        let time = now.saturating_duration_since(*epoch);
        while *next <= time {
            series.push(*next, metrics);
            *next += *interval;
        }
        if let Trace::MetricsUpdated(new) = trace {
            *metrics = *new;
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    cwnd: u64,
    /// Congestion window at the start of a recovery whose new threshold is not known yet.
    began: Option<u64>,
    ratios: Vec<f64>,
}

/// Observer that records `ssthresh / cwnd` (after and before) of each window reduction after a
/// loss. Clones share the ratios, so one clone observes the sender and another returns them.
#[derive(Debug, Clone, Default)]
pub struct WindowReductions(Arc<Mutex<Seen>>);

impl WindowReductions {
    /// Returns the ratios of all reductions so far, in order.
    pub fn ratios(&self) -> Vec<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ratios.clone()
    }

    /// Returns the mean of the ratios. `None` if there was no reduction.
    #[allow(clippy::cast_precision_loss, reason = "a count of reductions")]
    pub fn mean(&self) -> Option<f64> {
        let ratios = self.ratios();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

impl Observer for WindowReductions {
    #[allow(clippy::cast_precision_loss, reason = "windows are far below 2^53 bytes")]
    fn on(&mut self, _: Instant, trace: &Trace) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match trace {
            Trace::RecoveryBegan { cause: Cause::Loss } => seen.began = Some(seen.cwnd),
            Trace::MetricsUpdated(metrics) => {
                if let (Some(before), Some(ssthresh)) = (seen.began.take(), metrics.ssthresh) {
                    seen.ratios.push(ssthresh as f64 / before as f64);
                }
                seen.cwnd = metrics.cwnd;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(cwnd: u64, ssthresh: Option<u64>) -> Trace {
        Trace::MetricsUpdated(Metrics { cwnd, ssthresh, ..Metrics::default() })
    }

    #[test]
    fn sample_holds_until_next_change() {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let epoch = Instant::now();
        let at = |ms| epoch + Duration::from_millis(ms);
        let recorder = Recorder::new(epoch, Duration::from_millis(10));
        let mut observer = recorder.clone();
        observer.on(at(0), &metrics(1, None));
        observer.on(at(15), &metrics(2, None));
        observer.on(at(16), &metrics(3, Some(7)));
        observer.on(at(40), &metrics(9, None));
        let series = recorder.series();
        assert_eq!(series.cwnd, [0, 1, 3, 3, 3]);
        assert_eq!(series.ssthresh, [None, None, Some(7), Some(7), Some(7)]);
        assert_eq!(series.mean_cwnd(&(0.005..0.025)), Some(2.0));
        assert_eq!(series.mean_cwnd(&(1.0..2.0)), None);
        assert_eq!(series.to_csv().lines().nth(3), Some("0.020000,3,7,0.000000,0,0,0"));
        assert_eq!(series.to_csv().lines().count(), series.len() + 1);
    }
}
