//! Definitions of metrics that flows have with every engine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Run;
use crate::experiment::{KeepSeries, Measure, WarmUp};
use crate::flow::Flow;
use crate::record::Series;
use crate::statistics::{Cut, jain, mser5};

/// Smallest number of bins for which the rule MSER-5 cuts off a warm-up.
const MIN_BINS_FOR_MSER: usize = 40;
/// Metric of a flow whose throughput is not stationary by the rule MSER-5. Other flows lack it.
pub(crate) const NOT_STATIONARY: &str = "not-stationary";

/// Metrics and series of one flow, whose names begin with that of the flow.
pub(super) struct FlowMetrics<'a> {
    pub(super) flow: &'a Flow,
    pub(super) run: &'a mut Run,
}

impl FlowMetrics<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.flow.name)
    }

    /// Adds a metric that has a finite value.
    pub(super) fn add(&mut self, name: &str, value: Option<f64>) {
        let name = self.name(name);
        self.run.metrics.extend(value.filter(|value| value.is_finite()).map(|value| (name, value)));
    }

    pub(super) fn count(&mut self, name: &str, count: u64) {
        self.add(name, Some(number(count)));
    }

    /// Adds a time in seconds.
    pub(super) fn time(&mut self, name: &str, time: Option<Duration>) {
        self.add(name, time.map(|time| time.as_secs_f64()));
    }

    pub(super) fn column(&mut self, name: &str, values: Vec<Option<f64>>) {
        let name = self.name(name);
        self.run.series.columns.insert(name, values);
    }

    /// Adds times of events, seconds.
    pub(super) fn events(&mut self, name: &str, times: impl IntoIterator<Item = f64>) {
        for time in times {
            self.run.series.events.entry(self.name(name)).or_default().push(time);
        }
    }
}

/// Bytes that a receiver read over time.
pub(super) struct Delivered {
    /// Bytes in bins of equal width, from time 0 on.
    pub(super) bins: Vec<u64>,
    pub(super) start: Duration,
    pub(super) end: Duration,
}

/// Receiving end of a transfer.
pub(super) struct Received {
    pub(super) bytes: u64,
    pub(super) first_byte: Option<Duration>,
    /// Time at which all bytes were read.
    pub(super) completed: Option<Duration>,
    pub(super) delivered: Delivered,
}

impl Received {
    /// Adds the metrics, and returns the number of bins that are warm-up.
    pub(super) fn add_to(&self, measure: &Measure, metrics: &mut FlowMetrics<'_>) -> usize {
        let Delivered { bins, start, end } = &self.delivered;
        let Cut { bins: cut, is_stationary } = warm_up(bins, metrics.flow, *start, measure);
        let skipped: u64 = bins[..cut].iter().sum();
        let cut_time = bin_start(cut, measure.series);
        let from = if cut == 0 { *start } else { cut_time };
        let after_start = |at: Duration| at.saturating_sub(*start);
        let goodput = rate(self.bytes.saturating_sub(skipped), end.saturating_sub(from));
        metrics.add("goodput", Some(goodput));
        metrics.time("warm-up", (cut > 0).then(|| after_start(cut_time)));
        if !is_stationary {
            metrics.count(NOT_STATIONARY, 1);
        }
        metrics.count("bytes", self.bytes);
        metrics.count("bytes-in-bins", bins.iter().sum());
        metrics.time("longest-pause", longest_pause(bins, measure.series));
        metrics.time("completion", self.completed.map(after_start));
        metrics.time("first-byte", self.first_byte.map(after_start));
        cut
    }
}

/// Counts of a flow of datagrams at both ends.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) delivered: u64,
    pub(super) delivered_bytes: u64,
    pub(super) lost: u64,
    /// Datagrams with a smaller number than an earlier one.
    pub(super) reordered: u64,
    /// Time in which the socket blocked the source.
    pub(super) blocked: Duration,
    /// Interarrival jitter (RFC 3550, section 6.4.1), seconds.
    pub(super) jitter_s: f64,
    pub(super) longest_gap: Duration,
    pub(super) mean_delay: Option<Duration>,
    pub(super) max_delay: Duration,
}

impl Datagrams {
    /// Adds the metrics of a flow that lasted for `life`.
    pub(super) fn add_to(&self, life: Duration, metrics: &mut FlowMetrics<'_>) {
        metrics.add("goodput", Some(rate(self.delivered_bytes, life)));
        metrics.add("offered", Some(rate(self.sent_bytes, life)));
        metrics.count("sent", self.sent);
        metrics.count("delivered", self.delivered);
        metrics.time("blocked", Some(self.blocked));
        metrics.add("jitter", Some(self.jitter_s));
        metrics.time("longest-gap", Some(self.longest_gap));
        metrics.count("reordered", self.reordered);
        metrics.time("delay-mean", self.mean_delay);
        metrics.time("delay-max", (self.delivered > 0).then_some(self.max_delay));
        metrics.count("lost", self.lost);
        metrics.add("loss", Some(number(self.lost) / number(self.sent)));
    }
}

/// Returns the longest time between two bins with bytes, to the width of a bin.
fn longest_pause(bins: &[u64], width: Duration) -> Option<Duration> {
    let filled: Vec<usize> = bins.iter().enumerate().filter(|(_, it)| **it > 0).map(|(i, _)| i).collect();
    let longest = filled.windows(2).map(|pair| pair[1] - pair[0] - 1).max()?;
    Some(bin_start(longest, width))
}

/// Returns the bins with zeros up to `end`.
pub(super) fn padded(mut bins: Vec<u64>, end: Duration, width: Duration) -> Vec<u64> {
    let wanted = usize::try_from(end.as_nanos().div_ceil(width.as_nanos().max(1))).unwrap_or(0);
    bins.resize(wanted.max(bins.len()), 0);
    bins
}

/// Returns the bins from time 0 on that are warm-up, and left out of means. A flow with a size or a
/// rate of its own has none.
fn warm_up(bins: &[u64], flow: &Flow, start: Duration, measure: &Measure) -> Cut {
    if let Some(cut) = fixed_warm_up(flow, start, measure) {
        return Cut { bins: cut.min(bins.len()), is_stationary: true };
    }
    let first = whole_bins(start, measure);
    let values: Vec<f64> = bins.iter().skip(first).map(|bytes| number(*bytes)).collect();
    if values.len() < MIN_BINS_FOR_MSER {
        return Cut { bins: 0, is_stationary: true };
    }
    match mser5(&values) {
        cut if cut.bins == 0 => cut,
        cut => Cut { bins: (first + cut.bins).min(bins.len()), ..cut },
    }
}

/// Returns the number of bins that are warm-up, of a flow that lives as long. `None` if the rule
/// needs the bins.
pub(super) fn fixed_warm_up(flow: &Flow, start: Duration, measure: &Measure) -> Option<usize> {
    match measure.warm_up {
        _ if flow.bytes.is_some() || flow.rate.is_some() => Some(0),
        WarmUp::Time(time) if time.is_zero() => Some(0),
        WarmUp::Time(time) => Some(whole_bins(start + time, measure)),
        WarmUp::Auto => None,
    }
}

fn whole_bins(time: Duration, measure: &Measure) -> usize {
    usize::try_from(time.as_nanos() / measure.series.as_nanos().max(1)).unwrap_or(0)
}

/// True if the series of a repetition are kept. They take as long to copy as a short transfer runs.
pub(super) fn keeps_series(measure: &Measure) -> bool {
    measure.keep_series != KeepSeries::None
}

/// Adds the metrics of all flows together, over the span in which all of them were active.
pub(super) fn together(flows: &[Delivered], width: Duration, metrics: &mut BTreeMap<String, f64>) {
    let from = flows.iter().map(|it| it.start).max().unwrap_or_default();
    let to = flows.iter().map(|it| it.end).min().unwrap_or_default();
    let width_ns = width.as_nanos().max(1);
    let whole = |bins: u128| usize::try_from(bins).unwrap_or(0);
    let (first, last) = (whole(from.as_nanos().div_ceil(width_ns)), whole(to.as_nanos() / width_ns));
    if flows.is_empty() || first >= last {
        return;
    }
    let span = bin_start(last - first, width);
    let bytes = |it: &Delivered| it.bins.iter().take(last).skip(first).sum::<u64>();
    let rates: Vec<f64> = flows.iter().map(|it| rate(bytes(it), span)).collect();
    metrics.insert("sum".to_owned(), rates.iter().sum());
    if flows.len() > 1 {
        metrics.extend(jain(&rates).map(|index| ("jain".to_owned(), index)));
    }
}

/// Makes all columns as long as the longest one.
pub(super) fn equal_lengths(series: &mut Series) {
    let longest = series.columns.values().map(Vec::len).max().unwrap_or(0);
    series.columns.values_mut().for_each(|column| column.resize(longest, None));
}

#[allow(clippy::cast_precision_loss, reason = "counters are far below 2^53")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// Returns bits per second. 0 for no time.
pub(super) fn rate(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { number(bytes) * 8.0 / time.as_secs_f64() }
}

/// Returns the time at which a bin begins.
pub(super) fn bin_start(bin: usize, width: Duration) -> Duration {
    width.saturating_mul(u32::try_from(bin).unwrap_or(u32::MAX))
}
