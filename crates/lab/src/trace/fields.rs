//! Figures of a connection: those of `tcptrace -l -r -W` with its labels, and some more.

use super::connection::Connection;
use super::direction::{Direction, Windows};
use super::sequence::{number, seconds};
use super::timeline::{Limit, timeline};

/// Value of a figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A count, or a number of bytes.
    Count(u64),
    /// Seconds.
    Time(f64),
    /// Bytes per second.
    Rate(f64),
    /// No number.
    Text(String),
    /// Not known.
    None,
}

/// Figure of both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Label in the table of text: tcptrace's, where it has the figure.
    pub label: &'static str,
    /// Name in metrics. Empty if the figure is no number.
    pub name: &'static str,
    /// Unit in the table of text.
    pub unit: &'static str,
    /// Values of the first and of the second end.
    pub values: [Value; 2],
}

impl Field {
    /// Returns the number of an end in base units: seconds, bytes, bits per second.
    pub fn number(&self, end: usize) -> Option<f64> {
        match &self.values[end] {
            Value::Count(count) => Some(number(*count)),
            Value::Time(seconds) => Some(*seconds),
            Value::Rate(bytes) => Some(bytes * 8.0),
            Value::Text(_) | Value::None => None,
        }
    }

    /// Returns the value of an end for readers, and its unit.
    pub(super) fn shown(&self, end: usize) -> (String, &'static str) {
        let text = match &self.values[end] {
            Value::Count(count) => count.to_string(),
            Value::Time(s) if self.unit == "ms" => format!("{:.1}", s * 1e3),
            Value::Time(s) => format!("{s:.3}"),
            Value::Rate(rate) => format!("{rate:.0}"),
            Value::Text(text) => text.clone(),
            Value::None => return ("NA".to_owned(), ""),
        };
        (text, self.unit)
    }

    /// Returns the key in JSON: the name and the unit.
    pub fn key(&self) -> String {
        let suffix = match self.unit {
            "Bps" => "_bps",
            "ms" | "secs" => "_s",
            "bytes" if !self.name.ends_with("bytes") => "_bytes",
            _ => "",
        };
        format!("{}{suffix}", self.name)
    }
}

/// Collects the figures.
struct Fields<'a> {
    ends: [&'a Direction; 2],
    fields: Vec<Field>,
}

impl Fields<'_> {
    fn add(
        &mut self,
        label: &'static str,
        name: &'static str,
        unit: &'static str,
        value: impl Fn(&Direction) -> Value,
    ) {
        let values = self.ends.map(value);
        self.fields.push(Field { label, name, unit, values });
    }

    fn count(
        &mut self,
        label: &'static str,
        name: &'static str,
        unit: &'static str,
        value: impl Fn(&Direction) -> u64,
    ) {
        self.add(label, name, unit, |it| Value::Count(value(it)));
    }

    /// Adds a time in seconds that is shown in milliseconds.
    fn millis(&mut self, label: &'static str, name: &'static str, value: impl Fn(&Direction) -> f64) {
        self.add(label, name, "ms", |it| Value::Time(value(it)));
    }
}

/// Returns metrics of a connection in base units: figures of the end that sent more data, such as
/// `unique-bytes`, and of its peer, such as `peer.sack-packets`. Shares such as `limit.window`,
/// `stalls` and `stall-max` are those of the same end.
pub fn metrics(connection: &Connection) -> Vec<(String, f64)> {
    let sender = connection.sender();
    let mut out = Vec::new();
    for field in fields(connection).iter().filter(|field| !field.name.is_empty()) {
        for (end, prefix) in [(sender, ""), (1 - sender, "peer.")] {
            out.extend(field.number(end).map(|value| (format!("{prefix}{}", field.name), value)));
        }
    }
    let timeline = timeline(connection, sender);
    for limit in Limit::ALL {
        out.push((format!("limit.{}", limit.word()), timeline.share(limit)));
    }
    out.push(("outstanding-mean".to_owned(), timeline.outstanding()));
    out.push(("stalls".to_owned(), number(timeline.stalls.len() as u64)));
    let longest = timeline.stalls.iter().map(|stall| stall.length_s).fold(0.0, f64::max);
    out.push(("stall-max".to_owned(), longest));
    out
}

/// Returns all figures of a connection, in tcptrace's order.
pub fn fields(connection: &Connection) -> Vec<Field> {
    let [a, b] = &connection.directions;
    let mut it = Fields { ends: [a, b], fields: Vec::new() };
    packets(&mut it);
    data(&mut it);
    let span = seconds(connection.last_ns - connection.first_ns);
    windows(&mut it, span);
    stream(&mut it, span);
    round_trips(&mut it);
    acknowledgements(&mut it);
    more(&mut it, span);
    it.fields
}

const fn flag(flag: bool) -> &'static str {
    if flag { "Y" } else { "N" }
}

fn packets(it: &mut Fields<'_>) {
    it.count("total packets", "packets", "", |it| it.packets);
    it.count("resets sent", "resets", "", |it| it.resets);
    it.count("ack pkts sent", "acks", "", |it| it.acks);
    it.count("pure acks sent", "pure-acks", "", |it| it.pure_acks);
    it.count("sack pkts sent", "sack-packets", "", |it| it.sacks);
    it.count("dsack pkts sent", "dsack-packets", "", |it| it.dsacks);
    it.count("max sack blks/ack", "sack-blocks-max", "", |it| it.most_sack_blocks as u64);
}

fn data(it: &mut Fields<'_>) {
    it.count("unique bytes sent", "unique-bytes", "", |it| it.unique_bytes);
    it.count("actual data pkts", "data-packets", "", |it| it.data_packets);
    it.count("actual data bytes", "data-bytes", "", |it| it.data_bytes);
    it.count("rexmt data pkts", "retransmitted", "", |it| it.retransmitted);
    it.count("rexmt data bytes", "retransmitted-bytes", "", |it| it.retransmitted_bytes);
    it.count("zwnd probe pkts", "zero-window-probes", "", |it| it.probes);
    it.count("zwnd probe bytes", "zero-window-probe-bytes", "", |it| it.probe_bytes);
    it.count("outoforder pkts", "out-of-order", "", |it| it.out_of_order);
    it.count("pushed data pkts", "pushed", "", |it| it.pushed);
    it.add("SYN/FIN pkts sent", "", "", |it| Value::Text(format!("{}/{}", it.syns, it.fins)));
    it.add("req 1323 ws/ts", "", "", |it| {
        Value::Text(format!("{}/{}", flag(it.scale.bits().is_some()), flag(it.timestamps)))
    });
    let [a, b] = it.ends;
    let shifts = [a.shift(b), b.shift(a)].map(|it| Value::Count(it.unwrap_or(0).into()));
    it.fields.push(Field { label: "adv wind scale", name: "window-scale", unit: "", values: shifts });
    it.add("req sack", "", "", |it| Value::Text(flag(it.sack_permitted).to_owned()));
    it.count("sacks sent", "", "", |it| it.sacks);
    it.count("urgent data pkts", "urgent", "pkts", |it| it.urgent);
    it.count("urgent data bytes", "urgent-bytes", "bytes", |it| it.urgent_bytes);
    it.count("mss requested", "mss", "bytes", |it| it.mss.unwrap_or(0).into());
    it.count("max segm size", "segment-max", "bytes", |it| it.largest.into());
    it.count("min segm size", "segment-min", "bytes", |it| it.smallest.unwrap_or(0).into());
    it.count("avg segm size", "segment-mean", "bytes", |it| {
        it.data_bytes.checked_div(it.data_packets).unwrap_or(0)
    });
}

fn windows(it: &mut Fields<'_>, span: f64) {
    it.count("max win adv", "window-max", "bytes", |it| it.window.most.into());
    it.count("min win adv", "window-min", "bytes", |it| it.window.least.into());
    it.count("zero win adv", "zero-windows", "times", |it| it.window.zero);
    let [a, b] = it.ends;
    let means = Windows::means(&a.window, a.packets, &b.window, b.packets);
    it.fields.push(Field {
        label: "avg win adv",
        name: "window-mean",
        unit: "bytes",
        values: means.map(Value::Count),
    });
    it.count("max owin", "in-flight-max", "bytes", |it| it.flight.most);
    it.count("min non-zero owin", "in-flight-min", "bytes", |it| it.flight.least);
    it.count("avg owin", "in-flight-mean", "bytes", |it| it.flight.mean());
    it.add("wavg owin", "in-flight-time-mean", "bytes", |it| {
        it.flight.mean_over(span).map_or(Value::None, Value::Count)
    });
    it.count("initial window", "initial-window-bytes", "bytes", |it| it.initial_bytes);
    it.count("initial window", "initial-window-packets", "pkts", |it| it.initial_packets);
}

/// Returns the length of the stream, bytes: from SYN to FIN, or to the last segment after a reset.
fn stream_length(it: &Direction) -> Option<u64> {
    let (syn, fin) = it.syn.zip(it.fin)?;
    Some(if it.resets > 0 { it.latest } else { fin }.saturating_sub(syn + 1))
}

fn stream(it: &mut Fields<'_>, span: f64) {
    it.add("ttl stream length", "stream-bytes", "bytes", |it| {
        stream_length(it).map_or(Value::None, Value::Count)
    });
    it.add("missed data", "missed-bytes", "bytes", |it| {
        stream_length(it).map_or(Value::None, |all| Value::Count(all.saturating_sub(it.unique_bytes)))
    });
    it.count("truncated data", "truncated-bytes", "bytes", |it| it.truncated_bytes);
    it.count("truncated packets", "truncated", "pkts", |it| it.truncated);
    it.add("data xmit time", "data-time", "secs", |it| Value::Time(data_span(it)));
    it.millis("idletime max", "idle-max", |it| seconds(it.idle_ns));
    it.count("hardware dups", "network-copies", "segs", |it| it.copies);
    it.add("throughput", "throughput", "Bps", |it| rate(it.unique_bytes, span));
}

/// Returns the time from the first to the last data, seconds.
fn data_span(it: &Direction) -> f64 {
    it.first_data_ns.map_or(0.0, |first| seconds(it.last_data_ns.saturating_sub(first)))
}

fn rate(bytes: u64, span: f64) -> Value {
    if span > 0.0 { Value::Rate(number(bytes) / span) } else { Value::None }
}

fn round_trips(it: &mut Fields<'_>) {
    it.count("RTT samples", "rtt-samples", "", |it| it.sequence.rtt.count);
    it.millis("RTT min", "rtt-min", |it| it.sequence.rtt.least());
    it.millis("RTT max", "rtt-max", |it| it.sequence.rtt.most());
    it.millis("RTT avg", "rtt-mean", |it| it.sequence.rtt.mean());
    it.millis("RTT stdev", "rtt-deviation", |it| it.sequence.rtt.deviation());
    it.millis("RTT from 3WHS", "rtt-handshake", |it| it.handshake_ns.map_or(0.0, seconds));
    it.count("RTT full_sz smpls", "rtt-full-samples", "", |it| it.sequence.full.count);
    it.millis("RTT full_sz min", "rtt-full-min", |it| it.sequence.full.least());
    it.millis("RTT full_sz max", "rtt-full-max", |it| it.sequence.full.most());
    it.millis("RTT full_sz avg", "rtt-full-mean", |it| it.sequence.full.mean());
    it.millis("RTT full_sz stdev", "rtt-full-deviation", |it| it.sequence.full.deviation());
}

fn acknowledgements(it: &mut Fields<'_>) {
    it.count("post-loss acks", "acks-after-loss", "", |it| it.sequence.after_loss);
    it.count("ambiguous acks", "acks-ambiguous", "", |it| it.sequence.ambiguous.count);
    it.millis("RTT min (last)", "rtt-ambiguous-min", |it| it.sequence.ambiguous.least());
    it.millis("RTT max (last)", "rtt-ambiguous-max", |it| it.sequence.ambiguous.most());
    it.millis("RTT avg (last)", "rtt-ambiguous-mean", |it| it.sequence.ambiguous.mean());
    it.millis("RTT sdv (last)", "rtt-ambiguous-deviation", |it| it.sequence.ambiguous.deviation());
    it.count("segs cum acked", "acked-cumulatively", "", |it| it.sequence.cumulative);
    it.count("duplicate acks", "duplicate-acks", "", |it| it.sequence.duplicate_acks);
    it.count("triple dupacks", "triple-duplicate-acks", "", |it| it.sequence.triple_duplicates);
    it.count("max # retrans", "retransmissions-max", "", |it| it.sequence.most_retransmissions.into());
    it.millis("min retr time", "retransmission-time-min", |it| it.sequence.retransmission_times.least());
    it.millis("max retr time", "retransmission-time-max", |it| it.sequence.retransmission_times.most());
    it.millis("avg retr time", "retransmission-time-mean", |it| it.sequence.retransmission_times.mean());
    it.millis("sdv retr time", "retransmission-time-deviation", |it| {
        it.sequence.retransmission_times.deviation()
    });
}

/// Adds figures that tcptrace lacks, and rates by other definitions than its.
fn more(it: &mut Fields<'_>, span: f64) {
    it.count("SYN pkts sent", "syns", "", |it| it.syns);
    it.count("FIN pkts sent", "fins", "", |it| it.fins);
    it.count("empty zwnd probes", "empty-zero-window-probes", "", |it| it.empty_probes);
    it.count("keep-alives", "keep-alives", "", |it| it.keep_alives);
    it.count("dropped by path", "dropped", "", |it| it.dropped);
    it.count("frame bytes", "frame-bytes", "bytes", |it| it.frame_bytes);
    it.add("unique/data time", "goodput", "Bps", |it| rate(it.unique_bytes, data_span(it)));
    it.add("data/connection", "data-rate", "Bps", |it| rate(it.data_bytes, span));
    it.add("frames/connection", "frame-rate", "Bps", |it| rate(it.frame_bytes, span));
}
