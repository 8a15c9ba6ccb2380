//! From the counts of the load program and the account of the path to metrics and series, with the
//! names that they have in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::super::Run;
use super::super::metrics::{Delivered, equal_lengths, longest_pause, number, rate, together, warm_up};
use crate::cell::Physics;
use crate::experiment::Measure;
use crate::flow::{Flow, FlowKind};
use crate::load::request::Request;
use crate::statistics::mean;

/// States of the kernel's congestion control (`tcpi_ca_state`).
const CWR: u64 = 2;
const RECOVERY: u64 = 3;
const LOSS: u64 = 4;
/// Bits of a packet that fills Ethernet.
const PACKET_BITS: f64 = 12_000.0;
/// A link with a queue lengthens the round trip by more than this share of the shortest one.
const QUEUE_SHARE: f64 = 0.1;

/// Collects the metrics of a repetition. `None` if the counts are not those of the request.
pub(super) fn of(
    physics: &Physics,
    request: &Request,
    counts: &Value,
    accounts: &[Value],
    measure: &Measure,
) -> Option<Run> {
    let flows = counts["flows"].as_array().filter(|flows| flows.len() == request.flows.len())?;
    let mut run = Run::default();
    run.metrics.extend(time(&counts["processor_ns"]).map(|it| ("processor".to_owned(), it.as_secs_f64())));
    run.series.bin_s = measure.series.as_secs_f64();
    let last = flows.iter().filter_map(ended).max().unwrap_or_default();
    let ended = physics.duration.unwrap_or(last);
    let mut delivered = Vec::new();
    for (flow, counts) in request.flows.iter().zip(flows) {
        let mut named = Named { flow: &flow.name, run: &mut run };
        let it = if flow.kind == FlowKind::Udp {
            datagrams(flow, counts, ended, measure, &mut named)
        } else {
            transfer(flow, counts, ended, physics, measure, &mut named)
        };
        let bps = it.bins.iter().map(|bytes| Some(rate(*bytes, measure.series)));
        named.column("goodput", bps.collect());
        delivered.push(it);
    }
    together(&delivered, measure.series, &mut run.metrics);
    for (index, account) in accounts.iter().enumerate() {
        let name = if accounts.len() == 1 { "link".to_owned() } else { format!("link{}", index + 1) };
        for direction in ["forward", "reverse"] {
            link(&name, direction, account, ended, &mut run.metrics);
        }
    }
    equal_lengths(&mut run.series);
    Some(run)
}

/// Returns the time at which a flow ended: all was received, or sent if it is not acknowledged.
fn ended(counts: &Value) -> Option<Duration> {
    time(&counts["received"]["completed_ns"]).or_else(|| time(&counts["ended_ns"]))
}

fn time(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_nanos)
}

fn micros(value: &Value) -> Option<f64> {
    value.as_f64().map(|micros| micros / 1e6)
}

/// Metrics and columns of one flow.
struct Named<'a> {
    flow: &'a str,
    run: &'a mut Run,
}

impl Named<'_> {
    fn add(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.run.metrics.insert(format!("{}.{name}", self.flow), value);
        }
    }

    fn column(&mut self, name: &str, values: Vec<Option<f64>>) {
        self.run.series.columns.insert(format!("{}.{name}", self.flow), values);
    }

    fn events(&mut self, name: &str, at: Vec<f64>) {
        if !at.is_empty() {
            self.run.series.events.insert(format!("{}.{name}", self.flow), at);
        }
    }
}

fn bins(counts: &Value, end: Duration, width: Duration) -> Vec<u64> {
    let bins = counts["received"]["bins"].as_array().into_iter().flatten();
    let mut bins: Vec<u64> = bins.map(|bytes| bytes.as_u64().unwrap_or(0)).collect();
    let wanted = usize::try_from(end.as_nanos().div_ceil(width.as_nanos().max(1))).unwrap_or(0);
    bins.resize(wanted.max(bins.len()), 0);
    bins
}

fn transfer(
    flow: &Flow,
    counts: &Value,
    ended: Duration,
    physics: &Physics,
    measure: &Measure,
    named: &mut Named<'_>,
) -> Delivered {
    let received = &counts["received"];
    let start = flow.start.0;
    let completed = time(&received["completed_ns"]);
    let end = completed.unwrap_or(ended).min(ended);
    let bins = bins(counts, end, measure.series);
    let life = end.saturating_sub(start);
    let cut = warm_up(&bins, flow, start, measure);
    let skipped: u64 = bins[..cut].iter().sum();
    let cut_time = measure.series.saturating_mul(u32::try_from(cut).unwrap_or(u32::MAX));
    let span = if cut == 0 { life } else { end.saturating_sub(cut_time) };
    let bytes = received["bytes"].as_u64().unwrap_or(0);
    let after_start = |at: Duration| at.saturating_sub(start).as_secs_f64();
    named.add("goodput", Some(rate(bytes.saturating_sub(skipped), span)));
    named.add("warm-up", (cut > 0).then(|| after_start(cut_time)));
    named.add("bytes", Some(number(bytes)));
    named.add("bytes-in-bins", Some(number(bins.iter().sum())));
    named.add("longest-pause", longest_pause(&bins, measure.series).map(|it| it.as_secs_f64()));
    named.add("bytes-written", counts["sent_bytes"].as_f64());
    named.add("completion", completed.map(after_start));
    named.add("first-byte", time(&received["first_byte_ns"]).map(after_start));
    named.add("failed", Some(f64::from(u8::from(counts["error"].is_string()))));
    named.add("handshake-rtt", time(&counts["handshake_ns"]).map(|it| it.as_secs_f64()));
    let last = &counts["samples"]["last"];
    for (metric, key) in [
        ("retransmitted", "retransmitted"),
        ("spurious", "duplicates"),
        ("packets-sent", "segments_sent"),
        ("acks-received", "segments_received"),
        ("mss", "mss"),
        ("lost", "lost"),
        ("lost-receiver-socket", "lost_to_socket"),
    ] {
        named.add(metric, last[key].as_f64());
    }
    named.add("rtt-min", micros(&last["min_rtt_us"]));
    named.add("waited-window", micros(&last["window_limited_us"]));
    named.add("waited-buffer", micros(&last["buffer_limited_us"]));
    let samples = Samples::new(&counts["samples"]);
    let timeouts = samples.rises("ca_state", LOSS);
    named.add("timeouts", last["timeouts"].as_f64().or(Some(number(timeouts.len() as u64))));
    let recoveries = samples.rises("ca_state", RECOVERY);
    named.add("recoveries", last["recoveries"].as_f64().or(Some(number(recoveries.len() as u64))));
    named.add("ecn-reductions", Some(number(samples.rises("ca_state", CWR).len() as u64)));
    named.events("timeout", timeouts);
    named.events("fast-retransmit", recoveries);
    samples.means(cut_time, named);
    samples.columns(measure.series, named);
    let shortest = micros(&last["min_rtt_us"]).unwrap_or_default();
    let queue = shortest * (1.0 + QUEUE_SHARE) + packet_time(physics, flow.reverse);
    let handshake = time(&counts["handshake_ns"]).unwrap_or_default();
    for (limit, share) in samples.limits(start, handshake, end, queue) {
        named.add(&format!("limit.{limit}"), Some(share));
    }
    Delivered { bins, start, end }
}

/// Returns the time of a packet on the link, seconds; 0 without a rate.
fn packet_time(physics: &Physics, reverse: bool) -> f64 {
    let config = physics.links.first().and_then(|link| link.to_path_config(|_| Err(String::new())).ok());
    let link = config.map(|config| if reverse { config.reverse } else { config.forward });
    link.and_then(|link| link.highest_rate()).map_or(0.0, |rate| PACKET_BITS / rate.as_bps_f64())
}

/// Samples of `TCP_INFO` in columns.
struct Samples<'a> {
    columns: &'a Value,
    at: Vec<Duration>,
}

impl<'a> Samples<'a> {
    fn new(columns: &'a Value) -> Self {
        let at = columns["at_ns"].as_array().into_iter().flatten().filter_map(time);
        Self { columns, at: at.collect() }
    }

    fn value(&self, name: &str, row: usize) -> u64 {
        self.columns[name][row].as_u64().unwrap_or(0)
    }

    fn column(&self, name: &str) -> Vec<u64> {
        (0..self.at.len()).map(|row| self.value(name, row)).collect()
    }

    /// Returns the times at which a column becomes `level`, seconds.
    fn rises(&self, name: &str, level: u64) -> Vec<f64> {
        let values = self.column(name);
        let pairs = (1..values.len()).filter(|row| values[*row] == level && values[row - 1] != level);
        pairs.map(|row| self.at[row].as_secs_f64()).collect()
    }

    /// Adds the means and extremes of the samples from `from` on.
    fn means(&self, from: Duration, named: &mut Named<'_>) {
        let first = self.at.partition_point(|at| *at < from);
        let after =
            |name: &str| -> Vec<f64> { self.column(name)[first..].iter().map(|it| number(*it)).collect() };
        let cwnd = after("cwnd");
        named.add("cwnd-mean", mean(&cwnd));
        named.add("cwnd-max", cwnd.iter().copied().reduce(f64::max));
        let rtts: Vec<f64> = after("srtt_us").iter().filter(|it| **it > 0.0).map(|it| it / 1e6).collect();
        named.add("rtt-mean", mean(&rtts));
        named.add("rtt-max", rtts.iter().copied().reduce(f64::max));
        named.add("in-flight-mean", mean(&after("in_flight")));
    }

    /// Adds the first sample of each bin.
    fn columns(&self, width: Duration, named: &mut Named<'_>) {
        let bin_of = |at: &Duration| usize::try_from(at.as_nanos() / width.as_nanos().max(1)).unwrap_or(0);
        let bins = self.at.last().map_or(0, |at| bin_of(at) + 1);
        let mut rows = vec![None; bins];
        for (row, at) in self.at.iter().enumerate() {
            rows[bin_of(at)].get_or_insert(row);
        }
        let binned = |name: &str| -> Vec<Option<u64>> {
            rows.iter().map(|row| row.map(|row| self.value(name, row))).collect()
        };
        let plain = |name: &str| binned(name).iter().map(|it| it.map(number)).collect();
        let positive = |name: &str, unit: f64| {
            binned(name).iter().map(|it| it.filter(|it| *it > 0).map(|it| number(it) / unit)).collect()
        };
        named.column("cwnd", plain("cwnd"));
        named.column("ssthresh", positive("ssthresh", 1.0));
        named.column("srtt", positive("srtt_us", 1e6));
        named.column("rto", positive("rto_us", 1e6));
        named.column("in-flight", plain("in_flight"));
        named.column("rwnd", plain("peer_window"));
    }

    /// Returns what limited the flow, as shares of its life. The kernel counts the times of the
    /// windows and of the application; the time that is left is the link's while a queue lengthens
    /// the round trip beyond `queue` seconds, and the congestion window's otherwise.
    fn limits(
        &self,
        start: Duration,
        handshake: Duration,
        end: Duration,
        queue: f64,
    ) -> Vec<(&'static str, f64)> {
        let mut recovery = 0.0;
        // Times outside recovery. The kernel counts in ticks of up to 10 ms, so only sums are
        // exact.
        let (mut all, mut busy, mut window, mut host) = (0.0, 0.0, 0.0, 0.0);
        let (mut queued, mut unqueued) = (0.0, 0.0);
        let seconds = |name: &str, row: usize| {
            let rise = self.value(name, row).saturating_sub(self.value(name, row - 1));
            number(rise) / 1e6
        };
        for row in 1..self.at.len() {
            let (from, to) = (self.at[row - 1].max(start + handshake), self.at[row].min(end));
            let span = to.saturating_sub(from).as_secs_f64();
            if self.value("ca_state", row) >= RECOVERY {
                recovery += span;
                continue;
            }
            all += span;
            busy += seconds("busy_us", row);
            window += seconds("window_limited_us", row);
            host += seconds("buffer_limited_us", row);
            let is_queued = number(self.value("srtt_us", row)) / 1e6 > queue;
            *(if is_queued { &mut queued } else { &mut unqueued }) += span;
        }
        let handshake = handshake.min(end.saturating_sub(start)).as_secs_f64();
        let life = handshake + recovery + all;
        if life <= 0.0 {
            return Vec::new();
        }
        let application = f64::max(all - busy, 0.0);
        let window = window.min(all - application);
        let host = host.min(all - application - window);
        let rest = all - application - window - host;
        let link = if queued > 0.0 { rest * queued / (queued + unqueued) } else { 0.0 };
        let parts = [
            ("start", handshake),
            ("application", application),
            ("recovery", recovery),
            ("window", window),
            ("link", link),
            ("cwnd", rest - link),
            ("host", host),
        ];
        parts.map(|(part, seconds)| (part, seconds / life)).to_vec()
    }
}

fn datagrams(
    flow: &Flow,
    counts: &Value,
    ended: Duration,
    measure: &Measure,
    named: &mut Named<'_>,
) -> Delivered {
    let received = &counts["received"];
    let start = flow.start.0;
    let end = flow.stop.unwrap_or(ended).min(ended);
    let life = end.saturating_sub(start);
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let (sent, delivered) = (count(&counts["sent_packets"]), count(&received["packets"]));
    let lost = sent.saturating_sub(delivered + count(&received["late_packets"]));
    named.add("goodput", Some(rate(count(&received["bytes"]), life)));
    named.add("bytes", received["bytes"].as_f64());
    named.add("offered", Some(rate(count(&counts["sent_bytes"]), life)));
    named.add("sent", Some(number(sent)));
    named.add("delivered", Some(number(delivered)));
    named.add("refused", counts["refused_packets"].as_f64());
    named.add("failed", Some(f64::from(u8::from(counts["error"].is_string()))));
    named.add("blocked", time(&counts["blocked_ns"]).map(|it| it.as_secs_f64()));
    named.add("jitter", received["jitter_s"].as_f64());
    named.add("longest-gap", time(&received["longest_gap_ns"]).map(|it| it.as_secs_f64()));
    named.add("reordered", received["reordered"].as_f64());
    let delays = time(&received["delay_sum_ns"]).map(|it| it.as_secs_f64() / number(delivered));
    named.add("delay-mean", delays);
    let most = time(&received["delay_max_ns"]).filter(|_| delivered > 0);
    named.add("delay-max", most.map(|it| it.as_secs_f64()));
    named.add("lost", Some(number(lost)));
    named.add("loss", (sent > 0).then(|| number(lost) / number(sent)));
    Delivered { bins: bins(counts, ended, measure.series), start, end }
}

/// Adds the account of one direction of the link; its utilisation if `ended` is not zero.
pub(in super::super) fn link(
    name: &str,
    direction: &str,
    account: &Value,
    ended: Duration,
    metrics: &mut BTreeMap<String, f64>,
) {
    let account = &account[direction];
    let mut add = |key: &str, value: Option<f64>| {
        metrics.extend(value.map(|value| (format!("{name}.{direction}.{key}"), value)));
    };
    add("sent", account["arrived"].as_f64());
    add("delivered", account["delivered"].as_f64());
    add("marked", account["marked"].as_f64());
    for (cause, packets) in account["dropped"].as_object().into_iter().flatten() {
        let packets = packets.as_f64().filter(|it| *it > 0.0 || matches!(cause.as_str(), "loss" | "queue"));
        add(&format!("dropped-{cause}"), packets);
    }
    add("lost-before", account["lost_before"].as_f64().filter(|it| *it > 0.0));
    add("queue-delay-p50", micros(&account["queue_delay_us"]["p50"]));
    add("queue-delay-p99", micros(&account["queue_delay_us"]["p99"]));
    add("queue-delay-max", micros(&account["queue_delay_us"]["max"]));
    add("lateness-p99", micros(&account["lateness_us"]["p99"]));
    if !ended.is_zero() {
        add("utilisation", micros(&account["busy_us"]).map(|busy| busy / ended.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use rdt_emulator::spec::PathSpec;
    use serde_json::json;

    use super::*;
    use crate::cell::EngineKind;
    use crate::experiment::WarmUp;

    /// Counts as the load program prints them: a transfer of 3,000 bytes in 0.25 s with one
    /// timeout.
    fn counts() -> Value {
        json!({ "flows": [{
            "name": "a", "handshake_ns": 10_000_000, "sent_bytes": 3_000, "sent_packets": 0,
            "refused_packets": 0, "blocked_ns": 0, "ended_ns": 200_000_000, "error": null,
            "received": {
                "bytes": 3_000, "bins": [1_000, 0, 2_000], "first_byte_ns": 20_000_000,
                "completed_ns": 250_000_000, "packets": 0, "late_packets": 0,
            },
            "samples": {
                "at_ns": [10_000_000, 110_000_000, 210_000_000, 250_000_000],
                "cwnd": [14_480, 1_448, 2_896, 2_896],
                "ssthresh": [0, 7_240, 7_240, 7_240],
                "srtt_us": [10_000, 10_000, 30_000, 30_000],
                "ca_state": [0, 4, 0, 0],
                "in_flight": [2_896, 1_448, 0, 0],
                "busy_us": [0, 100_000, 180_000, 200_000],
                "window_limited_us": [0, 0, 40_000, 40_000],
                "buffer_limited_us": [0, 0, 0, 0],
                "last": { "retransmitted": 2, "timeouts": 1, "min_rtt_us": 10_000, "mss": 1_448 },
            },
        }]})
    }

    fn account() -> Value {
        let link = json!({
            "arrived": 5, "delivered": 4, "dropped": { "loss": 1, "queue": 0, "aqm": 0 }, "busy_us": 25_000.0,
        });
        json!({ "forward": link, "reverse": {} })
    }

    fn run(flow: Flow, counts: &Value) -> Option<Run> {
        let physics = Physics {
            engine: EngineKind::Kernel,
            duration: None,
            links: vec![PathSpec::from_toml("rtt = '10ms'\nrate = '8mbit'").expect("a path")],
            flows: vec![flow.clone()],
            engine_words: Vec::new(),
        };
        let request = Request {
            flows: vec![flow],
            has_path: true,
            offload: true,
            seed: 1,
            bin: Duration::from_millis(100),
            duration: None,
            sysctls: Vec::new(),
            metrics: [Vec::new(), Vec::new()],
        };
        let measure = Measure { warm_up: WarmUp::Time(Duration::ZERO), ..Measure::default() };
        of(&physics, &request, counts, &[account()], &measure)
    }

    fn tcp() -> Flow {
        Flow { kind: FlowKind::Tcp, bytes: Some(3_000), ..Flow::new("a") }
    }

    #[test]
    fn counts_become_metrics() {
        let run = run(tcp(), &counts()).expect("counts of the request");
        let wanted = [
            ("a.goodput", 3_000.0 * 8.0 / 0.25),
            ("a.completion", 0.25),
            ("a.first-byte", 0.02),
            ("a.bytes-in-bins", 3_000.0),
            ("a.longest-pause", 0.1),
            ("a.handshake-rtt", 0.01),
            ("a.retransmitted", 2.0),
            ("a.timeouts", 1.0),
            ("a.rtt-min", 0.01),
            ("a.cwnd-mean", (14_480.0 + 1_448.0 + 2.0 * 2_896.0) / 4.0),
            ("link.forward.dropped-loss", 1.0),
            ("link.forward.utilisation", 0.1),
        ];
        for (name, value) in wanted {
            assert!((run.metrics[name] - value).abs() < 1e-9 * value, "{name}: {}", run.metrics[name]);
        }
        assert!(!run.metrics.contains_key("link.forward.dropped-aqm"), "a cause without packets");
    }

    #[test]
    fn limits_sum_to_one() {
        let run = run(tcp(), &counts()).expect("counts of the request");
        let limit = |name: &str| run.metrics[&format!("a.limit.{name}")];
        let names = ["start", "application", "recovery", "window", "link", "cwnd", "host"];
        assert!((names.map(limit).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // Of 250 ms: 10 handshake, 100 after the timeout, 40 receiver's window, 40 idle, 60 a
        // queue.
        assert!((limit("recovery") - 0.4).abs() < 1e-9 && (limit("window") - 0.16).abs() < 1e-9);
        assert!((limit("application") - 0.16).abs() < 1e-9 && (limit("link") - 0.24).abs() < 1e-9);
    }

    #[test]
    fn samples_become_columns_and_events() {
        let run = run(tcp(), &counts()).expect("counts of the request");
        let columns = &run.series.columns;
        assert_eq!(columns["a.goodput"], [Some(80_000.0), Some(0.0), Some(160_000.0)]);
        assert_eq!(columns["a.cwnd"], [Some(14_480.0), Some(1_448.0), Some(2_896.0)]);
        assert_eq!(columns["a.ssthresh"], [None, Some(7_240.0), Some(7_240.0)]);
        assert_eq!(run.series.events["a.timeout"], [0.11]);
    }

    #[test]
    fn datagrams_on_the_way_are_not_lost() {
        let mut counts = counts();
        let flow = &mut counts["flows"][0];
        flow["sent_packets"] = 10.into();
        (flow["received"]["packets"], flow["received"]["late_packets"]) = (7.into(), 2.into());
        let udp = Flow { kind: FlowKind::Udp, rate: Some(1_000_000), ..Flow::new("a") };
        let run = run(udp, &counts).expect("counts of the request");
        assert_eq!((run.metrics["a.lost"], run.metrics["a.loss"]), (1.0, 0.1));
    }

    #[test]
    fn counts_of_other_flows_are_refused() {
        assert!(run(tcp(), &json!({ "flows": [] })).is_none());
        assert!(run(tcp(), &json!({})).is_none());
    }
}
