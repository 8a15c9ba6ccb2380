//! From the counts of the load program and the account of the path to metrics and series, with the
//! names that they have in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::super::Run;
use super::super::flow_metrics::{
    Datagrams, Delivered, FlowMetrics, Received, bin_start, equal_lengths, keeps_series, link_name, of_flows,
    padded,
};
use super::super::programs::LinkAccount;
use crate::cell::{Physics, path_config};
use crate::experiment::Measure;
use crate::flow::FlowKind;
use crate::load::request::Request;
use crate::load::{CA_CWR, CA_LOSS, CA_RECOVERY, Counts, FlowCounts, Sample};
use crate::statistics::{mean, number};

/// Bits of a packet that fills Ethernet.
const PACKET_BITS: f64 = 12_000.0;
/// A round-trip time longer than the smallest by more than this share is due to a queue.
const QUEUE_SHARE: f64 = 0.1;

/// Collects the metrics of a repetition. `None` if the counts are not those of the request.
pub(super) fn of(
    physics: &Physics,
    request: &Request,
    counts: &Counts,
    accounts: &[LinkAccount],
    measure: &Measure,
) -> Option<Run> {
    let flows = Some(&counts.flows).filter(|flows| flows.len() == request.flows.len())?;
    let mut run = Run::default();
    run.metrics.insert("processor".to_owned(), counts.processor.as_secs_f64());
    run.series.bin_s = measure.series.as_secs_f64();
    let last = flows.iter().filter_map(ended).max().unwrap_or_default();
    let ended = physics.duration.unwrap_or(last);
    of_flows(request.flows.iter().zip(flows), measure, &mut run, |counts, metrics| {
        metrics.count("failed", counts.sent.error.is_some().into());
        match metrics.flow.kind {
            FlowKind::Udp => datagrams(counts, ended, measure, metrics),
            _ => transfer(counts, ended, physics, measure, metrics),
        }
    });
    let start = counts.zero_monotonic.as_secs_f64();
    for (index, account) in accounts.iter().enumerate() {
        let name = link_name(index, accounts.len());
        for (index, direction) in ["forward", "reverse"].into_iter().enumerate() {
            let share = account.utilisation(index, start, ended.as_secs_f64());
            link(&name, direction, &account.end, share, &mut run.metrics);
        }
    }
    equal_lengths(&mut run.series);
    Some(run)
}

/// Returns the time at which a flow ended: its last byte was read or, of datagrams, sent.
fn ended(counts: &FlowCounts) -> Option<Duration> {
    counts.received.completed.or(counts.sent.ended)
}

fn seconds(micros: u64) -> f64 {
    number(micros) / 1e6
}

fn transfer(
    counts: &FlowCounts,
    ended: Duration,
    physics: &Physics,
    measure: &Measure,
    metrics: &mut FlowMetrics<'_>,
) -> Delivered {
    let flow = metrics.flow;
    let (read, sent) = (&counts.received, &counts.sent);
    let end = read.completed.unwrap_or(ended).min(ended);
    let start = flow.start.0;
    let received = Received {
        bytes: read.bytes,
        first_byte: read.first_byte,
        completed: read.completed,
        delivered: Delivered { bins: padded(read.bins.clone(), end, measure.series), start, end },
    };
    let cut = received.add_to(measure, metrics);
    metrics.count("bytes-written", sent.bytes);
    metrics.time("handshake-rtt", sent.handshake);
    let samples = Samples(&counts.samples);
    counters(&samples, metrics);
    samples.means(bin_start(cut, measure.series), metrics);
    if keeps_series(measure) {
        samples.columns(measure.series, metrics);
    }
    let shortest = samples.last().map_or(0.0, |last| seconds(last.min_rtt_us));
    let queue = shortest * (1.0 + QUEUE_SHARE) + packet_time(physics, flow.reverse);
    samples.limits([start, end], sent.handshake.unwrap_or_default(), queue, metrics);
    received.delivered
}

/// Adds the last sample's counters. Events that the kernel does not count are entries into states.
fn counters(samples: &Samples<'_>, metrics: &mut FlowMetrics<'_>) {
    let last = samples.last();
    for (metric, count) in last.into_iter().flat_map(|last| {
        [
            ("retransmitted", Some(last.retransmitted)),
            ("spurious", last.rdt.map(|it| it.spurious)),
            ("dsacked", last.duplicated),
            ("packets-sent", Some(last.segments_sent)),
            ("acks-received", Some(last.segments_received)),
            ("mss", Some(last.mss)),
            ("lost", last.rdt.map(|it| it.lost)),
            ("lost-receiver-socket", last.rdt.map(|it| it.lost_to_socket)),
        ]
    }) {
        metrics.add(metric, count.map(number));
    }
    metrics.add("rtt-min", last.map(|last| seconds(last.min_rtt_us)));
    metrics.add("waited-window", last.map(|last| seconds(last.window_limited_us)));
    metrics.add("waited-buffer", last.map(|last| seconds(last.buffer_limited_us)));
    let timeouts = samples.rises(CA_LOSS);
    metrics.count("timeouts", last.and_then(|last| last.timeouts).unwrap_or(timeouts.len() as u64));
    let recoveries = samples.rises(CA_RECOVERY);
    metrics.count(
        "recoveries",
        last.and_then(|last| last.rdt).map_or(recoveries.len() as u64, |it| it.recoveries),
    );
    metrics.count("ecn-reductions", samples.rises(CA_CWR).len() as u64);
    metrics.events("timeout", timeouts);
    metrics.events("fast-retransmit", recoveries);
}

/// Returns the serialisation time of a full packet on the first link, seconds; 0 without a rate.
fn packet_time(physics: &Physics, reverse: bool) -> f64 {
    let link = physics
        .links
        .first()
        .and_then(path_config)
        .map(|config| if reverse { config.reverse } else { config.forward });
    link.and_then(|link| link.highest_rate()).map_or(0.0, |rate| PACKET_BITS / rate.as_bps_f64())
}

struct Samples<'a>(&'a [(Duration, Sample)]);

impl Samples<'_> {
    fn last(&self) -> Option<&Sample> {
        self.0.last().map(|(_, sample)| sample)
    }

    /// Returns the times at which the congestion control enters a state, seconds.
    fn rises(&self, state: u64) -> Vec<f64> {
        let is_rise =
            |pair: &&[(Duration, Sample)]| pair[1].1.ca_state == state && pair[0].1.ca_state != state;
        self.0.windows(2).filter(is_rise).map(|pair| pair[1].0.as_secs_f64()).collect()
    }

    /// Adds the means and extremes of the samples from `from` on.
    fn means(&self, from: Duration, metrics: &mut FlowMetrics<'_>) {
        let samples = &self.0[self.0.partition_point(|(at, _)| *at < from)..];
        let after = |value: fn(&Sample) -> u64| -> Vec<f64> {
            samples.iter().map(|(_, sample)| number(value(sample))).collect()
        };
        let cwnd = after(|it| it.cwnd);
        metrics.add("cwnd-mean", mean(&cwnd));
        metrics.add("cwnd-max", cwnd.iter().copied().reduce(f64::max));
        let rtts: Vec<f64> =
            after(|it| it.srtt_us).iter().filter(|it| **it > 0.0).map(|it| it / 1e6).collect();
        metrics.add("rtt-mean", mean(&rtts));
        metrics.add("rtt-max", rtts.iter().copied().reduce(f64::max));
        metrics.add("in-flight-mean", mean(&after(|it| it.in_flight)));
    }

    /// Adds the first sample of each bin.
    fn columns(&self, width: Duration, metrics: &mut FlowMetrics<'_>) {
        let bin_of = |at: &Duration| usize::try_from(at.as_nanos() / width.as_nanos().max(1)).unwrap_or(0);
        let mut rows: Vec<Option<&Sample>> = vec![None; self.0.last().map_or(0, |(at, _)| bin_of(at) + 1)];
        for (at, sample) in self.0 {
            rows[bin_of(at)].get_or_insert(sample);
        }
        let plain =
            |value: fn(&Sample) -> u64| rows.iter().map(|it| it.map(|it| number(value(it)))).collect();
        let positive = |value: fn(&Sample) -> u64, unit: f64| {
            let values = rows.iter().map(|row| row.map(value).filter(|it| *it > 0));
            values.map(|it| it.map(|it| number(it) / unit)).collect()
        };
        metrics.column("cwnd", plain(|it| it.cwnd));
        metrics.column("ssthresh", positive(|it| it.ssthresh, 1.0));
        metrics.column("srtt", positive(|it| it.srtt_us, 1e6));
        metrics.column("rto", positive(|it| it.rto_us, 1e6));
        metrics.column("in-flight", plain(|it| it.in_flight));
        metrics.column("rwnd", plain(|it| it.peer_window));
    }

    /// Adds for each limit the share of the flow's life in which it bound. The kernel counts the
    /// times of the receiver's window, the send buffer and the application. The rest is the link's
    /// while the round trip is longer than `queue` seconds, and the congestion window's otherwise.
    fn limits(
        &self,
        [start, end]: [Duration; 2],
        handshake: Duration,
        queue: f64,
        metrics: &mut FlowMetrics<'_>,
    ) {
        let mut recovery = 0.0;
        // Times outside recovery. Only sums are exact: the kernel counts in ticks of up to 10 ms.
        let (mut all, mut busy, mut window, mut host) = (0.0, 0.0, 0.0, 0.0);
        let (mut queued, mut unqueued) = (0.0, 0.0);
        for pair in self.0.windows(2) {
            let [(before, old), (at, new)] = pair else { continue };
            let rise = |value: fn(&Sample) -> u64| seconds(value(new).saturating_sub(value(old)));
            let (from, to) = ((*before).max(start + handshake), (*at).min(end));
            let span = to.saturating_sub(from).as_secs_f64();
            if new.ca_state >= CA_RECOVERY {
                recovery += span;
                continue;
            }
            all += span;
            busy += rise(|it| it.busy_us);
            window += rise(|it| it.window_limited_us);
            host += rise(|it| it.buffer_limited_us);
            *(if seconds(new.srtt_us) > queue { &mut queued } else { &mut unqueued }) += span;
        }
        let handshake = handshake.min(end.saturating_sub(start)).as_secs_f64();
        let life = handshake + recovery + all;
        if life <= 0.0 {
            return;
        }
        let application = f64::max(all - busy, 0.0);
        let window = window.min(all - application);
        let host = host.min(all - application - window);
        let rest = all - application - window - host;
        let link = if queued > 0.0 { rest * queued / (queued + unqueued) } else { 0.0 };
        let parts = [handshake, application, recovery, window, link, rest - link, host];
        metrics.limits(parts, life);
    }
}

fn datagrams(
    counts: &FlowCounts,
    ended: Duration,
    measure: &Measure,
    metrics: &mut FlowMetrics<'_>,
) -> Delivered {
    let (sent, received) = (&counts.sent, &counts.received);
    let flow = metrics.flow;
    let start = flow.start.0;
    let end = flow.stop.unwrap_or(ended).min(ended);
    let datagrams = Datagrams {
        sent: sent.packets,
        sent_bytes: sent.bytes,
        // Datagrams that arrive after the end are not lost.
        lost: sent.packets.saturating_sub(received.datagrams.delivered + received.late_packets),
        blocked: sent.blocked,
        ..received.datagrams
    };
    datagrams.add_to(end.saturating_sub(start), metrics);
    metrics.count("bytes", received.bytes);
    metrics.count("refused", sent.refused);
    Delivered { bins: padded(received.bins.clone(), ended, measure.series), start, end }
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
    use crate::load::{Received as ReceivedCounts, Sent};

    /// Time 0 of the flows on the system's monotonic clock.
    const START: Duration = Duration::from_secs(7);

    /// Counts of a transfer of 3,000 bytes in 0.25 s with one timeout.
    fn counts() -> Counts {
        let millis = Duration::from_millis;
        let last = Sample {
            retransmitted: 2,
            timeouts: Some(1),
            min_rtt_us: 10_000,
            mss: 1_448,
            ..Sample::default()
        };
        let sample = |at,
                      [cwnd, ssthresh, srtt_us, ca_state, in_flight, busy_us, window_limited_us]: [u64;
                          7]| {
            let sample =
                Sample { ca_state, cwnd, ssthresh, in_flight, srtt_us, busy_us, window_limited_us, ..last };
            (millis(at), sample)
        };
        let samples = vec![
            sample(10, [14_480, 0, 10_000, 0, 2_896, 0, 0]),
            sample(110, [1_448, 7_240, 10_000, 4, 1_448, 100_000, 0]),
            sample(210, [2_896, 7_240, 30_000, 0, 0, 180_000, 40_000]),
            sample(250, [2_896, 7_240, 30_000, 0, 0, 200_000, 40_000]),
        ];
        let (mut sent, mut received) = (Sent::default(), ReceivedCounts::default());
        (sent.handshake, sent.bytes, sent.ended) = (Some(millis(10)), 3_000, Some(millis(200)));
        (received.bytes, received.bins) = (3_000, vec![1_000, 0, 2_000]);
        (received.first_byte, received.completed) = (Some(millis(20)), Some(millis(250)));
        let flows = vec![FlowCounts { sent, received, samples }];
        Counts { flows, processor: Duration::ZERO, zero_monotonic: START }
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

    fn run(flow: Flow, counts: &Counts) -> Option<Run> {
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

    /// TCP reports segments that arrived twice, rdt episodes of recovery that lost nothing.
    #[test]
    fn spurious_and_dsacked_are_two_metrics() {
        let metrics = |change: fn(&mut Sample)| {
            let mut counts = counts();
            counts.flows[0].samples.iter_mut().for_each(|(_, sample)| change(sample));
            let run = run(tcp(), &counts).expect("counts of the request");
            ["spurious", "dsacked", "lost", "lost-receiver-socket"]
                .map(|name| run.metrics.get(&format!("a.{name}")).copied())
        };
        let kernel = metrics(|sample| sample.duplicated = Some(2));
        assert_eq!(kernel, [None, Some(2.0), None, None]);
        let rdt = metrics(|sample| {
            let counters = sample.rdt.get_or_insert_default();
            (counters.spurious, counters.lost, counters.lost_to_socket) = (3, 5, 1);
        });
        assert_eq!(rdt, [Some(3.0), None, Some(5.0), Some(1.0)]);
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
        let mut counts = counts();
        let limited = [0, 100_000, 200_000, 240_000];
        for ((_, sample), all) in counts.flows[0].samples.iter_mut().zip(limited) {
            (sample.ca_state, sample.window_limited_us) = (0, 0);
            (sample.busy_us, sample.buffer_limited_us) = (all, all);
        }
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
        let flow = &mut counts.flows[0];
        flow.sent.packets = 10;
        (flow.received.datagrams.delivered, flow.received.late_packets) = (7, 2);
        let udp = Flow { kind: FlowKind::Udp, rate: Some(1_000_000), ..Flow::new("a") };
        let run = run(udp, &counts).expect("counts of the request");
        assert_eq!((run.metrics["a.lost"], run.metrics["a.loss"]), (1.0, 0.1));
    }

    #[test]
    fn counts_of_other_flows_are_refused() {
        assert!(run(tcp(), &Counts::default()).is_none());
        let mut twice = counts();
        twice.flows.push(FlowCounts::default());
        assert!(run(tcp(), &twice).is_none());
    }
}
