//! Definitions of metrics that flows have with every engine.

use std::collections::BTreeMap;
use std::time::Duration;

use rdt_sim::Arrived;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::experiment::{KeepSeries, Measure, WarmUp};
use crate::flow::{Flow, FlowKind};
use crate::record::{NOT_STATIONARY, Series};
use crate::statistics::{Cut, convergence_time, jain, mser5, number};

/// Smallest number of bins for which the rule MSER-5 cuts off a warm-up.
const MIN_BINS_FOR_MSER: usize = 40;

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

    pub(super) fn time(&mut self, name: &str, time: Option<Duration>) {
        self.add(name, time.map(|time| time.as_secs_f64()));
    }

    /// Adds the shares of the flow's life in which each limit bound, from the times of start,
    /// application, recovery, window, link, congestion window and host.
    pub(super) fn limits(&mut self, times: [f64; 7], life: f64) {
        let parts = ["start", "application", "recovery", "window", "link", "cwnd", "host"];
        for (part, time) in parts.into_iter().zip(times) {
            self.add(&format!("limit.{part}"), Some(time / life));
        }
    }

    pub(super) fn column(&mut self, name: &str, values: Vec<Option<f64>>) {
        let name = self.name(name);
        self.run.series.columns.insert(name, values);
    }

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
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Datagrams {
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

impl From<&Arrived> for Datagrams {
    /// Returns the counts of the receiver.
    fn from(arrived: &Arrived) -> Self {
        Self {
            delivered: arrived.packets,
            delivered_bytes: arrived.bytes,
            reordered: arrived.reordered,
            jitter_s: arrived.jitter.seconds(),
            longest_gap: arrived.longest_gap,
            mean_delay: arrived.mean_delay(),
            max_delay: arrived.max_delay,
            ..Self::default()
        }
    }
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

/// Adds the metrics of each flow, which `each` computes, its goodput over time, and the metrics of
/// all flows together. Returns the flows with the data that arrived.
pub(super) fn of_flows<'a, T>(
    flows: impl Iterator<Item = (&'a Flow, T)>,
    measure: &Measure,
    run: &mut Run,
    mut each: impl FnMut(T, &mut FlowMetrics<'_>) -> Delivered,
) -> Vec<(&'a Flow, Delivered)> {
    let mut delivered = Vec::new();
    for (flow, counts) in flows {
        let mut metrics = FlowMetrics { flow, run };
        let it = each(counts, &mut metrics);
        if keeps_series(measure) {
            let bps = it.bins.iter().map(|bytes| Some(rate(*bytes, measure.series)));
            metrics.column("goodput", bps.collect());
        }
        delivered.push((flow, it));
    }
    together(&delivered, measure.series, &mut run.metrics);
    delivered
}

/// Returns the name of a link in metrics, by its index among `count` links.
pub(super) fn link_name(index: usize, count: usize) -> String {
    if count == 1 { "link".to_owned() } else { format!("link{}", index + 1) }
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

/// Returns the bins that are warm-up, from time 0 on: none if the flow has a size or a rate.
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

/// Returns the number of bins that are warm-up. `None` if the rule needs the bins.
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

/// Adds the metrics of all flows together, over the span in which all of them were active, and how
/// flows with feedback share a direction.
fn together(flows: &[(&Flow, Delivered)], width: Duration, metrics: &mut BTreeMap<String, f64>) {
    for reverse in [false, true] {
        let shares =
            |flow: &Flow| flow.reverse == reverse && flow.kind != FlowKind::Udp && flow.rate.is_none();
        let sharers: Vec<_> = flows.iter().filter(|(flow, _)| shares(flow)).collect();
        sharing(&sharers, width, metrics);
    }
    let from = flows.iter().map(|(_, it)| it.start).max().unwrap_or_default();
    let to = flows.iter().map(|(_, it)| it.end).min().unwrap_or_default();
    let width_ns = width.as_nanos().max(1);
    let whole = |bins: u128| usize::try_from(bins).unwrap_or(0);
    let (first, last) = (whole(from.as_nanos().div_ceil(width_ns)), whole(to.as_nanos() / width_ns));
    if flows.is_empty() || first >= last {
        return;
    }
    let span = bin_start(last - first, width);
    let bytes = |it: &Delivered| it.bins.iter().take(last).skip(first).sum::<u64>();
    let rates: Vec<f64> = flows.iter().map(|(_, it)| rate(bytes(it), span)).collect();
    metrics.insert("sum".to_owned(), rates.iter().sum());
    if flows.len() > 1 {
        metrics.extend(jain(&rates).map(|index| ("jain".to_owned(), index)));
    }
}

/// Time after a change of the flows that share a link, in which their shares are not counted.
const SETTLING: Duration = Duration::from_secs(3);

/// Adds `convergence` of each flow that joins others: the seconds from its start until all of them
/// have equal shares. `share` is the rate of a flow divided by an equal share, over the spans in
/// which the same flows share a link, without the first [`SETTLING`] of each.
fn sharing(flows: &[&(&Flow, Delivered)], width: Duration, metrics: &mut BTreeMap<String, f64>) {
    if flows.len() < 2 {
        return;
    }
    let is_active = |it: &Delivered, bin: usize| {
        it.start <= bin_start(bin, width) && bin_start(bin + 1, width) <= it.end && bin < it.bins.len()
    };
    let active = |bin: usize| -> Vec<usize> {
        (0..flows.len()).filter(|flow| is_active(&flows[*flow].1, bin)).collect()
    };
    let bins: Vec<usize> = (0..flows.iter().map(|(_, it)| it.bins.len()).max().unwrap_or(0)).collect();
    let settling =
        usize::try_from(SETTLING.as_nanos().div_ceil(width.as_nanos().max(1))).unwrap_or(usize::MAX);
    let mut before = Vec::new();
    let mut own_and_equal = vec![(0, 0.0); flows.len()];
    for span in bins.chunk_by(|a, b| active(*a) == active(*b)) {
        let sharers = active(span[0]);
        let joined = |flow: &&usize| !before.contains(*flow);
        let bytes = |flow: usize, bin: usize| flows[flow].1.bins[bin];
        let row = |flow: &usize| span.iter().map(|bin| number(bytes(*flow, *bin))).collect();
        let rates: Vec<Vec<f64>> = sharers.iter().map(row).collect();
        let fair = convergence_time(&rates, width.as_secs_f64()).filter(|_| sharers.len() > 1);
        for (flow, it) in sharers.iter().filter(joined).map(|flow| flows[*flow]) {
            let after = fair.map(|bins| bin_start(span[0] + bins, width).saturating_sub(it.start));
            metrics.extend(after.map(|time| (format!("{}.convergence", flow.name), time.as_secs_f64())));
        }
        for bin in span.iter().skip(settling).filter(|_| sharers.len() > 1) {
            let all: u64 = sharers.iter().map(|flow| bytes(*flow, *bin)).sum();
            for flow in &sharers {
                own_and_equal[*flow].0 += bytes(*flow, *bin);
                own_and_equal[*flow].1 += number(all) / number(sharers.len() as u64);
            }
        }
        before = sharers;
    }
    for ((flow, _), (own, equal)) in flows.iter().zip(own_and_equal) {
        if equal > 0.0 {
            metrics.insert(format!("{}.share", flow.name), number(own) / equal);
        }
    }
}

/// Makes all columns as long as the longest one.
pub(super) fn equal_lengths(series: &mut Series) {
    let longest = series.columns.values().map(Vec::len).max().unwrap_or(0);
    series.columns.values_mut().for_each(|column| column.resize(longest, None));
}

/// Returns bits per second. 0 for no time.
pub(super) fn rate(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { number(bytes) * 8.0 / time.as_secs_f64() }
}

pub(super) fn bin_start(bin: usize, width: Duration) -> Duration {
    width.saturating_mul(u32::try_from(bin).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flow one is alone, then beside two, which has its share after 2 s, then alone again.
    #[test]
    fn late_flow_converges_and_shares_leave_out_settling() {
        let seconds = Duration::from_secs;
        let flow = |bins: Vec<u64>, start, end| Delivered { bins, start, end };
        let one = [vec![100; 5], vec![90, 80], vec![55; 6], vec![100; 4]].concat();
        let two = [vec![0; 5], vec![10, 20], vec![45; 6]].concat();
        let (one_end, two_end) = (seconds(one.len() as u64), seconds(two.len() as u64));
        let names = [Flow::new("one"), Flow::new("two")];
        let flows = [
            (&names[0], flow(one, seconds(0), one_end)),
            (&names[1], flow(two, Duration::from_millis(4_900), two_end)),
        ];
        let mut metrics = BTreeMap::new();
        together(&flows, seconds(1), &mut metrics);
        assert!((metrics["two.convergence"] - 2.1).abs() < 1e-9, "{metrics:?}");
        assert!(!metrics.contains_key("one.convergence"), "it joins no other");
        assert!((metrics["one.share"] - 1.1).abs() < 1e-9, "{metrics:?}");
        assert!((metrics["two.share"] - 0.9).abs() < 1e-9, "{metrics:?}");
    }

    #[test]
    fn lone_flows_have_no_share() {
        let name = Flow::new("a");
        let it = Delivered { bins: vec![9; 9], start: Duration::ZERO, end: Duration::from_secs(9) };
        let mut metrics = BTreeMap::new();
        together(&[(&name, it)], Duration::from_secs(1), &mut metrics);
        assert_eq!(metrics.into_keys().collect::<Vec<_>>(), ["sum"]);
    }
}
