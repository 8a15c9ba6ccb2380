//! From the counts of the load program and the account of the path to metrics and series, with the
//! names that they have in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::super::Run;
use super::super::flow_metrics::{
    Datagrams, Delivered, FlowMetrics, Received, bin_start, equal_lengths, keeps_series, number, padded,
    rate, together,
};
use super::super::programs::LinkAccount;
use crate::cell::Physics;
use crate::experiment::Measure;
use crate::flow::FlowKind;
use crate::load::request::{Request, time};
use crate::load::{CA_CWR, CA_LOSS, CA_RECOVERY, numbers};
use crate::statistics::mean;

/// Bits of a packet that fills Ethernet.
const PACKET_BITS: f64 = 12_000.0;
/// A round-trip time longer than the smallest by more than this share is due to a queue.
const QUEUE_SHARE: f64 = 0.1;

/// Collects the metrics of a repetition. `None` if the counts are not those of the request.
pub(super) fn of(
    physics: &Physics,
    request: &Request,
    counts: &Value,
    accounts: &[LinkAccount],
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
        let mut metrics = FlowMetrics { flow, run: &mut run };
        metrics.count("failed", counts["error"].is_string().into());
        let it = if flow.kind == FlowKind::Udp {
            datagrams(counts, ended, measure, &mut metrics)
        } else {
            transfer(counts, ended, physics, measure, &mut metrics)
        };
        if keeps_series(measure) {
            let bps = it.bins.iter().map(|bytes| Some(rate(*bytes, measure.series)));
            metrics.column("goodput", bps.collect());
        }
        delivered.push((flow, it));
    }
    together(&delivered, measure.series, &mut run.metrics);
    for (index, account) in accounts.iter().enumerate() {
        let name = if accounts.len() == 1 { "link".to_owned() } else { format!("link{}", index + 1) };
        for (index, direction) in ["forward", "reverse"].into_iter().enumerate() {
            let start = time(&counts["zero_monotonic_ns"]).map(|it| it.as_secs_f64());
            let share = start.and_then(|start| account.utilisation(index, start, ended.as_secs_f64()));
            link(&name, direction, &account.end, share, &mut run.metrics);
        }
    }
    equal_lengths(&mut run.series);
    Some(run)
}

/// Returns the time at which a flow ended: its last byte was read or, of datagrams, sent.
fn ended(counts: &Value) -> Option<Duration> {
    time(&counts["received"]["completed_ns"]).or_else(|| time(&counts["ended_ns"]))
}

fn micros(value: &Value) -> Option<f64> {
    value.as_f64().map(|micros| micros / 1e6)
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn bins(received: &Value, end: Duration, width: Duration) -> Vec<u64> {
    padded(numbers(&received["bins"]).collect(), end, width)
}

fn transfer(
    counts: &Value,
    ended: Duration,
    physics: &Physics,
    measure: &Measure,
    metrics: &mut FlowMetrics<'_>,
) -> Delivered {
    let flow = metrics.flow;
    let read = &counts["received"];
    let completed = time(&read["completed_ns"]);
    let end = completed.unwrap_or(ended).min(ended);
    let start = flow.start.0;
    let received = Received {
        bytes: count(&read["bytes"]),
        first_byte: time(&read["first_byte_ns"]),
        completed,
        delivered: Delivered { bins: bins(read, end, measure.series), start, end },
    };
    let cut = received.add_to(measure, metrics);
    metrics.add("bytes-written", counts["sent_bytes"].as_f64());
    metrics.time("handshake-rtt", time(&counts["handshake_ns"]));
    let samples = Samples::new(&counts["samples"]);
    counters(&samples, metrics);
    samples.means(bin_start(cut, measure.series), metrics);
    if keeps_series(measure) {
        samples.columns(measure.series, metrics);
    }
    let shortest = micros(&counts["samples"]["last"]["min_rtt_us"]).unwrap_or_default();
    let queue = shortest * (1.0 + QUEUE_SHARE) + packet_time(physics, flow.reverse);
    let handshake = time(&counts["handshake_ns"]).unwrap_or_default();
    for (limit, share) in samples.limits(start, handshake, end, queue) {
        metrics.add(&format!("limit.{limit}"), Some(share));
    }
    received.delivered
}

/// Adds the counters of the last sample. Where the kernel does not count timeouts and recoveries,
/// samples in these states count.
fn counters(samples: &Samples<'_>, metrics: &mut FlowMetrics<'_>) {
    let last = samples.last;
    for (metric, key) in [
        ("retransmitted", "retransmitted"),
        ("spurious", "duplicates"),
        ("packets-sent", "segments_sent"),
        ("acks-received", "segments_received"),
        ("mss", "mss"),
        ("lost", "lost"),
        ("lost-receiver-socket", "lost_to_socket"),
    ] {
        metrics.add(metric, last[key].as_f64());
    }
    metrics.add("rtt-min", micros(&last["min_rtt_us"]));
    metrics.add("waited-window", micros(&last["window_limited_us"]));
    metrics.add("waited-buffer", micros(&last["buffer_limited_us"]));
    let timeouts = samples.rises("ca_state", CA_LOSS);
    metrics.add("timeouts", last["timeouts"].as_f64().or(Some(number(timeouts.len() as u64))));
    let recoveries = samples.rises("ca_state", CA_RECOVERY);
    metrics.add("recoveries", last["recoveries"].as_f64().or(Some(number(recoveries.len() as u64))));
    metrics.count("ecn-reductions", samples.rises("ca_state", CA_CWR).len() as u64);
    metrics.events("timeout", timeouts);
    metrics.events("fast-retransmit", recoveries);
}

/// Returns the serialisation time of a full packet on the first link, seconds; 0 without a rate.
fn packet_time(physics: &Physics, reverse: bool) -> f64 {
    let config = physics.links.first().and_then(|link| link.to_path_config(|_| Err(String::new())).ok());
    let link = config.map(|config| if reverse { config.reverse } else { config.forward });
    link.and_then(|link| link.highest_rate()).map_or(0.0, |rate| PACKET_BITS / rate.as_bps_f64())
}

/// Samples of `TCP_INFO` in columns.
struct Samples<'a> {
    /// Counters of the last sample.
    last: &'a Value,
    columns: BTreeMap<&'a str, Vec<u64>>,
    at: Vec<Duration>,
}

impl<'a> Samples<'a> {
    fn new(columns: &'a Value) -> Self {
        let at = numbers(&columns["at_ns"]).map(Duration::from_nanos).collect();
        let lists = columns.as_object().into_iter().flatten().filter(|(_, list)| list.is_string());
        let lists = lists.map(|(name, list)| (&**name, numbers(list).collect()));
        Self { last: &columns["last"], columns: lists.collect(), at }
    }

    fn value(&self, name: &str, row: usize) -> u64 {
        self.column(name).get(row).copied().unwrap_or(0)
    }

    fn column(&self, name: &str) -> &[u64] {
        self.columns.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the times at which a column becomes `level`, seconds.
    fn rises(&self, name: &str, level: u64) -> Vec<f64> {
        let values = self.column(name);
        let pairs = (1..values.len()).filter(|row| values[*row] == level && values[row - 1] != level);
        pairs.map(|row| self.at[row].as_secs_f64()).collect()
    }

    /// Adds the means and extremes of the samples from `from` on.
    fn means(&self, from: Duration, metrics: &mut FlowMetrics<'_>) {
        let first = self.at.partition_point(|at| *at < from);
        let after = |name: &str| -> Vec<f64> {
            self.column(name).get(first..).unwrap_or_default().iter().map(|it| number(*it)).collect()
        };
        let cwnd = after("cwnd");
        metrics.add("cwnd-mean", mean(&cwnd));
        metrics.add("cwnd-max", cwnd.iter().copied().reduce(f64::max));
        let rtts: Vec<f64> = after("srtt_us").iter().filter(|it| **it > 0.0).map(|it| it / 1e6).collect();
        metrics.add("rtt-mean", mean(&rtts));
        metrics.add("rtt-max", rtts.iter().copied().reduce(f64::max));
        metrics.add("in-flight-mean", mean(&after("in_flight")));
    }

    /// Adds the first sample of each bin.
    fn columns(&self, width: Duration, metrics: &mut FlowMetrics<'_>) {
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
        metrics.column("cwnd", plain("cwnd"));
        metrics.column("ssthresh", positive("ssthresh", 1.0));
        metrics.column("srtt", positive("srtt_us", 1e6));
        metrics.column("rto", positive("rto_us", 1e6));
        metrics.column("in-flight", plain("in_flight"));
        metrics.column("rwnd", plain("peer_window"));
    }

    /// Returns for each limit the share of the flow's life in which it bound. The kernel counts the
    /// times of the receiver's window, the send buffer and the application. The rest is the link's
    /// while the round trip is longer than `queue` seconds, and the congestion window's otherwise.
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
            if self.value("ca_state", row) >= CA_RECOVERY {
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

fn datagrams(counts: &Value, ended: Duration, measure: &Measure, metrics: &mut FlowMetrics<'_>) -> Delivered {
    let received = &counts["received"];
    let flow = metrics.flow;
    let start = flow.start.0;
    let end = flow.stop.unwrap_or(ended).min(ended);
    let (sent, delivered) = (count(&counts["sent_packets"]), count(&received["packets"]));
    let delay = time(&received["delay_sum_ns"]).unwrap_or_default();
    let datagrams = Datagrams {
        sent,
        sent_bytes: count(&counts["sent_bytes"]),
        delivered,
        delivered_bytes: count(&received["bytes"]),
        // Datagrams that arrive after the end are not lost.
        lost: sent.saturating_sub(delivered + count(&received["late_packets"])),
        reordered: count(&received["reordered"]),
        blocked: time(&counts["blocked_ns"]).unwrap_or_default(),
        jitter_s: received["jitter_s"].as_f64().unwrap_or(0.0),
        longest_gap: time(&received["longest_gap_ns"]).unwrap_or_default(),
        mean_delay: delay.checked_div(u32::try_from(delivered).unwrap_or(u32::MAX)),
        max_delay: time(&received["delay_max_ns"]).unwrap_or_default(),
    };
    datagrams.add_to(end.saturating_sub(start), metrics);
    metrics.count("bytes", datagrams.delivered_bytes);
    metrics.add("refused", counts["refused_packets"].as_f64());
    Delivered { bins: bins(received, ended, measure.series), start, end }
}

/// Adds the account of one direction of a link, and its utilisation.
pub(in super::super) fn link(
    name: &str,
    direction: &str,
    account: &Value,
    utilisation: Option<f64>,
    metrics: &mut BTreeMap<String, f64>,
) {
    let account = &account[direction];
    let mut add = |key: &str, value: Option<f64>| {
        metrics.extend(value.map(|value| (format!("{name}.{direction}.{key}"), value)));
    };
    let seconds = |value: &Value| value.as_f64().map(|nanos| nanos / 1e9);
    add("sent", account["arrived"].as_f64());
    add("delivered", account["delivered"].as_f64());
    let packets = account["delivered"].as_f64().filter(|it| *it > 0.0);
    let bytes = account["delivered_bytes"].as_f64();
    add("bytes-per-packet", bytes.zip(packets).map(|(bytes, packets)| bytes / packets));
    add("marked", account["marked"].as_f64());
    for (cause, packets) in account["dropped"].as_object().into_iter().flatten() {
        let packets = packets.as_f64().filter(|it| *it > 0.0 || matches!(cause.as_str(), "loss" | "queue"));
        add(&format!("dropped-{cause}"), packets);
    }
    add("lost-before", account["lost_before"].as_f64().filter(|it| *it > 0.0));
    add("queue-delay-p50", seconds(&account["queue_delay_ns"]["p50"]));
    add("queue-delay-p99", seconds(&account["queue_delay_ns"]["p99"]));
    add("queue-delay-max", seconds(&account["queue_delay_ns"]["max"]));
    add("lateness-p99", seconds(&account["lateness_ns"]["p99"]));
    add("utilisation", utilisation);
}

#[cfg(test)]
mod tests {
    use rdt_emulator::spec::PathSpec;
    use serde_json::json;

    use super::*;
    use crate::cell::EngineKind;
    use crate::experiment::WarmUp;
    use crate::flow::Flow;

    /// Time 0 of the flows on the system's monotonic clock.
    const START: Duration = Duration::from_secs(7);

    /// Counts as the load program prints them: a transfer of 3,000 bytes in 0.25 s with one
    /// timeout.
    fn counts() -> Value {
        json!({ "zero_monotonic_ns": 7_000_000_000_u64, "flows": [{
            "name": "a", "handshake_ns": 10_000_000, "sent_bytes": 3_000, "sent_packets": 0,
            "refused_packets": 0, "blocked_ns": 0, "ended_ns": 200_000_000, "error": null,
            "received": {
                "bytes": 3_000, "bins": "1000 0 2000", "first_byte_ns": 20_000_000,
                "completed_ns": 250_000_000, "packets": 0, "late_packets": 0,
            },
            "samples": {
                "at_ns": "10000000 110000000 210000000 250000000",
                "cwnd": "14480 1448 2896 2896",
                "ssthresh": "0 7240 7240 7240",
                "srtt_us": "10000 10000 30000 30000",
                "ca_state": "0 4 0 0",
                "in_flight": "2896 1448 0 0",
                "busy_us": "0 100000 180000 200000",
                "window_limited_us": "0 0 40000 40000",
                "buffer_limited_us": "0 0 0 0",
                "last": { "retransmitted": 2, "timeouts": 1, "min_rtt_us": 10_000, "mss": 1_448 },
            },
        }]})
    }

    /// Account of a link that works longer than the flow lives.
    fn account() -> LinkAccount {
        let report = |event: &str, millis: u64, busy_ns: f64| {
            let dropped = json!({ "loss": 1, "queue": 0, "aqm": 0 });
            let link = json!({ "arrived": 5, "delivered": 4, "dropped": dropped, "busy_ns": busy_ns });
            let at = START + Duration::from_millis(millis);
            let reverse = json!({ "busy_ns": 0.0 });
            let nanos = at.as_secs_f64() * 1e9;
            json!({ "event": event, "monotonic_ns": nanos, "forward": link, "reverse": reverse }).to_string()
        };
        let lines = [("progress", 100, 0.0), ("progress", 300, 100_000_000.0), ("end", 500, 300_000_000.0)];
        let lines = lines.map(|(event, millis, busy)| report(event, millis, busy));
        LinkAccount::read(lines.into_iter()).expect("an account with an end")
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
            ipv6: false,
            offload: true,
            seed: 1,
            bin: Duration::from_millis(100),
            duration: None,
            quiet: Duration::ZERO,
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
            // 75 ms: none by 100 ms, 100 ms by 300 ms. What is left works after the end.
            ("link.forward.utilisation", 0.3),
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
        let (mut counts, all) = (counts(), json!("0 100000 200000 240000"));
        let it = &mut counts["flows"][0]["samples"];
        (it["ca_state"], it["window_limited_us"]) = (json!("0 0 0 0"), json!("0 0 0 0"));
        (it["busy_us"], it["buffer_limited_us"]) = (all.clone(), all);
        let host = self::run(tcp(), &counts).expect("counts").metrics["a.limit.host"];
        assert!((host - 0.96).abs() < 1e-9, "all but the handshake: {host}");
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
