//! Observer of a sender: metrics sampled at fixed intervals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    /// Newest RTT sample at each sample, seconds; `None` before the first.
    pub rtt_s: Vec<Option<f64>>,
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

    fn push(&mut self, time: Duration, metrics: &Metrics) {
        self.time_s.push(time.as_secs_f64());
        self.cwnd.push(metrics.cwnd);
        self.ssthresh.push(metrics.ssthresh);
        self.srtt_s.push(metrics.srtt.as_secs_f64());
        self.rtt_s.push(metrics.latest_rtt.map(|rtt| rtt.as_secs_f64()));
        self.in_flight.push(metrics.in_flight);
        self.delivery_rate.push(metrics.delivery_rate.unwrap_or(0));
        self.rwnd.push(metrics.snd_wnd);
    }
}

/// Means, extremes and round trips of samples. Sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    samples: u64,
    cwnd_sum: f64,
    /// Largest congestion window.
    pub cwnd_max: Option<u64>,
    /// Smallest congestion window above zero.
    pub cwnd_min: Option<u64>,
    in_flight_sum: f64,
    /// Samples after the handshake.
    srtt_samples: u64,
    srtt_sum_s: f64,
    /// Largest smoothed RTT, seconds.
    pub srtt_max_s: Option<f64>,
    /// Newest RTT sample at each sample that has one, seconds.
    pub rtts_s: Vec<f64>,
}

#[allow(clippy::cast_precision_loss, reason = "windows and counts are far below 2^53")]
impl Summary {
    fn add(&mut self, cwnd: u64, in_flight: u64, srtt_s: f64, rtt_s: Option<f64>) {
        self.samples += 1;
        self.rtts_s.extend(rtt_s);
        self.cwnd_sum += cwnd as f64;
        self.in_flight_sum += in_flight as f64;
        self.cwnd_max = self.cwnd_max.max(Some(cwnd));
        if cwnd > 0 {
            self.cwnd_min = Some(self.cwnd_min.map_or(cwnd, |least| least.min(cwnd)));
        }
        if srtt_s > 0.0 {
            self.srtt_samples += 1;
            self.srtt_sum_s += srtt_s;
            self.srtt_max_s = Some(self.srtt_max_s.map_or(srtt_s, |most| most.max(srtt_s)));
        }
    }

    /// Returns the mean congestion window. `None` without samples.
    pub fn cwnd_mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.cwnd_sum / self.samples as f64)
    }

    /// Returns the mean of the bytes in flight. `None` without samples.
    pub fn in_flight_mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.in_flight_sum / self.samples as f64)
    }

    /// Returns the mean smoothed RTT, seconds. `None` without samples after the handshake.
    pub fn srtt_mean_s(&self) -> Option<f64> {
        (self.srtt_samples > 0).then(|| self.srtt_sum_s / self.srtt_samples as f64)
    }
}

#[derive(Debug)]
struct Sampling {
    epoch: Instant,
    interval: Duration,
    /// Time of the next sample.
    next: Duration,
    metrics: Metrics,
    count: usize,
    /// Samples, from this number on, of which only the summary is kept. `None`: all are kept.
    summarised_from: Option<usize>,
    /// All samples so far; empty once there is a summary.
    series: Series,
    summary: Summary,
    /// Smallest receive window after the first above zero.
    rwnd_min: Option<u64>,
    /// Largest distance of an offered window from the number of its ACK.
    ack_window_error: Option<u64>,
}

impl Sampling {
    fn push(&mut self) {
        let Metrics { cwnd, in_flight, snd_wnd: rwnd, srtt, latest_rtt, .. } = self.metrics;
        if rwnd > 0 || self.rwnd_min.is_some() {
            self.rwnd_min = Some(self.rwnd_min.map_or(rwnd, |least| least.min(rwnd)));
        }
        if self.summarised_from.is_some_and(|from| self.count >= from) {
            self.series = Series::default();
            self.summary.add(cwnd, in_flight, srtt.as_secs_f64(), latest_rtt.map(|rtt| rtt.as_secs_f64()));
        } else {
            self.series.push(self.next, &self.metrics);
        }
        self.count += 1;
        self.next += self.interval;
    }
}

/// Observer that records a [`Series`], or only a [`Summary`] of it. Clones share the samples, so
/// one clone observes the sender and another returns the samples.
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
        Self(Arc::new(Mutex::new(Sampling {
            epoch,
            interval,
            next: Duration::ZERO,
            metrics: Metrics::default(),
            count: 0,
            summarised_from: None,
            series: Series::default(),
            summary: Summary::default(),
            rwnd_min: None,
            ack_window_error: None,
        })))
    }

    /// Creates a recorder that keeps only the summary of the samples from number `from` on.
    ///
    /// # Panics
    /// If the interval is zero.
    pub fn summarising(epoch: Instant, interval: Duration, from: usize) -> Self {
        let recorder = Self::new(epoch, interval);
        recorder.sampling().summarised_from = Some(from);
        recorder
    }

    fn sampling(&self) -> MutexGuard<'_, Sampling> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the samples up to the latest event of the sender.
    pub fn series(&self) -> Series {
        self.sampling().series.clone()
    }

    /// Returns the summary of the samples from number `cut` on. A recorder that keeps only a
    /// summary returns that of the samples for which it was created.
    pub fn summary(&self, cut: usize) -> Summary {
        let sampling = self.sampling();
        let (mut summary, series) = (sampling.summary.clone(), &sampling.series);
        for i in cut..series.len() {
            summary.add(series.cwnd[i], series.in_flight[i], series.srtt_s[i], series.rtt_s[i]);
        }
        summary
    }

    /// Returns the smallest receive window after the first above zero.
    pub fn rwnd_min(&self) -> Option<u64> {
        self.sampling().rwnd_min
    }

    /// Returns the largest distance, packets, of an offered window from the number of the ACK that
    /// offers it. `None` without ACKs. It has a meaning in the classic format, whose receiver
    /// offers n packets with the ACK of n packets.
    pub fn ack_window_error(&self) -> Option<u64> {
        self.sampling().ack_window_error
    }
}

impl Observer for Recorder {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut sampling = self.sampling();
        let time = now.saturating_duration_since(sampling.epoch);
        while sampling.next <= time {
            sampling.push();
        }
        match trace {
            Trace::MetricsUpdated(new) => sampling.metrics = *new,
            Trace::AckReceived { ack, window, .. } => {
                sampling.ack_window_error = sampling.ack_window_error.max(Some(ack.abs_diff(*window)));
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
        assert_eq!((series.time_s[2], series.len()), (0.02, 5));
    }

    /// Records three samples: windows of 0, then 20, then 10 bytes.
    fn sampled(summarised_from: Option<usize>) -> Recorder {
        #[allow(clippy::disallowed_methods, reason = "an epoch for made-up times")]
        let epoch = Instant::now();
        let interval = Duration::from_millis(10);
        let recorder = match summarised_from {
            Some(from) => Recorder::summarising(epoch, interval, from),
            None => Recorder::new(epoch, interval),
        };
        let mut observer = recorder.clone();
        for (millis, cwnd) in [(5, 20), (15, 10), (25, 30)] {
            let srtt = Duration::from_secs(cwnd);
            let latest_rtt = Some(srtt);
            let metrics =
                Metrics { cwnd, in_flight: cwnd, snd_wnd: cwnd, srtt, latest_rtt, ..Metrics::default() };
            observer.on(epoch + Duration::from_millis(millis), &Trace::MetricsUpdated(metrics));
        }
        recorder
    }

    #[test]
    fn summaries_equal_those_of_all_samples() {
        for cut in 0..5 {
            let (all, kept) = (sampled(None), sampled(Some(cut)));
            assert_eq!(all.summary(cut), kept.summary(cut), "from sample {cut} on");
            assert_eq!(all.rwnd_min(), kept.rwnd_min());
            assert_eq!(all.series().len(), 3);
            assert_eq!(kept.series().len(), if cut < 3 { 0 } else { 3 }, "from sample {cut} on");
        }
        let summary = sampled(None).summary(0);
        assert_eq!((summary.cwnd_mean(), summary.srtt_mean_s()), (Some(10.0), Some(15.0)));
        assert_eq!((summary.cwnd_min, summary.cwnd_max), (Some(10), Some(20)));
        assert_eq!(summary.rtts_s, [20.0, 10.0]);
    }
}
