//! A trace as text for a terminal, and as JSON.

use std::cmp::Reverse;

use serde_json::{Map, Value as Json, json};

use super::Trace;
use super::capture::Torn;
use super::connection::Connection;
use super::fields::{Field, Value, fields};
use super::flows::{MAX_CONNECTIONS, MAX_EVENTS};
use super::sequence::seconds;
use super::timeline::{Stall, timeline};
use crate::report::put;

/// Number of kinds of packets without TCP that are named.
const MAX_KINDS: usize = 6;
/// Number of stalls of a direction that are printed.
const MAX_STALLS: usize = 20;

/// Returns sentences about the file: packets that were left out, and where it is torn.
pub fn remarks(trace: &Trace, file: &str) -> Vec<String> {
    let ignored =
        format!("segments belong to connections beyond the first {MAX_CONNECTIONS}, and are left out");
    let omitted = format!(
        "segments beyond the first {MAX_EVENTS} are in the tables, but not in graphs, stalls and limits: \
         'editcap -c {MAX_EVENTS}' splits the file"
    );
    let counts = [
        (trace.extent.unplaced, "packets have no interface, so they are left out"),
        (trace.extent.timeless, "packets have no time, so they count at the time of the packet before them"),
        (trace.fragments, "IP fragments are left out, because the rest of their packets is missing"),
        (trace.short, "TCP packets have no whole header, so they are left out"),
        (trace.ignored, &ignored),
        (
            trace.hidden,
            "connections appear on a second interface; each counts once, where the data of its sender came first",
        ),
        (trace.connections.iter().map(|it| it.omitted).sum(), &omitted),
    ];
    let counted = counts.iter().filter(|(count, _)| *count > 0);
    let mut out: Vec<String> = others(trace).into_iter().collect();
    out.extend(counted.map(|(count, what)| format!("{count} {what}")));
    if let Some(Torn { offset, ends }) = trace.extent.torn {
        let what = if ends { "it ends within a packet or block" } else { "a block is damaged" };
        out.push(format!(
            "{file} is not whole: {what} at byte {offset}; the {} packets before it are analysed",
            trace.extent.packets
        ));
    }
    out
}

/// Returns a sentence about the packets without TCP that can be read, which names the most frequent
/// kinds.
fn others(trace: &Trace) -> Option<String> {
    let mut kinds: Vec<_> = trace.others.iter().collect();
    kinds.sort_by_key(|(_, count)| Reverse(**count));
    let all = trace.others();
    let named: Vec<String> =
        kinds.iter().take(MAX_KINDS).map(|(kind, count)| format!("{count} {kind}")).collect();
    let rest = kinds.len().saturating_sub(MAX_KINDS);
    let more = if rest > 0 { format!(", {rest} other kinds") } else { String::new() };
    (all > 0).then(|| format!("{all} packets are not TCP, or not readable: {}{more}", named.join(", ")))
}

/// Returns the sentence for a capture without a connection. `None` if it has one.
pub fn nothing(trace: &Trace) -> Option<String> {
    if !trace.connections.is_empty() {
        return None;
    }
    Some(match trace.extent.packets {
        0 => "it has no packets".to_owned(),
        packets => format!("none of its {packets} packets is of a TCP connection"),
    })
}

/// Returns one line for each connection.
pub fn list(trace: &Trace) -> String {
    let mut out = String::new();
    for (index, it) in trace.connections.iter().enumerate() {
        let [a, b] = &it.directions;
        put!(
            out,
            "{:>3}: {} - {}  {:.3} s, {} packets > {} packets <, {} bytes > {} bytes <\n",
            index + 1,
            it.ends[0],
            it.ends[1],
            seconds(it.last_ns - it.first_ns),
            a.packets,
            b.packets,
            a.unique_bytes,
            b.unique_bytes
        );
    }
    out
}

/// Returns the table of a connection, in the form of tcptrace.
pub fn table(trace: &Trace, index: usize) -> String {
    let it = &trace.connections[index];
    let mut out = format!("TCP connection {}:\n", index + 1);
    put!(out, "\thost a:        {}\n\thost b:        {}\n", it.ends[0], it.ends[1]);
    put!(out, "\tcomplete conn: {}\n", completeness(it));
    match &interfaces(trace, it)[..] {
        [] => {}
        [name] => put!(out, "\tinterface:     {name}\n"),
        names => put!(out, "\tinterfaces:    {}\n", names.join(", ")),
    }
    put!(out, "\telapsed time:  {:.6} s\n", seconds(it.last_ns - it.first_ns));
    put!(out, "\ttotal packets: {}\n", it.directions[0].packets + it.directions[1].packets);
    put!(out, "   {:<39}{}\n", "a->b:", "b->a:");
    for field in fields(it) {
        for (value, unit) in [field.shown(0), field.shown(1)] {
            let label = format!("{}:", field.label);
            put!(out, "     {label:<18} {value:>9} {unit:<5}");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// Returns sentences about what limits both directions, and their tables of stalls.
pub fn limits(trace: &Trace, index: usize) -> String {
    let it = &trace.connections[index];
    let mut out = String::new();
    for (sender, name) in [(0, "a->b"), (1, "b->a")] {
        if it.directions[sender].data_packets == 0 {
            continue;
        }
        let timeline = timeline(it, sender);
        for sentence in timeline.sentences(name) {
            put!(out, "{sentence}\n");
        }
        if timeline.stalls.is_empty() {
            continue;
        }
        put!(out, "     stalls of {name}:\n     {:>9} {:>9} {:>7}  cause\n", "begin s", "length s", "probes");
        for stall in timeline.stalls.iter().take(MAX_STALLS) {
            let Stall { begin_s, length_s, probes, cause, is_certain } = stall;
            let doubt = if *is_certain { "" } else { " (less certain)" };
            put!(out, "     {begin_s:>9.3} {length_s:>9.3} {probes:>7}  {}{doubt}\n", cause.name());
        }
        if timeline.stalls.len() > MAX_STALLS {
            put!(out, "     and {} more, which --json lists\n", timeline.stalls.len() - MAX_STALLS);
        }
    }
    out
}

/// Returns the names of the interfaces whose packets a connection has.
fn interfaces(trace: &Trace, connection: &Connection) -> Vec<String> {
    let names = connection.interfaces.iter().map(|interface| trace.extent.name(*interface));
    names.filter(|name| !name.is_empty()).collect()
}

fn completeness(it: &Connection) -> String {
    let [a, b] = &it.directions;
    if a.resets + b.resets > 0 {
        return format!("reset (SYNs: {}, FINs: {})", a.syns + b.syns, a.fins + b.fins);
    }
    if a.syns.min(b.syns) > 0 && a.fins.min(b.fins) > 0 {
        return "yes".to_owned();
    }
    let is_unknown = a.shift(b).is_none() || b.shift(a).is_none();
    let note = if is_unknown { "; without the handshake the window scale is unknown" } else { "" };
    format!("no (SYNs: {}, FINs: {}){note}", a.syns + b.syns, a.fins + b.fins)
}

/// Returns the figures of one direction as JSON. Keys end with their units.
fn direction(fields: &[Field], side: usize) -> Json {
    let mut map = Map::new();
    for field in fields.iter().filter(|field| !field.name.is_empty()) {
        let value = match &field.values[side] {
            Value::Count(count) => Some(Json::from(*count)),
            _ => field.number(side).map(Json::from),
        };
        map.insert(field.key(), value.unwrap_or(Json::Null));
    }
    map.into()
}

/// Returns the figures of a connection as JSON, with limits and stalls.
pub fn connection(trace: &Trace, index: usize) -> Json {
    let it = &trace.connections[index];
    let fields = fields(it);
    let directions = [0, 1].map(|end| {
        let mut figures = direction(&fields, end);
        figures["timeline"] = timeline(it, end).to_json();
        figures
    });
    json!({
        "flow": index + 1,
        "ends": it.ends.map(|end| end.to_string()),
        "interfaces": interfaces(trace, it),
        "duration_s": seconds(it.last_ns - it.first_ns),
        "directions": directions,
    })
}
