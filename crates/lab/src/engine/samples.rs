//! Samples of a sender's state in virtual time, one at the begin of each bin: all of them, or only
//! the means and extremes that metrics need.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdt_transport::{Metrics, Observer, Trace};

use super::flow_metrics::number;
use crate::statistics::quantile;

/// State of a sender at one time. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) cwnd: u64,
    pub(super) ssthresh: Option<u64>,
    /// Zero before the handshake.
    pub(super) srtt_s: f64,
    /// Newest RTT sample.
    rtt_s: Option<f64>,
    pub(super) in_flight: u64,
    pub(super) rwnd: u64,
}

impl From<&Metrics> for Sample {
    fn from(metrics: &Metrics) -> Self {
        let Metrics { cwnd, ssthresh, in_flight, snd_wnd: rwnd, .. } = *metrics;
        let rtt_s = metrics.latest_rtt.map(|rtt| rtt.as_secs_f64());
        Self { cwnd, ssthresh, srtt_s: metrics.srtt.as_secs_f64(), rtt_s, in_flight, rwnd }
    }
}

/// Means, extremes and quantiles of samples. Sizes are bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Summary {
    samples: u64,
    cwnd_sum: f64,
    pub(super) cwnd_max: Option<u64>,
    /// Least window above zero.
    pub(super) cwnd_min: Option<u64>,
    in_flight_sum: f64,
    /// Samples after the handshake.
    srtt_samples: u64,
    srtt_sum_s: f64,
    pub(super) srtt_max_s: Option<f64>,
    rtts_s: Vec<f64>,
}

impl Summary {
    fn add(&mut self, sample: &Sample) {
        let Sample { cwnd, srtt_s, rtt_s, in_flight, .. } = *sample;
        self.rtts_s.extend(rtt_s);
        self.samples += 1;
        self.cwnd_sum += number(cwnd);
        self.in_flight_sum += number(in_flight);
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

    pub(super) fn cwnd_mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.cwnd_sum / number(self.samples))
    }

    pub(super) fn in_flight_mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.in_flight_sum / number(self.samples))
    }

    pub(super) fn srtt_mean_s(&self) -> Option<f64> {
        (self.srtt_samples > 0).then(|| self.srtt_sum_s / number(self.srtt_samples))
    }

    /// Returns the median of the RTT and its quantiles 0.9 and 0.99, in seconds. `None` where fewer
    /// than one sample is expected beyond the quantile.
    pub(super) fn rtt_quantiles_s(&self) -> [(&'static str, Option<f64>); 3] {
        let mut sorted = self.rtts_s.clone();
        sorted.sort_by(f64::total_cmp);
        [("rtt-p50", 0.5, 2), ("rtt-p90", 0.9, 10), ("rtt-p99", 0.99, 100)]
            .map(|(name, p, least)| (name, quantile(&sorted, p).filter(|_| sorted.len() >= least)))
    }
}

#[derive(Debug)]
struct Sampling {
    epoch: Instant,
    interval: Duration,
    /// Time of the next sample.
    next: Duration,
    metrics: Metrics,
    /// Number of samples so far.
    count: usize,
    /// Samples, from this number on, of which only the summary is kept. `None`: all are kept.
    summarised_from: Option<usize>,
    /// All samples so far; empty once there is a summary.
    samples: Vec<Sample>,
    summary: Summary,
    /// Smallest receive window after the first above zero.
    rwnd_min: Option<u64>,
}

impl Sampling {
    fn push(&mut self) {
        let sample = Sample::from(&self.metrics);
        if sample.rwnd > 0 || self.rwnd_min.is_some() {
            self.rwnd_min = Some(self.rwnd_min.map_or(sample.rwnd, |least| least.min(sample.rwnd)));
        }
        if self.summarised_from.is_some_and(|from| self.count >= from) {
            self.samples = Vec::new();
            self.summary.add(&sample);
        } else {
            self.samples.push(sample);
        }
        self.count += 1;
    }
}

/// Observer of a sender that samples its state. Sample i is the state at time i * interval, before
/// the events of that time. Clones share the samples.
#[derive(Debug, Clone)]
pub(super) struct Sampler(Arc<Mutex<Sampling>>);

impl Sampler {
    /// Creates an observer that samples from `epoch` on. From sample `summarised_from` on only the
    /// summary is kept; earlier samples are left out of it.
    pub(super) fn new(epoch: Instant, interval: Duration, summarised_from: Option<usize>) -> Self {
        Self(Arc::new(Mutex::new(Sampling {
            epoch,
            interval,
            next: Duration::ZERO,
            metrics: Metrics::default(),
            count: 0,
            summarised_from,
            samples: Vec::new(),
            summary: Summary::default(),
            rwnd_min: None,
        })))
    }

    fn sampling(&self) -> MutexGuard<'_, Sampling> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the summary of the samples from number `cut` on. If only a summary is kept, that is
    /// of the samples for which it was asked.
    pub(super) fn summary(&self, cut: usize) -> Summary {
        let sampling = self.sampling();
        let mut summary = sampling.summary.clone();
        sampling.samples.iter().skip(cut).for_each(|sample| summary.add(sample));
        summary
    }

    /// Returns the smallest receive window after the first above zero.
    pub(super) fn rwnd_min(&self) -> Option<u64> {
        self.sampling().rwnd_min
    }

    /// Removes and returns the samples that are kept.
    pub(super) fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut self.sampling().samples)
    }
}

impl Observer for Sampler {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let mut sampling = self.sampling();
        let time = now.saturating_duration_since(sampling.epoch);
        while sampling.next <= time {
            sampling.push();
            let interval = sampling.interval;
            sampling.next += interval;
        }
        if let Trace::MetricsUpdated(new) = trace {
            sampling.metrics = *new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State of three samples: 0, then 20, then 10 bytes.
    fn sampled(summarised_from: Option<usize>) -> Sampler {
        let epoch = rdt_udp::clock::now();
        let sampler = Sampler::new(epoch, Duration::from_millis(10), summarised_from);
        let mut observer = sampler.clone();
        for (millis, cwnd) in [(5, 20), (15, 10), (25, 30)] {
            let srtt = Duration::from_secs(cwnd);
            let latest_rtt = Some(Duration::from_secs(cwnd));
            let metrics =
                Metrics { cwnd, in_flight: cwnd, snd_wnd: cwnd, srtt, latest_rtt, ..Metrics::default() };
            observer.on(epoch + Duration::from_millis(millis), &Trace::MetricsUpdated(metrics));
        }
        sampler
    }

    #[test]
    fn summaries_equal_those_of_all_samples() {
        for cut in 0..5 {
            let (all, kept) = (sampled(None), sampled(Some(cut)));
            let figures = |sampler: &Sampler| {
                let it = sampler.summary(cut);
                let means = [it.cwnd_mean(), it.in_flight_mean(), it.srtt_mean_s(), it.srtt_max_s];
                (means, it.rtt_quantiles_s(), it.cwnd_min, it.cwnd_max, sampler.rwnd_min())
            };
            assert_eq!(figures(&all), figures(&kept), "from sample {cut} on");
            assert_eq!(all.take().len(), 3);
            assert_eq!(kept.take().len(), if cut < 3 { 0 } else { 3 }, "from sample {cut} on");
        }
        let summary = sampled(None).summary(0);
        assert_eq!((summary.cwnd_mean(), summary.srtt_mean_s()), (Some(10.0), Some(15.0)));
        assert_eq!((summary.cwnd_min, summary.cwnd_max), (Some(10), Some(20)));
        let quantiles = summary.rtt_quantiles_s();
        assert_eq!(quantiles, [("rtt-p50", Some(15.0)), ("rtt-p90", None), ("rtt-p99", None)]);
    }
}
