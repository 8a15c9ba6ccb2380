//! From the counters of a simulation to metrics and series.

use std::collections::BTreeMap;
use std::time::Duration;

use rdt_emulator::{Bitrate, Direction, DropCause, Link, LinkConfig, VaryingRate};
use rdt_sim::{Bins, Mark, Outcome, Simulation, WindowCourse, WireId};

use super::Run;
use super::virtual_time::Placed;
use crate::cell::Physics;
use crate::experiment::{KeepSeries, Measure, WarmUp};
use crate::flow::{Flow, FlowKind};
use crate::record::Series;
use crate::statistics::{jain, mean, mser5};
use crate::theory::{Conditions, airtime_parts};

/// Smallest number of bins for which the rule MSER-5 cuts off a warm-up.
const MIN_BINS_FOR_MSER: usize = 40;

/// Number of timeouts whose times are metrics.
const MAX_TIMEOUTS: usize = 6;

/// A flow's goodput over time.
pub(super) struct Delivered {
    pub(super) bins: Vec<u64>,
    pub(super) start: Duration,
    pub(super) end: Duration,
}

/// Collects the metrics of a repetition.
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
    let mut delivered = Vec::new();
    for placed in flows {
        let it = if placed.flow.kind == FlowKind::Udp {
            datagrams(simulation, placed, ended, &mut run)
        } else {
            transfer(simulation, placed, ended, measure, &mut run)
        };
        let name = format!("{}.goodput", placed.flow.name);
        let bps = || it.bins.iter().map(|bytes| Some(rate(*bytes, measure.series)));
        if keeps_series(measure) {
            run.series.columns.insert(name, bps().collect());
        }
        delivered.push(it);
    }
    together(&delivered, measure.series, &mut run.metrics);
    if let ([placed], [it]) = (flows, &delivered[..]) {
        let changes = after_changes(physics, placed.flow, &it.bins, measure.series);
        let named =
            |(name, time): (&str, Duration)| (format!("{}.{name}", placed.flow.name), time.as_secs_f64());
        run.metrics.extend(changes.into_iter().map(named));
    }
    for (index, wire) in wires.iter().enumerate() {
        let path = simulation.wire(*wire);
        let name = if wires.len() == 1 { "link".to_owned() } else { format!("link{}", index + 1) };
        let now = simulation.epoch() + ended;
        for (direction, it) in [("forward", &path.forward), ("reverse", &path.reverse)] {
            let busy = it.ledger().busy.saturating_sub(it.backlog(now));
            link(&format!("{name}.{direction}"), it, (busy, ended), &mut run.metrics);
        }
        if let Some(queue) = simulation.queue_series(*wire, Direction::Forward) {
            let packets: Vec<f64> = queue.queued.iter().map(|it| number(it.packets)).collect();
            run.metrics.extend(mean(&packets).map(|it| (format!("{name}.forward.queue-mean"), it)));
            let bytes = || queue.queued.iter().map(|it| Some(number(it.bytes))).collect();
            if keeps_series(measure) {
                run.series.columns.insert(format!("{name}.queue"), bytes());
            }
        }
    }
    equal_lengths(&mut run.series);
    run
}

#[allow(clippy::cast_precision_loss, reason = "counters are far below 2^53")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// Returns bits per second.
pub(super) fn rate(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { number(bytes) * 8.0 / time.as_secs_f64() }
}

fn transfer(
    simulation: &Simulation,
    placed: &Placed<'_>,
    ended: Duration,
    measure: &Measure,
    run: &mut Run,
) -> Delivered {
    let node = simulation.sender(placed.from);
    let stats = node.sender.stats();
    let received = simulation.server(placed.to).transfers.get(&placed.from).cloned().unwrap_or_default();
    let completed = received.completed_at.or(node.ended_at.map(|at| at - simulation.epoch()));
    let end = completed.unwrap_or(ended).min(ended);
    let bins = padded(received.goodput.as_ref(), end, measure.series);
    let life = end.saturating_sub(placed.start);
    let cut = warm_up(&bins, placed.flow, placed.start, measure);
    let mut add = |name: &str, value: Option<f64>| {
        let finite = value.filter(|value| value.is_finite());
        run.metrics.extend(finite.map(|value| (format!("{}.{name}", placed.flow.name), value)));
    };
    let skipped: u64 = bins[..cut].iter().sum();
    let cut_time = measure.series.saturating_mul(u32::try_from(cut).unwrap_or(u32::MAX));
    let span = if cut == 0 { life } else { end.saturating_sub(cut_time) };
    let seconds = |time: Duration| time.as_secs_f64();
    add("goodput", Some(rate(received.bytes - skipped, span)));
    add("warm-up", (cut > 0).then(|| seconds(cut_time.saturating_sub(placed.start))));
    add("bytes", Some(number(received.bytes)));
    add("bytes-in-bins", Some(number(bins.iter().sum())));
    add("longest-pause", longest_pause(&bins, measure.series).map(seconds));
    add("completion", completed.map(|at| seconds(at.saturating_sub(placed.start))));
    add("first-byte", received.first_byte_at.map(|at| seconds(at.saturating_sub(placed.start))));
    add("failed", Some(f64::from(u8::from(matches!(node.outcome, Outcome::Failed { .. })))));
    add("retransmitted", Some(number(stats.retransmitted)));
    add("lost", Some(number(stats.lost)));
    add("timeouts", Some(number(stats.timeouts)));
    add("recoveries", Some(number(stats.recoveries)));
    add("spurious", Some(number(stats.spurious)));
    add("ecn-reductions", Some(number(stats.ecn_reductions)));
    add("packets-sent", Some(number(stats.datagrams_sent)));
    add("acks-received", Some(number(stats.datagrams_received)));
    add("rtt-min", stats.min_rtt.map(seconds));
    add("handshake-rtt", stats.handshake_rtt.map(seconds));
    add("waited-window", Some(seconds(stats.waited.peer_window)));
    add("waited-cwnd", Some(seconds(stats.waited.cwnd)));
    add("waited-pacing", Some(seconds(stats.waited.pacing)));
    add("waited-application", Some(seconds(stats.waited.application)));
    if let Some(observers) = &placed.observers {
        let limits = simulation.limits(placed.from, &observers.limits);
        let whole = limits.life().as_secs_f64();
        let parts = [
            ("start", limits.start),
            ("application", limits.application),
            ("recovery", limits.recovery),
            ("window", limits.peer_window),
            ("link", limits.link),
            ("cwnd", limits.cwnd),
            ("host", limits.host),
        ];
        for (part, time) in parts {
            add(&format!("limit.{part}"), Some(time.as_secs_f64() / whole));
        }
        let samples = observers.samples.series();
        let first = cut.min(samples.len());
        let inside = || first..samples.len();
        let column = |values: Vec<f64>| mean(&values[first..]);
        add("cwnd-mean", column(samples.cwnd.iter().map(|bytes| number(*bytes)).collect()));
        add("cwnd-max", samples.cwnd[inside()].iter().max().map(|bytes| number(*bytes)));
        let rtts: Vec<f64> = samples.srtt_s[inside()].iter().copied().filter(|rtt| *rtt > 0.0).collect();
        add(
            "cwnd-min",
            samples.cwnd[inside()].iter().filter(|bytes| **bytes > 0).min().map(|it| number(*it)),
        );
        add("rwnd-min", after_first(&samples.rwnd).iter().min().map(|bytes| number(*bytes)));
        add("rtt-mean", mean(&rtts));
        add("rtt-max", rtts.iter().copied().reduce(f64::max));
        add("in-flight-mean", column(samples.in_flight.iter().map(|bytes| number(*bytes)).collect()));
        let timeouts = observers.marks.marks().into_iter().filter(|(_, mark)| *mark == Mark::Timeout);
        for (index, (at, _)) in timeouts.take(MAX_TIMEOUTS).enumerate() {
            add(&format!("timeout-{}", index + 1), Some(seconds(at.saturating_sub(placed.start))));
        }
        window_course(&observers.window.course(), &mut add);
        if keeps_series(measure) {
            columns(&placed.flow.name, &samples, &mut run.series);
            for (at, mark) in observers.marks.marks() {
                let name = format!("{}.{}", placed.flow.name, mark_word(mark));
                run.series.events.entry(name).or_default().push(at.as_secs_f64());
            }
        }
    }
    Delivered { bins, start: placed.start, end }
}

/// Returns the values from the first that is not zero on.
fn after_first(values: &[u64]) -> &[u64] {
    let first = values.iter().position(|value| *value > 0).unwrap_or(values.len());
    &values[first..]
}

/// Returns the longest time between two bins with bytes, to the width of a bin.
pub(super) fn longest_pause(bins: &[u64], width: Duration) -> Option<Duration> {
    let filled: Vec<usize> = bins.iter().enumerate().filter(|(_, it)| **it > 0).map(|(i, _)| i).collect();
    let longest = filled.windows(2).map(|pair| pair[1] - pair[0] - 1).max()?;
    Some(width.saturating_mul(u32::try_from(longest).unwrap_or(u32::MAX)))
}

/// Adds what the congestion window did after losses and between them. Bytes.
fn window_course(course: &WindowCourse, add: &mut impl FnMut(&str, Option<f64>)) {
    add("cwnd-after-timeout", course.after_timeouts.iter().max().map(|it| number(*it)));
    let halvings = course.halvings.iter().map(|(flight, cwnd, ssthresh)| {
        let half = (*ssthresh).clamp(flight / 2, cwnd / 2);
        half.abs_diff(*ssthresh)
    });
    add("halving-error", halvings.max().map(number));
    let recovered = course.recovered.iter().map(|(cwnd, ssthresh)| cwnd.abs_diff(*ssthresh));
    add("recovered-error", recovered.max().map(number));
    add("growth-per-rtt", (course.round_trips > 0.0).then(|| number(course.growth) / course.round_trips));
}

/// Returns how a flow alone on its link follows the schedules of that link, to the width of a bin.
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
    let Ok(path) = link.to_path_config(|_| Err(String::new())) else { return Vec::new() };
    let link = if flow.reverse { path.reverse } else { path.forward };
    let count = |bins: usize| width.saturating_mul(u32::try_from(bins).unwrap_or(u32::MAX));
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

fn columns(flow: &str, samples: &rdt_sim::Series, series: &mut Series) {
    let mut add = |name: &str, values: Vec<Option<f64>>| {
        series.columns.insert(format!("{flow}.{name}"), values);
    };
    let all = |values: &[u64]| values.iter().map(|value| Some(number(*value))).collect();
    add("cwnd", all(&samples.cwnd));
    add("ssthresh", samples.ssthresh.iter().map(|it| it.map(number)).collect());
    add("srtt", samples.srtt_s.iter().map(|it| (*it > 0.0).then_some(*it)).collect());
    add("in-flight", all(&samples.in_flight));
    add("rwnd", all(&samples.rwnd));
}

fn datagrams(simulation: &Simulation, placed: &Placed<'_>, ended: Duration, run: &mut Run) -> Delivered {
    let source = simulation.source(placed.from);
    let arrived = simulation.sink(placed.to).sources.get(&placed.from).cloned().unwrap_or_default();
    let end = placed.flow.stop.unwrap_or(ended).min(ended);
    let life = end.saturating_sub(placed.start);
    let mut add = |name: &str, value: Option<f64>| {
        let finite = value.filter(|value| value.is_finite());
        run.metrics.extend(finite.map(|value| (format!("{}.{name}", placed.flow.name), value)));
    };
    add("goodput", Some(rate(arrived.bytes, life)));
    add("offered", Some(rate(source.sent_bytes(), life)));
    add("sent", Some(number(source.sent)));
    add("delivered", Some(number(arrived.packets)));
    add("blocked", Some(source.blocked.as_secs_f64()));
    add("jitter", Some(arrived.jitter_s));
    add("longest-gap", Some(arrived.longest_gap.as_secs_f64()));
    add("reordered", Some(number(arrived.reordered)));
    add("delay-mean", arrived.mean_delay().map(|it| it.as_secs_f64()));
    add("delay-max", (arrived.packets > 0).then_some(arrived.max_delay.as_secs_f64()));
    let mut by_cause: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, cause, packets) in simulation.drops(placed.from, placed.to) {
        *by_cause.entry(cause.name()).or_default() += packets;
    }
    let lost: u64 = by_cause.values().sum();
    for (cause, packets) in &by_cause {
        add(&format!("lost-{cause}"), Some(number(*packets)));
    }
    add("lost", Some(number(lost)));
    add("loss", (source.sent > 0).then(|| number(lost) / number(source.sent)));
    let width = Duration::from_secs_f64(run.series.bin_s);
    Delivered { bins: padded(arrived.goodput.as_ref(), ended, width), start: placed.start, end }
}

/// Returns the bins up to `end`, filled with zeros.
fn padded(bins: Option<&Bins>, end: Duration, width: Duration) -> Vec<u64> {
    let mut values = bins.map_or_else(Vec::new, |bins| bins.bytes().to_vec());
    let wanted = usize::try_from(end.as_nanos().div_ceil(width.as_nanos().max(1))).unwrap_or(0);
    values.resize(wanted.max(values.len()), 0);
    values
}

/// Returns the number of bins from time 0 on that are left out of the means of a flow without end.
pub(super) fn warm_up(bins: &[u64], flow: &Flow, start: Duration, measure: &Measure) -> usize {
    if flow.bytes.is_some() || flow.rate.is_some() {
        return 0;
    }
    let whole =
        |time: Duration| usize::try_from(time.as_nanos() / measure.series.as_nanos().max(1)).unwrap_or(0);
    let cut = match measure.warm_up {
        WarmUp::Time(time) if time.is_zero() => return 0,
        WarmUp::Time(time) => whole(start + time),
        WarmUp::Auto => {
            let first = whole(start);
            let values: Vec<f64> = bins.iter().skip(first).map(|bytes| number(*bytes)).collect();
            if values.len() < MIN_BINS_FOR_MSER {
                return 0;
            }
            match mser5(&values).bins {
                0 => return 0,
                cut => first + cut,
            }
        }
    };
    cut.min(bins.len())
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
    let span = width.saturating_mul(u32::try_from(last - first).unwrap_or(u32::MAX));
    let bytes = |it: &Delivered| it.bins.iter().take(last).skip(first).sum::<u64>();
    let rates: Vec<f64> = flows.iter().map(|it| rate(bytes(it), span)).collect();
    metrics.insert("sum".to_owned(), rates.iter().sum());
    if flows.len() > 1 {
        metrics.extend(jain(&rates).map(|index| ("jain".to_owned(), index)));
    }
}

/// Adds the counters of one direction of a link, which was busy for a part of the repetition.
fn link(name: &str, link: &Link, (busy, ended): (Duration, Duration), metrics: &mut BTreeMap<String, f64>) {
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
    }
}

/// True if the series of a repetition are kept. They take as long to copy as a short transfer runs.
fn keeps_series(measure: &Measure) -> bool {
    measure.keep_series != KeepSeries::None
}

/// Adds the parts of the airtime of a packet of each flow through an 802.11 cell, by the model
/// `airtime`. A flow of datagrams that need fragments has packets of several lengths, and none.
pub(super) fn airtime(physics: &Physics, metrics: &mut BTreeMap<String, f64>) {
    for flow in &physics.flows {
        let conditions = Conditions::of(physics, flow);
        let parts = conditions.and_then(|it| airtime_parts(&it)).into_iter().flatten();
        metrics.extend(parts.map(|(part, seconds)| (format!("{}.airtime.{part}", flow.name), seconds)));
    }
}

/// Makes all columns as long as the longest one.
pub(super) fn equal_lengths(series: &mut Series) {
    let longest = series.columns.values().map(Vec::len).max().unwrap_or(0);
    series.columns.values_mut().for_each(|column| column.resize(longest, None));
}
