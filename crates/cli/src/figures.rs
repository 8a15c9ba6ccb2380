//! What a server, its links and its sockets counted, as lines and as JSON.

use std::time::Duration;

use rdt_driver::{Offload, UdpStats};
use rdt_emulator::Ledger;
use rdt_server::ServerStats;
use serde_json::{Value, json};

use crate::status::micros;

/// Packets that leave a link by more than this too late, at the 99th percentile, mean that the host did not
/// keep up.
const LATE: Duration = Duration::from_millis(1);

/// What the links did, for people.
pub(crate) fn link_lines(stats: &ServerStats) -> Vec<String> {
    let mut lines = vec![ledger_line("forward", &stats.forward), ledger_line("reverse", &stats.reverse)];
    let late = &stats.lateness;
    if late.count() > 0 {
        let us = |q: f64| late.quantile(q).as_secs_f64() * 1e6;
        lines.push(format!(
            "lateness of the link: p50 {:.0} us, p99 {:.0} us, max {:.0} us over {} packets",
            us(0.5),
            us(0.99),
            late.max().as_secs_f64() * 1e6,
            late.count(),
        ));
    }
    if fell_behind(stats) {
        lines.push(
            "this host did not keep up with the link: packets left it over 1 ms late; measured times are too long"
                .into(),
        );
    }
    lines
}

fn fell_behind(stats: &ServerStats) -> bool {
    stats.lateness.quantile(0.99) > LATE || stats.outgoing_dropped > 0
}

fn ledger_line(direction: &str, ledger: &Ledger) -> String {
    format!(
        "{direction} link: {} sent = {} delivered + {} lost + {} dropped (queue full) + {} dropped (memory) + {} discarded + {} in flight",
        ledger.sent,
        ledger.delivered,
        ledger.dropped_loss,
        ledger.dropped_queue,
        ledger.dropped_memory,
        ledger.discarded,
        ledger.in_flight,
    )
}

/// Everything that a server counted, with units in the keys.
pub(crate) fn stats_json(stats: &ServerStats) -> Value {
    let (listener, receivers) = (&stats.listener, &stats.listener.receivers);
    let late = &stats.lateness;
    json!({
        "senders": listener.admitted,
        "max_active": listener.max_active,
        "memory_held_max_bytes": listener.max_memory + stats.max_link_memory,
        "datagrams_received": listener.received,
        "dropped": {
            "malformed": listener.malformed,
            "too_long": listener.too_long,
            "no_connection": listener.no_connection,
            "refused": listener.refused,
            "out_of_range": receivers.out_of_range,
            "no_memory": receivers.no_memory,
            "unexpected": receivers.unexpected,
            "outgoing": stats.outgoing_dropped,
        },
        "data_packets": receivers.data,
        "duplicates": receivers.duplicates,
        "out_of_order": receivers.out_of_order,
        "forward": ledger_json(&stats.forward),
        "reverse": ledger_json(&stats.reverse),
        "lateness_p50_ns": nanos(late.quantile(0.5)),
        "lateness_p99_ns": nanos(late.quantile(0.99)),
        "lateness_max_ns": nanos(late.max()),
        "fell_behind": fell_behind(stats),
    })
}

/// Everything that a socket counted.
pub(crate) fn socket_json(stats: &UdpStats, offload: Offload) -> Value {
    json!({
        "sent": stats.sent,
        "send_calls": stats.send_calls,
        "received": stats.received,
        "receive_calls": stats.receive_calls,
        "blocked": stats.blocked,
        "lost_no_buffers": stats.lost_no_buffers,
        "lost_too_big": stats.lost_too_big,
        "lost_other": stats.lost_other,
        "unreachable": stats.unreachable,
        "receive_overflow": stats.receive_overflow,
        "receive_buffer_bytes": stats.receive_buffer,
        "send_buffer_bytes": stats.send_buffer,
        "send_call": offload.send_call.name(),
        "send_segments": offload.send_segments,
        "receive_segments": offload.receive_segments,
    })
}

pub(crate) fn ledger_json(ledger: &Ledger) -> Value {
    json!({
        "sent": ledger.sent,
        "delivered": ledger.delivered,
        "dropped_loss": ledger.dropped_loss,
        "dropped_queue": ledger.dropped_queue,
        "dropped_memory": ledger.dropped_memory,
        "discarded": ledger.discarded,
        "in_flight": ledger.in_flight,
        "delivered_bytes": ledger.delivered_bytes,
        "busy_us": micros(ledger.busy),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
