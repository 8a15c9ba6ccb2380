//! From the counters of a simulation to metrics and series.

use std::collections::BTreeMap;
use std::time::Duration;

use rdt_emulator::spec::PathSpec;
use rdt_emulator::{Bitrate, Direction, DropCause, Link, LinkConfig, VaryingRate};
use rdt_sim::{Arrived, Bins, Limits, Mark, Outcome, Simulation, Transfer, WindowHistory, WireId};
use rdt_transport::{Closed, SenderStats};

use super::Run;
use super::flow_metrics::{
    Datagrams, Delivered, FlowMetrics, Received, bin_start, equal_lengths, keeps_series, link_name, of_flows,
    padded,
};
use super::placed::{Observers, Placed};
use super::words::sender;
use crate::cell::{Physics, path_config};
use crate::experiment::Measure;
use crate::flow::{Flow, FlowKind, UDP_HEADERS};
use crate::statistics::{number, quantile};
use crate::theory::{Conditions, airtime_parts};

/// Number of timeouts whose times are metrics.
const MAX_TIMEOUTS: usize = 6;

pub(super) fn of(
    simulation: &Simulation,
    flows: &[Placed<'_>],
    wires: &[WireId],
    physics: &Physics,
    measure: &Measure,
) -> Run {
    let ended = physics.duration.unwrap_or_else(|| simulation.elapsed());
    let mut run = Run { hash: Some(simulation.hash()), ..Run::default() };
    run.series.bin_s = measure.series.as_secs_f64();
    let each = |placed: &Placed<'_>, metrics: &mut FlowMetrics<'_>| match placed.flow.kind {
        FlowKind::Udp => datagrams(simulation, placed, ended, measure, metrics),
        _ => transfer(simulation, placed, ended, measure, metrics),
    };
    let delivered = of_flows(flows.iter().map(|it| (it.flow, it)), measure, &mut run, each);
    if let ([placed], [(_, it)]) = (flows, &delivered[..]) {
        let mut metrics = FlowMetrics { flow: placed.flow, run: &mut run };
        for (name, time) in after_changes(physics, placed.flow, &it.bins, measure.series) {
            metrics.time(name, Some(time));
        }
    }
    for (index, wire) in wires.iter().enumerate() {
        let name = link_name(index, wires.len());
        links(simulation, (&name, *wire, headers(&physics.links[index])), ended, measure, &mut run);
    }
    equal_lengths(&mut run.series);
    run
}

/// Returns the bytes of IP and transport headers that a path counts for each packet.
fn headers(path: &PathSpec) -> u32 {
    let mut path = path.clone();
    path.assume_headers(UDP_HEADERS);
    path_config(&path).map_or(0, |config| config.forward.overhead)
}

/// Adds the counters of both directions of a wire, and the length of its queue over time.
fn links(
    simulation: &Simulation,
    (name, wire, headers): (&str, WireId, u32),
    ended: Duration,
    measure: &Measure,
    run: &mut Run,
) {
    let path = simulation.wire(wire);
    let now = simulation.epoch() + ended;
    for (direction, it) in [("forward", &path.forward), ("reverse", &path.reverse)] {
        let busy = it.ledger().busy.saturating_sub(it.backlog(now));
        link(&format!("{name}.{direction}"), it, headers, (busy, ended), &mut run.metrics);
    }
    let Some(queue) = simulation.queue_series(wire, Direction::Forward) else { return };
    run.metrics.extend(queue.mean_packets().map(|it| (format!("{name}.forward.queue-mean"), it)));
    if keeps_series(measure) {
        let bytes = queue.queued.iter().map(|it| Some(number(it.bytes)));
        run.series.columns.insert(format!("{name}.queue"), bytes.collect());
    }
}

fn transfer(
    simulation: &Simulation,
    placed: &Placed<'_>,
    ended: Duration,
    measure: &Measure,
    metrics: &mut FlowMetrics<'_>,
) -> Delivered {
    let nothing = Transfer::default();
    let Ends { received, over, has_failed, stats, limits } =
        if placed.both_ways { Ends::of_stream(simulation, placed) } else { Ends::of(simulation, placed) };
    let received = received.unwrap_or(&nothing);
    let end = over.unwrap_or(ended).min(ended);
    let received = Received {
        bytes: received.bytes,
        first_byte: received.first_byte_at,
        completed: over.filter(|_| !has_failed),
        delivered: Delivered {
            bins: padded(bytes_of(received.goodput.as_ref()), end, measure.series),
            start: placed.start,
            end,
        },
    };
    let cut = received.add_to(measure, metrics);
    metrics.count("failed", has_failed.into());
    counters(&stats, metrics);
    let drops = simulation.drops(placed.from, placed.to);
    metrics.count("dropped", drops.iter().map(|(_, _, packets)| packets).sum());
    if let (Some(observers), Some(it)) = (&placed.observers, limits) {
        let times = [it.start, it.application, it.recovery, it.peer_window, it.link, it.cwnd, it.host];
        metrics.limits(times.map(|time| time.as_secs_f64()), it.life().as_secs_f64());
        observed(observers, placed.start, cut, metrics);
        if keeps_series(measure) {
            columns(&observers.samples.series(), metrics);
            for (at, mark) in observers.marks.marks() {
                metrics.events(mark_word(mark), [at.as_secs_f64()]);
            }
        }
    }
    received.delivered
}

struct Ends<'a> {
    received: Option<&'a Transfer>,
    /// Time at which the transfer was complete, or failed.
    over: Option<Duration>,
    has_failed: bool,
    stats: SenderStats,
    limits: Option<Limits>,
}

impl<'a> Ends<'a> {
    /// Returns those of a flow with a connection of its own.
    fn of(simulation: &'a Simulation, placed: &Placed<'_>) -> Self {
        let node = simulation.sender(placed.from);
        let received = simulation.server(placed.to).transfers.get(&placed.from);
        let completed = received.and_then(|it| it.completed_at);
        let limits = |it: &Observers| simulation.limits(placed.from, &it.limits);
        Self {
            received,
            over: completed.or(node.ended_at.map(|at| at - simulation.epoch())),
            has_failed: matches!(node.outcome, Outcome::Failed { .. } | Outcome::Closed(_)),
            stats: node.stats(),
            limits: placed.observers.as_ref().map(limits),
        }
    }

    /// Returns those of one direction of a connection, which is the only one of its nodes.
    fn of_stream(simulation: &'a Simulation, placed: &Placed<'_>) -> Self {
        let (node, peer) = (simulation.connections(placed.from), simulation.connections(placed.to));
        let received = peer.exchanges.values().next().map(|it| &it.received);
        let sent = node.exchanges.iter().next();
        let closed = sent.and_then(|(_, it)| it.closed.as_ref());
        let stats = sent.and_then(|(id, _)| node.set.get(*id)).map(|it| it.stats().sender);
        let limits = |it: &Observers| {
            sent.map(|(id, _)| simulation.limits_of_connection(placed.from, *id, &it.limits))
        };
        Self {
            received,
            over: received.and_then(|it| it.completed_at),
            has_failed: closed.is_some_and(|closed| *closed != Closed::Finished),
            stats: stats.unwrap_or_default(),
            limits: placed.observers.as_ref().and_then(limits),
        }
    }
}

fn counters(stats: &SenderStats, metrics: &mut FlowMetrics<'_>) {
    for (name, count) in [
        ("retransmitted", stats.retransmitted),
        ("lost", stats.lost),
        ("timeouts", stats.timeouts),
        ("recoveries", stats.recoveries),
        ("spurious", stats.spurious),
        ("ecn-reductions", stats.ecn_reductions),
        ("packets-sent", stats.datagrams_sent),
        ("bytes-written", stats.bytes_written),
        ("bytes-unacked", stats.bytes_written - stats.bytes_acked),
        ("acks-received", stats.datagrams_received),
    ] {
        metrics.count(name, count);
    }
    for (name, time) in [
        ("rtt-min", stats.min_rtt),
        ("handshake-rtt", stats.handshake_rtt),
        ("waited-window", Some(stats.waited.peer_window)),
        ("waited-cwnd", Some(stats.waited.cwnd)),
        ("waited-pacing", Some(stats.waited.pacing)),
        ("waited-application", Some(stats.waited.application)),
    ] {
        metrics.time(name, time);
    }
}

/// Adds the metrics of the sender's state over time. Samples of the first `cut` bins are warm-up.
fn observed(observers: &Observers, start: Duration, cut: usize, metrics: &mut FlowMetrics<'_>) {
    let summary = observers.samples.summary(cut);
    metrics.add("cwnd-mean", summary.cwnd_mean());
    metrics.add("cwnd-max", summary.cwnd_max.map(number));
    metrics.add("cwnd-min", summary.cwnd_min.map(number));
    let unit = window_unit(metrics.flow);
    metrics.add("rwnd-min", observers.samples.rwnd_min().map(|it| number(it * unit)));
    if metrics.flow.kind == FlowKind::Classic {
        metrics.add("ack-window-error", observers.samples.ack_window_error().map(number));
    }
    metrics.add("rtt-mean", summary.srtt_mean_s());
    metrics.add("rtt-max", summary.srtt_max_s);
    metrics.add("in-flight-mean", summary.in_flight_mean());
    let mut rtts = summary.rtts_s;
    rtts.sort_by(f64::total_cmp);
    // Quantiles beyond which less than one sample is expected are left out.
    for (name, p, least) in [("rtt-p50", 0.5, 2), ("rtt-p90", 0.9, 10), ("rtt-p99", 0.99, 100)] {
        metrics.add(name, quantile(&rtts, p).filter(|_| rtts.len() >= least));
    }
    let timeouts = observers.marks.marks().into_iter().filter(|(_, mark)| *mark == Mark::Timeout);
    for (index, (at, _)) in timeouts.take(MAX_TIMEOUTS).enumerate() {
        metrics.time(&format!("timeout-{}", index + 1), Some(at.saturating_sub(start)));
    }
    window_history(&observers.window.history(), metrics);
}

/// Adds how far the congestion window was from its rules at losses, and its growth, in bytes: after
/// timeouts, and thresholds that are not half of the flight, nor the window after a recovery.
fn window_history(history: &WindowHistory, metrics: &mut FlowMetrics<'_>) {
    let mut add = |name: &str, bytes: Option<u64>| metrics.add(name, bytes.map(number));
    add("cwnd-after-timeout", history.after_timeouts.iter().max().copied());
    let halvings = history.halvings.iter().map(|(flight, cwnd, ssthresh)| {
        let half = (*ssthresh).clamp(flight / 2, cwnd / 2);
        half.abs_diff(*ssthresh)
    });
    add("halving-error", halvings.max());
    let recovered = history.recovered.iter().map(|(cwnd, ssthresh)| cwnd.abs_diff(*ssthresh));
    add("recovered-error", recovered.max());
    let growth = || number(history.growth) / history.round_trips;
    metrics.add("growth-per-rtt", (history.round_trips > 0.0).then(growth));
}

/// Returns how fast a flow alone on a link follows the link's schedules, to the width of a bin.
/// `resumed` is the longest time from the end of an outage until data arrives. `step-lag` is the
/// longest time from a change of the rate until the goodput over half a second is three quarters of
/// the new rate; after an outage it begins with the first data.
fn after_changes(
    physics: &Physics,
    flow: &Flow,
    bins: &[u64],
    width: Duration,
) -> Vec<(&'static str, Duration)> {
    let [link] = &physics.links[..] else { return Vec::new() };
    let Some(path) = path_config(link) else { return Vec::new() };
    let link = if flow.reverse { path.reverse } else { path.forward };
    let count = |bins: usize| bin_start(bins, width);
    let rates: Vec<Option<Bitrate>> = (0..bins.len()).map(|bin| rate_at(&link, count(bin))).collect();
    let changes: Vec<usize> = (1..bins.len()).filter(|bin| rates[*bin] != rates[*bin - 1]).collect();
    let span = usize::try_from(500_000_000 / width.as_nanos().max(1)).unwrap_or(1).max(1);
    let (mut resumed, mut lag) = (None, None);
    for (index, from) in changes.iter().enumerate() {
        let until = changes.get(index + 1).copied().unwrap_or(bins.len());
        let Some(rate) = rates[*from] else { continue };
        let mut begins = *from;
        if rates[*from - 1].is_none() {
            begins = (begins..until).find(|bin| bins[*bin] > 0).unwrap_or(until);
            resumed = resumed.max(Some(begins + 1 - from));
        }
        let reached = (begins + span..=until).find(|end| {
            let bytes = number(bins[end - span..*end].iter().sum());
            bytes * 8.0 >= 0.75 * rate.as_bps_f64() * count(span).as_secs_f64()
        });
        lag = lag.max(Some(reached.unwrap_or(until) - begins));
    }
    let named = [("resumed", resumed), ("step-lag", lag)];
    named.into_iter().filter_map(|(name, bins)| Some((name, count(bins?)))).collect()
}

/// Returns the rate of a link with a schedule. `None` in an outage, and for other links.
fn rate_at(link: &LinkConfig, time: Duration) -> Option<Bitrate> {
    let rate = match &link.varying {
        Some(VaryingRate::Steps(steps)) => steps.at(time),
        Some(_) => None,
        None => link.rate,
    };
    rate.filter(|_| !link.outage.is_down(time))
}

fn mark_word(mark: Mark) -> &'static str {
    match mark {
        Mark::FastRetransmit => "fast-retransmit",
        Mark::TimeoutRecovery => "timeout-recovery",
        Mark::Timeout => "timeout",
        Mark::Recovered => "recovered",
        Mark::SpuriousUndone => "spurious-undone",
        Mark::ProbeRepaired => "probe-repaired",
        Mark::EcnReduced => "ecn-reduced",
        Mark::Retransmission => "retransmission",
    }
}

fn columns(samples: &rdt_sim::Series, metrics: &mut FlowMetrics<'_>) {
    let plain = |values: &[u64]| values.iter().map(|it| Some(number(*it))).collect();
    metrics.column("cwnd", plain(&samples.cwnd));
    metrics.column("ssthresh", samples.ssthresh.iter().map(|it| it.map(number)).collect());
    metrics.column("srtt", samples.srtt_s.iter().map(|it| (*it > 0.0).then_some(*it)).collect());
    metrics.column("in-flight", plain(&samples.in_flight));
    let unit = window_unit(metrics.flow);
    metrics.column("rwnd", samples.rwnd.iter().map(|it| Some(number(it * unit))).collect());
}

/// Returns the bytes that a unit of the receive window stands for: a packet in the classic format.
fn window_unit(flow: &Flow) -> u64 {
    let is_classic = flow.kind == FlowKind::Classic;
    sender(flow, 0).ok().filter(|_| is_classic).map_or(1, |config| config.payload_size() as u64)
}

fn datagrams(
    simulation: &Simulation,
    placed: &Placed<'_>,
    ended: Duration,
    measure: &Measure,
    metrics: &mut FlowMetrics<'_>,
) -> Delivered {
    let source = simulation.source(placed.from);
    let nothing = Arrived::default();
    let arrived = simulation.sink(placed.to).sources.get(&placed.from).unwrap_or(&nothing);
    let end = placed.flow.stop.unwrap_or(ended).min(ended);
    let mut by_cause: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, cause, packets) in simulation.drops(placed.from, placed.to) {
        *by_cause.entry(cause.name()).or_default() += packets;
    }
    for (cause, packets) in &by_cause {
        metrics.count(&format!("lost-{cause}"), *packets);
    }
    let counts = Datagrams {
        sent: source.sent,
        sent_bytes: source.sent_bytes(),
        lost: by_cause.values().sum(),
        blocked: source.blocked,
        ..arrived.into()
    };
    counts.add_to(end.saturating_sub(placed.start), metrics);
    let bins = padded(bytes_of(arrived.goodput.as_ref()), ended, measure.series);
    Delivered { bins, start: placed.start, end }
}

fn bytes_of(bins: Option<&Bins>) -> Vec<u64> {
    bins.map_or_else(Vec::new, |bins| bins.bytes().to_vec())
}

/// Adds the counters of one direction of a link, and its utilisation until `ended`. The link's
/// packets have `headers` bytes of headers.
fn link(
    name: &str,
    link: &Link,
    headers: u32,
    (busy, ended): (Duration, Duration),
    metrics: &mut BTreeMap<String, f64>,
) {
    let ledger = link.ledger();
    let mut add = |key: &str, value: f64| metrics.insert(format!("{name}.{key}"), value);
    add("sent", number(ledger.sent));
    add("delivered", number(ledger.delivered));
    for cause in DropCause::ALL {
        let packets = ledger.dropped(cause);
        if packets > 0 || matches!(cause, DropCause::Loss | DropCause::QueueFull) {
            add(&format!("dropped-{}", cause.name()), number(packets));
        }
    }
    add("marked", number(ledger.marked));
    add("queue-max", number(ledger.max_occupancy));
    if !ended.is_zero() {
        add("utilisation", busy.as_secs_f64() / ended.as_secs_f64());
    }
    if ledger.delivered > 0 {
        add("busy-per-packet", busy.as_secs_f64() / number(ledger.delivered));
        let payload = number(ledger.delivered_bytes) / number(ledger.delivered);
        add("bytes-per-packet", payload + f64::from(headers));
    }
}

/// Adds the parts of the airtime of a full packet of each flow through an 802.11 cell, by the model
/// `airtime`. A flow whose datagrams need fragments has no such packet.
pub(super) fn airtime(physics: &Physics, metrics: &mut BTreeMap<String, f64>) {
    for flow in &physics.flows {
        let conditions = Conditions::of(physics, flow);
        let parts = conditions.and_then(|it| airtime_parts(&it)).into_iter().flatten();
        metrics.extend(parts.map(|(part, seconds)| (format!("{}.airtime.{part}", flow.name), seconds)));
    }
}
